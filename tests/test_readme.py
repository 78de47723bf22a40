"""The README is true: each command and each file of it is tried, section by section.

tests/support/snippets.py tells how. ```` ```sh ```` sets up an environment from an index, so it is
a packaging test; ```` ```text ```` is the end of what the demo prints.
"""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from repository import ROOT, fenced, files
from snippets import Following, environment, shell

README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTIONS: Mapping[str, str] = {
    part.partition("\n")[0]: part for part in re.split(r"^## ", README, flags=re.MULTILINE)[1:]
}
WORKED = (
    "Switch middleware on, in a file",
    "Write a plugin",
    "Embed it in an application",
    "Give it a model and tools",
    "Put a gateway in front of an agent",
    "Mount it in FastAPI with your own login",
)


@pytest.fixture(name="environment", scope="module")
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The variables of an active environment that has what this one has, and takes more."""
    return environment(tmp_path_factory.mktemp("readme") / "venv")


@pytest.mark.parametrize("section", WORKED)
def test_a_section_can_be_followed(
    section: str, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    Following(tmp_path, environment).follow(fenced(SECTIONS[section]))


def test_the_demo_ends_as_the_readme_says(tmp_path: Path, environment: Mapping[str, str]) -> None:
    [(_, said)] = [block for block in fenced(SECTIONS["See it work"]) if block[0] == "text"]
    _, output, _ = shell("interpose demo", tmp_path, environment)
    assert output.partition("What the consumer saw")[2].strip("- \n") == said.strip()


def test_every_block_of_the_readme_is_tried() -> None:
    tried = {"See it work": {"sh", "text"}, "Tests": {"sh"}}
    for title, text in SECTIONS.items():
        if title not in WORKED:
            kinds = {info for info, _ in fenced(text)}
            assert kinds == tried.get(title, set()), title


@pytest.mark.parametrize(
    ("section", "name", "example"),
    [
        (WORKED[0], "interpose.toml", "config/interpose.toml"),
        (WORKED[0], "production.toml", "config/production.toml"),
        (WORKED[0], "capture.jsonl", "config/capture.jsonl"),
        (WORKED[1], "acme-signature/pyproject.toml", "plugin/pyproject.toml"),
        (WORKED[1], "acme-signature/README.md", "plugin/README.md"),
        (
            WORKED[1],
            "acme-signature/src/acme_signature/__init__.py",
            "plugin/src/acme_signature/__init__.py",
        ),
        (WORKED[2], "app.py", "embed/app.py"),
        *(
            (WORKED[3], name, f"loop/{name}")
            for name in (
                "tools.py",
                "layers.py",
                "app.py",
                "hotels.py",
                "interpose.toml",
                "provider.toml",
                "mcp.toml",
            )
        ),
        (WORKED[4], "upstream.toml", "gateway/upstream.toml"),
        (WORKED[4], "interpose.toml", "gateway/interpose.toml"),
        (WORKED[5], "server.py", "fastapi/server.py"),
    ],
)
def test_the_files_of_the_readme_are_the_examples(section: str, name: str, example: str) -> None:
    [block] = (code for info, code in fenced(SECTIONS[section]) if info.endswith(f" {name}"))
    assert block == (ROOT / "examples" / example).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "example", ["config", "embed", "fastapi", "gateway", "langgraph", "loop", "pydantic-ai"]
)
def test_the_commands_of_an_example_run(
    example: str, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    folder = shutil.copytree(ROOT / "examples" / example, tmp_path / example)
    following = Following(folder, environment)
    following.move_ports(["interpose.toml", "upstream.toml"])
    page = (folder / "README.md").read_text(encoding="utf-8")
    following.follow(fenced(page))


@pytest.mark.packaging
def test_the_first_command_shows_the_demo_in_a_fresh_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    for file in files():
        copy = clone / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    [(_, command)] = [block for block in fenced(SECTIONS["See it work"]) if block[0] == "sh"]
    python = Path(sys.executable)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(python)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("INTERPOSE", "PYTHON"))}
    path = f"{tmp_path / 'bin'}{os.pathsep}{clean.get('PATH', '')}"
    status, output, errors = shell(command, clone, {**clean, "PATH": path})
    assert status == 0, errors
    assert "What the consumer saw" in output
