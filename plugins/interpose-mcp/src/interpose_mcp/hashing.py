"""The hash by which a frame names its server, equal to that of the TypeScript middleware."""

from __future__ import annotations

import json
from hashlib import md5


def server_hash(kind: str, url: str) -> str:
    """Return the MD5, as hex digits, of a server's type (``http`` or ``sse``) and URL.

    Both as they are configured: nothing is normalised, and headers do not count. It is a name and
    protects nothing. A configuration that changes changes it, too: what has to last needs an id.
    """
    told = json.dumps({"type": kind, "url": url}, separators=(",", ":"), ensure_ascii=False)
    return md5(told.encode(), usedforsecurity=False).hexdigest()
