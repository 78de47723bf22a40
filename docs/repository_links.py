"""Let pages be read in two places: as files on a code host, and as the site, which is docs/ alone.

* A page that is nothing but an ``{include}`` of a file outside of docs/ becomes that file, so that
  README.md and others are pages of the site.
* A link from any page to such a file leads to its page. A link to another file or folder of the
  repository becomes plain text. A link to what does not exist stays as it is, and the build, which
  is strict, fails.
* The name of a file behind the language of a block, as in ```` ```toml interpose.toml ````, becomes
  the caption of the block.
"""

# ruff: noqa: INP001 - Sphinx reads files, not a package

from __future__ import annotations

import re
from pathlib import Path

from pygments.lexers.data import JsonLexer
from sphinx.application import Sphinx

_INCLUDE = re.compile(r"```\{include\} (\S+)\n```\s*\Z")
_CODE = r"^```.*?^```$|``.+?``|`[^`\n]+`"
_LINK = r"\[(?P<text>(?:`[^`]*`|[^\[\]`])*)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)"
_NAMED = re.compile(r"^```(\w+) (\S+)\n(?=(?!```)[^\0]*?^```$)", re.MULTILINE)
_LINK_OR_CODE = re.compile(f"{_LINK}|{_CODE}", re.MULTILINE | re.DOTALL)


def setup(app: Sphinx) -> dict[str, bool]:
    """Take part in the build."""
    app.connect("source-read", _read)
    app.add_lexer("jsonl", JsonLexer)  # JSON lines
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(docname))
    text, origin = source[0], page
    if included := _included(page, text):
        text, origin = included.read_text(encoding="utf-8"), included
        app.env.note_dependency(str(included))
    text = _relinked(text, origin, Path(app.srcdir))
    source[0] = _NAMED.sub(r"```{code-block} \1\n:caption: \2\n\n", text)


def _included(page: Path, text: str) -> Path | None:
    found = _INCLUDE.match(text)
    return (page.parent / found[1]).resolve() if found else None


def _relinked(text: str, origin: Path, docs: Path) -> str:
    """Return the text of the file ``origin`` with links that hold inside of ``docs``."""
    pages = _pages_outside(docs)

    def link(found: re.Match[str]) -> str:
        if found["path"] is None:  # code
            return found[0]
        target = (origin.parent / found["path"]).resolve()
        page = target if target.is_relative_to(docs) else pages.get(target)
        if page is not None and page.exists():
            inside = page.relative_to(docs).as_posix()
            return f"[{found['text']}](/{inside}{found['anchor'] or ''})"
        return found["text"] if target.exists() else found[0]

    return _LINK_OR_CODE.sub(link, text)


def _pages_outside(docs: Path) -> dict[Path, Path]:
    """Return the pages that stand for files outside of ``docs``, by these files."""
    pages = sorted(docs.glob("project/*.md"))
    found = {_included(page, page.read_text(encoding="utf-8")): page for page in pages}
    return {file: page for file, page in found.items() if file}
