"""What a docstring says about a function and its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interpose.errors import UsageError

_SECTIONS = re.compile(
    r"""
    ^[ ]*(?:
        (?:Args|Arguments|Parameters|Params|Returns|Return|Yields|Raises|Attributes|Example|Examples
          |Note|Notes)[ ]*:[ ]*$                                      # Google
      | (?:Parameters|Other[ ]Parameters|Returns|Yields|Raises)[ ]*\n[ ]*-{3,}  # NumPy
      | :(?:param|parameter|arg|argument|type|return|returns|rtype|raise|raises)\b    # Sphinx
    )
    """,
    re.MULTILINE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Docs:
    """A description, and what is said about parameters by their name."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def read_docs(function: Callable[..., Any], where: str) -> Docs:
    """Read the docstring: Google, NumPy or Sphinx style, or plain text.

    Needs docstring-parser only when there is something to parse: :class:`UsageError` without it.
    """
    text = inspect.getdoc(function) or ""
    if not _SECTIONS.search(text):
        return Docs(text.strip())
    try:
        import docstring_parser
    except ImportError as error:
        raise UsageError(
            "the docstring describes parameters, and reading it needs docstring-parser",
            where=where,
            hint="pip install 'interpose[loop]', or give description= and parameters=",
        ) from error
    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Docs(text.strip())
    parts = (parsed.short_description, parsed.long_description)
    described = {
        each.arg_name.lstrip("*"): " ".join(each.description.split())
        for each in parsed.params
        if each.description and each.args[:1] != ["attribute"]
    }
    return Docs("\n\n".join(part.strip() for part in parts if part), described)
