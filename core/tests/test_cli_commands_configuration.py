"""``interpose.commands.configuration``: what a command of a plugin is told of the configuration."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import pytest
from commandline import CommandLine

from interpose import StartupError
from interpose.commands import OK, PROBLEMS, Configuration, ConfiguredLayer, configuration

LAYERS = """
from pydantic import SecretStr
from interpose import Capability, Middleware, Settings

class Words(Settings):
    words: str = "none"
    key: SecretStr | None = None

class Say(Middleware[Words]):
    pass

class Plain(Middleware):
    pass

class Needy(Middleware):
    requires = (Capability[str]("acme/gone", version=1),)
"""


def asked(*config: str, options: Sequence[str] = ()) -> Namespace:
    return Namespace(config=list(config), set=list(options), debug=False)


def facts(found: Configuration) -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [
        (
            layer.id,
            layer.middleware.__name__,
            getattr(layer.settings, "words", "-"),
            layer.agents,
        )
        for layer in found.layers
    ]


def test_each_layer_is_there_once_for_each_of_its_settings(cli: CommandLine) -> None:
    cli.write(LAYERS, "acme_layers.py")
    cli.write(
        """
        [agents.one]
        use = "scripted"
        [agents.two]
        use = "scripted"
        [agents.three]
        use = "scripted"
        [agents.four]
        use = "scripted"

        [middleware.say]
        use = "acme_layers:Say"
        words = "base"
        [middleware.plain]
        use = "acme_layers:Plain"
        layer = { agents = ["two"] }
        [middleware.off]
        use = "acme_layers:Plain"
        enabled = false
        [middleware.needy]
        use = "acme_layers:Needy"
        layer = { required = false }

        [agents.two.middleware.say]
        words = "other"
        [agents.three.middleware.say]
        words = "other"
        [agents.four.middleware.say]
        enabled = false
        """
    )
    with configuration(asked()) as found:
        assert facts(found) == [
            ("say", "Say", "base", ("one",)),
            ("say", "Say", "other", ("two", "three")),
            ("plain", "Plain", "-", ("two",)),
        ]
        assert (found.folder, found.files) == (cli.folder, ("interpose.toml",))


def test_the_folder_is_that_of_the_first_file_and_modules_there_can_be_imported(
    cli: CommandLine,
) -> None:
    cli.write("NAME = 'beside'\n", "deep/acme_beside.py")
    cli.write('[agent]\nuse = "scripted"\n', "deep/own.toml")
    cli.write("[host]\nstrict = true\n", "over.toml")
    before = list(sys.path)
    with configuration(asked("deep/own.toml", "over.toml")) as found:
        assert (found.folder, found.files) == (cli.folder / "deep", ("deep/own.toml", "over.toml"))
        import acme_beside  # type: ignore[import-not-found]

        assert acme_beside.NAME == "beside"
    assert sys.path == before


def test_options_alone_are_a_configuration(cli: CommandLine) -> None:
    with configuration(asked(options=["agent.use=scripted"])) as found:
        assert found == Configuration(cli.folder, (), ())


def test_every_problem_is_told_at_once(cli: CommandLine) -> None:
    cli.write(LAYERS, "acme_layers.py")
    cli.write(
        '[agent]\nuse = "scripted"\n'
        '[middleware.say]\nuse = "acme_layers:Say"\nwords = 1\n'
        '[middleware.gone]\nuse = "acme_layers:Gone"\n'
    )
    with pytest.raises(StartupError) as caught, configuration(asked()):
        pytest.fail("it began")
    assert {problem.code for problem in caught.value.problems} == {
        "invalid-setting",
        "missing-attribute",
    }


def test_no_configuration_is_a_problem(cli: CommandLine) -> None:
    with pytest.raises(StartupError, match="no-config"), configuration(asked()):
        pytest.fail(f"it began in {cli.folder}")


def test_it_shows_no_setting_in_its_repr(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_WORDS", "hush-hush")
    cli.write(LAYERS, "acme_layers.py")
    cli.write(
        '[agent]\nuse = "scripted"\n'
        '[middleware.say]\nuse = "acme_layers:Say"\nwords = { "$env" = "ACME_WORDS" }\n'
    )
    with configuration(asked()) as found:
        [layer] = found.layers
        assert isinstance(layer, ConfiguredLayer)
        assert getattr(layer.settings, "words", None) == "hush-hush"
        assert "hush-hush" not in repr(found)


def test_the_codes_are_those_of_every_command() -> None:
    assert (OK, PROBLEMS) == (0, 1)


def test_its_import_is_light() -> None:
    script = (
        "import sys; import interpose.commands\n"
        "heavy = {'pydantic', 'ag_ui', 'loguru', 'rich', 'pluggy', 'importlib_metadata', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_command_uses_it_from_the_command_line(cli: CommandLine, site: Path) -> None:
    info = site / "acme_layers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: acme-layers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[interpose.commands]\nlayers = acme_list\n")
    (site / "acme_list.py").write_text(
        "from interpose.commands import OK, configuration\n"
        "SUMMARY = 'list the layers'\n"
        "def add_arguments(parser): ...\n"
        "def main(arguments):\n"
        "    with configuration(arguments) as found:\n"
        "        print(*[layer.id for layer in found.layers])\n"
        "    return OK\n"
    )
    cli.write(LAYERS, "acme_layers.py")
    cli.write('[agent]\nuse = "scripted"\n[middleware.say]\nuse = "acme_layers:Say"\n', "x.toml")
    assert cli("layers", "--config", "x.toml").out == "say\n"
    outcome = cli("layers", "--config", "x.toml", "--set", "middleware.say.words=1")
    assert (outcome.code, outcome.out) == (1, "")
    assert "error[invalid-setting]: middleware.say.words" in outcome.err
