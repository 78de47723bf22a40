"""What goes wrong before a stream begins, as an HTTP answer (RFC 9457, problem details)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from interpose.errors import InputError, Reject

MEDIA_TYPE: Final = "application/problem+json"
_MOST_FAULTS: Final = 50


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    errors: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a problem. ``errors``: one line each, a field's path and what is wrong there."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": _title(status),
        "status": status,
        "code": code,
        "detail": detail,
    }
    if errors:
        body["errors"] = [*errors[:_MOST_FAULTS]]
        if len(errors) > _MOST_FAULTS:
            body["errors"].append(f"and {len(errors) - _MOST_FAULTS} more")
    return Response(
        json.dumps(body),
        status,
        {"cache-control": "no-store", "x-content-type-options": "nosniff", **(headers or {})},
        MEDIA_TYPE,
    )


def of_reject(reject: Reject) -> Response:
    """Return a refusal; its message is safe to show. ``Retry-After`` counts whole seconds."""
    headers: dict[str, str] = {}
    if reject.retry_after is not None and math.isfinite(reject.retry_after):
        headers["retry-after"] = str(max(0, math.ceil(reject.retry_after)))
    return problem_response(reject.status, reject.code, reject.message, headers=headers)


def of_input(error: InputError) -> Response:
    """Return what is wrong with an input: paths and reasons, no values."""
    first, *faults = error.message.splitlines()
    return problem_response(400, error.code, first, errors=[line.strip() for line in faults])


def not_ready(detail: str, retry_after: int = 1) -> Response:
    """Return a 503."""
    return problem_response(503, "not-ready", detail, headers={"retry-after": str(retry_after)})


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
