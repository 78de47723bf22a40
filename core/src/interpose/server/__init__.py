"""Serve a host over HTTP, by itself or inside an application; needs ``interpose[server]``.

``asgi(host)`` is a whole application, to run by itself or to mount. ``response(run, request)`` is
the answer of one route of your own.
"""

from __future__ import annotations

try:
    import starlette as _starlette  # noqa: F401 - what everything here stands on
except ImportError as error:
    raise ImportError(
        'interpose.server needs Starlette. Install it: pip install "interpose[server]"'
    ) from error

from interpose.server.application import Provide, ServerApp, asgi
from interpose.server.responding import RunResponse, response

__all__ = ["Provide", "RunResponse", "ServerApp", "asgi", "response"]
