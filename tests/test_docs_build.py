"""The site is built from docs/ without a warning, without a network, and without dead links."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

for needed in ("sphinx", "myst_parser", "furo"):
    pytest.importorskip(needed, reason=f"{needed} builds the documentation")

STRICT = ("-W", "--keep-going", "-n", "-q", "-E", "-b", "html")


def build(docs: Path, site: Path) -> tuple[int, str]:
    """Build strictly; return the exit status and the warnings."""
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "sphinx", *STRICT, "-d", site / "doctrees", docs, site / "html"],
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture(name="site", scope="module")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    status, said = build(ROOT / "docs", folder)
    assert (status, said) == (0, "")
    return folder / "html"


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not (site / page.with_suffix(".html")).exists()} == set()


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"<(?:script|img|iframe)[^>]* src=\"https?:|<link[^>]* href=\"https?:")
    pages = [*site.rglob("*.html")]
    assert pages
    assert [str(page) for page in pages if loads.search(page.read_text("utf-8"))] == []
    styles = [path for path in site.rglob("*.css") if "url(http" in path.read_text("utf-8")]
    assert styles == []


def small(folder: Path, pages: dict[str, str]) -> Path:
    """Write a small repository, with the settings of ours."""
    docs = folder / "docs"
    docs.mkdir()
    for name in ("conf.py", "repository_links.py"):
        shutil.copy(ROOT / "docs" / name, docs)
    (folder / "README.md").write_text("# Read me\n\n## First steps\n\nSee [docs](docs/index.md).\n")
    (folder / "code.py").touch()
    for name, text in pages.items():
        page = docs / name
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, encoding="utf-8")
    return docs


GOOD = {
    "index.md": (
        "# All\n\n[one](one.md#a-heading), [a file](../code.py), [read](../README.md#first-steps), "
        "`[no](link.md)`\n\n"
        "```toml interpose.toml\n[agent]\n```\n\n"
        "```{toctree}\none\nproject/readme\n```\n"
    ),
    "one.md": "# One\n\n## A heading\n\n[all](index.md)\n",
    "project/readme.md": "```{include} ../../README.md\n```\n",
}


def test_links_hold_inside_the_site_and_out_of_it(tmp_path: Path) -> None:
    docs = small(tmp_path, GOOD)
    assert build(docs, tmp_path) == (0, "")
    index = (tmp_path / "html/index.html").read_text("utf-8")
    readme = (tmp_path / "html/project/readme.html").read_text("utf-8")
    assert 'href="one.html#a-heading"' in index
    assert 'href="project/readme.html#first-steps"' in index
    assert "a file, " in index
    assert "[no](link.md)" in index
    assert "interpose.toml" in index
    assert 'href="../index.html"' in readme


@pytest.mark.parametrize(
    ("page", "text", "why"),
    [
        ("one.md", "# One\n\n## A heading\n\n[x](two.md)\n", "'two.md'"),
        ("one.md", "# One\n\n## A heading\n\n[x](../none.py)\n", "'../none.py'"),
        ("one.md", "# One\n\n## A heading\n\n[x](index.md#none)\n", "'none'"),
        ("one.md", "# One\n\n## A heading\n\n[x](#none)\n", "'none'"),
        ("one.md", "# One\n", "'a-heading'"),
        ("one.md", "# One\n\n## A heading\n\n```nolanguage\nx\n```\n", "'nolanguage'"),
        ("two.md", "# In no table of contents\n", "toctree"),
        ("index.md", "# All\n\n```{toctree}\nnone\none\nproject/readme\n```\n", "'none'"),
    ],
)
def test_a_mistake_fails_the_build(page: str, text: str, why: str, tmp_path: Path) -> None:
    docs = small(tmp_path, {**GOOD, page: text})
    status, said = build(docs, tmp_path)
    assert status == 1
    assert why in said
