"""``interpose new``: names are checked, files are written whole or not at all."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import CommandLine

from interpose.cli.parser import parse
from interpose.cli.scaffold.kinds import KINDS
from interpose.cli.scaffold.naming import Names
from interpose.cli.scaffold.writing import core_range, rendered, write
from interpose.errors import StartupError

ALL = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)


def test_the_command_line_knows_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["new", "--help"])
    helped = capsys.readouterr().out
    for kind in KINDS:
        assert parse(["new", "x", "--kind", kind]).kind == kind
        assert re.search(rf"^  {kind} +\w", helped, re.MULTILINE), kind


@ALL
def test_every_token_of_every_template_is_filled(kind: object) -> None:
    names = Names.of("interpose-word-mask")
    for path, text in rendered(names, kind).items():  # type: ignore[arg-type]
        assert not re.search(r"@[A-Za-z]+@", path + text), path


def test_names_follow_from_the_distribution(cli: CommandLine) -> None:
    ran = cli("new", "interpose-word-mask")
    assert ran.code == 0, ran.err
    folder = cli.folder / "interpose-word-mask"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "interpose-word-mask"
    assert project["entry-points"]["interpose"] == {"word-mask": "interpose_word_mask:WordMask"}
    assert f"interpose>={core_range()}" in project["dependencies"]
    assert "class WordMask(" in (folder / "src/interpose_word_mask/layer.py").read_text()
    assert (folder / "src/interpose_word_mask/py.typed").is_file()
    assert "cd interpose-word-mask" in ran.out


def test_a_distribution_may_have_a_name_of_its_own(cli: CommandLine) -> None:
    assert cli("new", "acme-quota", "--kind", "several", "--dir", "here/quota").code == 0
    project = tomllib.loads((cli.folder / "here/quota/pyproject.toml").read_text())["project"]
    assert project["entry-points"]["interpose"] == {"acme-quota": "acme_quota"}
    assert project["entry-points"]["interpose.offers"] == {
        "capability.acme-quota/counts": "acme_quota"
    }


def test_a_local_middleware_is_one_file(cli: CommandLine) -> None:
    ran = cli("new", "tenant-guard", "--kind", "local")
    assert [path.name for path in cli.folder.iterdir()] == ["tenant_guard.py"]
    assert 'use = "tenant_guard:TenantGuard"' in ran.out
    (cli.folder / "interpose.toml").write_text(
        '[agent]\nuse = "scripted"\n[middleware.tenant-guard]\n'
        'use = "tenant_guard:TenantGuard"\nsignature = "Yours, Acme"\n'
    )
    assert cli("run", "hi").out.endswith(" Yours, Acme\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Interpose_Mask", "Write interpose-mask."),
        ("WordMask", "Write word-mask."),
        ("interpose-", "is no name for a plugin"),
        ("../mask", "Write mask."),
        ("9lives", "For example: interpose-word-mask."),
        ("", "For example: interpose-word-mask."),
        ("interpose-ünï", "is no name for a plugin"),
        ("json", 'The module would be "json", a name that Python or many others use.'),
        ("utils", 'The module would be "utils"'),
        ("class", 'The module would be "class"'),
        ("interpose-9x", "For example: interpose-word-mask."),
        ("interpose-none", 'The class would be "None", a name that the code already uses.'),
        ("interpose-layer", 'The class would be "Layer"'),
        ("interpose-in-memory", 'The class would be "InMemory"'),
        ("interpose-é", "For example: interpose-word-mask."),
        ("interpose-scripted", '"scripted" is the id of an agent that Interpose has itself.'),
        ("pydantic", 'A package "pydantic" is here already'),
        ("interpose-redact", "interpose-redact"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_and_nothing_is_written(
    cli: CommandLine, name: str, said: str
) -> None:
    ran = cli("new", name)
    assert ran.code == 1
    assert said in ran.err
    assert "fix:" in ran.err
    assert list(cli.folder.iterdir()) == []


def test_an_id_that_an_installed_plugin_has_is_refused(
    cli: CommandLine, install: Callable[..., Path]
) -> None:
    install("acme-mask", plugins={"mask": "acme_mask"}, modules={"acme_mask": ""})
    ran = cli("new", "interpose-mask")
    assert ran.code == 1
    assert 'The id "mask" belongs to acme-mask 1.0, which is installed.' in ran.err
    assert 'A package "acme_mask" is here already' in cli("new", "acme-mask").err


def test_nothing_is_overwritten(cli: CommandLine) -> None:
    folder = cli.folder / "interpose-mask"
    folder.mkdir()
    (folder / "README.md").write_text("mine")
    ran = cli("new", "interpose-mask")
    assert ran.code == 1
    assert "README.md exists, and would be overwritten." in ran.err
    assert [path.name for path in folder.iterdir()] == ["README.md"]
    assert (folder / "README.md").read_text() == "mine"
    (folder / "README.md").unlink()
    assert cli("new", "interpose-mask").code == 0


@pytest.mark.skipif(os.name == "nt", reason="permissions are another thing there")
def test_what_was_begun_is_taken_back_when_the_disk_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    copied: list[str] = []
    copy = shutil.copyfile

    def failing(source: Path, target: Path) -> None:
        if len(copied) == 2:
            raise OSError(28, "No space left on device")
        copied.append(str(target))
        copy(source, target)

    monkeypatch.setattr("interpose.cli.scaffold.writing.shutil.copyfile", failing)
    with pytest.raises(StartupError, match="No space left on device"):
        write({"a": "1", "deep/er/b": "2", "deep/c": "3"}, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
