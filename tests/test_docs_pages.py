"""The guides are true: each file, program and command of a page is tried, from top to bottom.

tests/support/snippets.py tells how a page is written. Pages outside the folders below have tests
of their own, as core/tests/test_docs_loop.py for docs/loop.md.
"""

import shutil
from pathlib import Path

import pytest
from repository import ROOT, fenced
from snippets import follow_page, not_run

DOCS = ROOT / "docs"
FOLDERS = ("operators", "authors", "applications", "recipes")
PAGES = {
    page.relative_to(DOCS).as_posix(): page
    for folder in FOLDERS
    for page in sorted((DOCS / folder).rglob("*.md"))
}
SHOWN_ONLY: dict[str, list[str]] = {
    "authors/publishing.md": ["it needs an account at a package index"],
    "operators/upgrading.md": ["it would take newer versions from an index"],
    "recipes/index.md": ["it is part of a file"],
}
"""By page, the reasons of blocks that are not tried. There should be few."""


NEEDS = {"operators/proxy.md": "nginx"}
"""Programs that a page needs and that come with no Python."""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    needed = NEEDS.get(page)
    if needed and shutil.which(needed) is None:
        pytest.skip(f"no {needed} on this machine")
    follow_page(PAGES[page].read_text(encoding="utf-8"), tmp_path)


def test_what_is_not_tried_is_listed_with_its_reason() -> None:
    found = {name: list(not_run(page.read_text("utf-8"))) for name, page in PAGES.items()}
    assert {name: reasons for name, reasons in found.items() if reasons} == SHOWN_ONLY


def has_code(page: Path) -> bool:
    """Say whether a page has a block that is no directive of Sphinx."""
    return any(not info.startswith("{") for info, _ in fenced(page.read_text("utf-8")))


def test_every_other_page_with_code_has_a_test_of_its_own() -> None:
    tested = {path.stem.removeprefix("test_docs_") for path in ROOT.glob("core/tests/test_docs_*")}
    others = [page for page in DOCS.glob("*.md") if has_code(page)]
    assert {page.stem for page in others} - {name.replace("_", "-") for name in tested} == set()


PAGE = """
```toml interpose.toml
[agent]
use = "scripted"
```

```console
$ interpose check
ok: {}
```

```python
print(6 * 7)
```

```text
{}
```
"""


def test_a_page_that_tells_the_truth_passes(tmp_path: Path) -> None:
    follow_page(PAGE.format("interpose.toml...", 42), tmp_path)


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (PAGE.format("another.toml...", 42), "interpose check"),
        ("```console\n$ echo 'a b'\na  b\n```\n", "echo"),
        (PAGE.format("interpose.toml...", 43), r"\.program\.py"),
        ("```console\n$ false\n```\n", "status 1: false"),
        ("```console\n$ echo 'error[x]: none'\nerror[x]: none\n```\n", "status 0: echo"),
        ("```python\nraise SystemExit(3)\n```\n", "status 3: python"),
        ("```text\nSaid by nobody.\n```\n", "an output of no program"),
        ("```sh\nrm -r everything\n```\n", "cannot be tried: sh"),
        ("```\nno language\n```\n", "cannot be tried: no language"),
        ("```console\n$ sleep 9 &\n```\n", "whose port nobody says"),
        ("```python a.py\n```\n<!-- a new folder -->\n```console\n$ ls\na.py\n```\n", "ls"),
    ],
)
def test_a_page_that_does_not_fails(page: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=why):
        follow_page(page, tmp_path)


def test_commands_over_several_lines_and_new_folders_are_followed(tmp_path: Path) -> None:
    page = (
        "```python a/b.py\nprint('b')\n```\n"
        "```console\n$ python \\\n    a/b.py\nb\n$ ls | wc -l\n1\n```\n"
        "<!-- a new folder -->\n"
        "```sh not run: it needs an index\npip install everything\n```\n"
        "```console\n$ ls\n$ echo 'error[x]: no'; (exit 3); echo $?\nerror[x]: no\n3\n```\n"
        "```{toctree}\nanother\n```\n"
    )
    follow_page(page, tmp_path)
    assert list(not_run(page)) == ["it needs an index"]
