"""The parts of a message: from AG-UI's to what ``pydantic_ai`` sends."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from ag_ui.core import (
    AudioPart,
    ContentPart,
    DataSource,
    DocumentPart,
    ImagePart,
    TextPart,
    UrlSource,
    VideoPart,
)
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    UserContent,
    VideoUrl,
)

from interpose import InvalidModelRequest

Note = Callable[[str], None]
"""Takes what an operator should know."""

_URLS: Final[Mapping[type, Any]] = {
    ImagePart: ImageUrl,
    AudioPart: AudioUrl,
    VideoPart: VideoUrl,
    DocumentPart: DocumentUrl,
}


def contents(parts: Sequence[ContentPart], note: Note) -> list[UserContent]:
    """Return the parts that a provider may be given; ``note`` is told of the others.

    Left out is what would lend the host's own rights to whoever wrote the message: handles of
    files at the provider, and addresses of other kinds than http and https.
    """
    found = [_content(part, note) for part in parts]
    return [each for each in found if each is not None]


def _content(part: ContentPart, note: Note) -> UserContent | None:
    if isinstance(part, TextPart):
        return part.text
    source = part.source
    if isinstance(source, DataSource):
        return BinaryContent(data=_decoded(source.value, part.type), media_type=source.mime_type)
    if isinstance(source, UrlSource):
        scheme = urlsplit(source.value).scheme.lower()
        if scheme in {"http", "https"}:
            url: UserContent = _URLS[type(part)](url=source.value, media_type=source.mime_type)
            return url
        note(f"An address ({part.type}) was left out: it is neither http nor https.")
        return None
    note(f"A handle of a file at the provider ({part.type}) was left out.")
    return None


def _decoded(value: str, kind: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise InvalidModelRequest(f"The data of a part ({kind}) is not base64.") from None
