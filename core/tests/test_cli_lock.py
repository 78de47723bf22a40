"""``interpose lock`` and ``interpose check --locked``: what they write, say and refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import CommandLine

from interpose import __version__

Install = Callable[..., Path]

LAYERS = """
    from collections.abc import Mapping
    from pydantic import BaseModel, SecretStr
    from interpose import Middleware, Settings, Stage

    class TagSettings(Settings):
        words: frozenset[str] = frozenset()
        size: int = 3
        key: SecretStr | None = None
        plain: str = ""
        headers: Mapping[str, SecretStr] = {}

    class Tag(Middleware[TagSettings]):
        stage = Stage.SHAPE

        def on_event(self, ctx, event):
            return event

    class Gate(Middleware):
        stage = Stage.EDGE

        async def around_tool_call(self, ctx, call, call_next):
            return await call_next(call)

        def on_input(self, ctx, run_input):
            return run_input
    """
TOML = """
    [agent]
    use = "scripted"

    [middleware.gate]
    use = "locked_layers:Gate"

    [middleware.tag]
    use = "locked_layers:Tag"
    words = ["b", "a", "c", "d", "e"]
    """


@pytest.fixture
def locked(cli: CommandLine) -> CommandLine:
    """A folder with a configuration, and its lock."""
    cli.write(LAYERS, "locked_layers.py")
    cli.write(TOML)
    assert cli("lock").code == 0
    return cli


def problems(cli: CommandLine, *argv: str) -> list[tuple[str, str]]:
    """Return code and message of each error of ``check --locked``."""
    outcome = cli(*argv, "check", "--locked", "--json")
    report = json.loads(outcome.out)
    errors = [each for each in report["problems"] if each["severity"] == "error"]
    assert outcome.code == (1 if errors else 0)
    assert report["ok"] is not errors
    return [(each["code"], each["message"]) for each in errors]


def text_of(cli: CommandLine, name: str = "interpose.lock") -> str:
    return (cli.folder / name).read_text(encoding="utf-8")


# Writing ---------------------------------------------------------------------------------------


def test_a_lock_says_what_runs(locked: CommandLine) -> None:
    lock = json.loads(text_of(locked))
    digest = lock["agents"]["default"]["layers"][1]["settings"].pop("words")
    assert re.fullmatch("[0-9a-f]{16}", digest)
    assert lock == {
        "schema": 1,
        "distributions": {"interpose": __version__},
        "host": {},
        "agents": {
            "default": {
                "use": "scripted",
                "distribution": "interpose",
                "version": __version__,
                "settings": {},
                "points": ["EVENTS", "RUN"],
                "layers": [
                    {
                        "id": "gate",
                        "middleware": "locked_layers:Gate",
                        "distribution": "in-house code",
                        "version": None,
                        "stage": "edge",
                        "on_failure": "fail",
                        "hooks": ["on_input"],
                        "settings": {},
                    },
                    {
                        "id": "tag",
                        "middleware": "locked_layers:Tag",
                        "distribution": "in-house code",
                        "version": None,
                        "stage": "shape",
                        "on_failure": "fail",
                        "hooks": ["on_event"],
                        "settings": {},
                    },
                ],
                "capabilities": {},
            }
        },
        "providers": {},
        "models": {},
    }


def test_lock_says_what_it_wrote_and_that_in_house_code_has_no_version(cli: CommandLine) -> None:
    cli.write(LAYERS, "locked_layers.py")
    cli.write(TOML)
    assert cli("lock").out == (
        "interpose.lock is written: 1 distribution, 1 agent, 2 layers, "
        "2 parts of in-house code, whose version nobody knows\n"
    )


def test_an_identical_lock_is_not_written_again(locked: CommandLine) -> None:
    path = locked.folder / "interpose.lock"
    # The same lock with other line ends, as git may check it out, is left as it is, too.
    content = path.read_bytes().replace(b"\n", b"\r\n")
    path.write_bytes(content)
    before = path.stat()
    outcome = locked("lock")
    assert outcome.code == 0
    assert outcome.out.startswith("interpose.lock is up to date: ")
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert path.read_bytes() == content
    assert problems(locked) == []


def test_lock_tells_what_changed_since_the_previous_one(locked: CommandLine) -> None:
    locked.write(TOML.replace('["b", "a"', '["x", "a"') + "size = 4\n")
    outcome = locked("lock")
    assert outcome.out.splitlines()[1:] == ["  layer tag: its settings: words changed, size added"]
    assert locked("check", "--locked").code == 0


def test_a_configuration_with_errors_is_not_locked(locked: CommandLine) -> None:
    before = text_of(locked)
    outcome = locked("--set", "middleware.tag.siz=4", "lock")
    assert outcome.code == 1
    assert "error[unknown-setting]" in outcome.err
    assert text_of(locked) == before


def test_warnings_of_a_configuration_go_to_standard_error(cli: CommandLine) -> None:
    cli.write('[agent]\nuse = "scripted"\n[middleware.x]\nuse = "no_module:X"\n')
    outcome = cli("--set", "middleware.x.layer.required=false", "lock")
    assert outcome.code == 0
    assert outcome.err.startswith("warning[failed-import]")


def test_the_lock_stands_beside_the_first_config_file(cli: CommandLine) -> None:
    cli.write('[agent]\nuse = "scripted"\n', "conf/main.toml")
    cli.write("[host]\nstrict = true\n", "over.toml")
    name = str(Path("conf/interpose.lock"))
    outcome = cli("--config", "conf/main.toml", "--config", "over.toml", "lock")
    assert outcome.out.startswith(f"{name} is written: ")
    assert cli("--config", "conf/main.toml", "check", "--locked").out.startswith(
        "error[changed-settings]: the host: its settings: strict removed.\n"
        f"  at {name}\n"
        "  fix: Undo the change, or accept it: run interpose lock, with the same options.\n"
    )


def test_a_lock_can_have_another_name(locked: CommandLine) -> None:
    set_ = ("--set", "middleware.tag.size=9")
    assert locked(*set_, "lock", "--output", "other.lock").code == 0
    assert locked(*set_, "check", "--locked", "other.lock").code == 0
    assert locked(*set_, "check", "--locked").code == 1
    assert locked("check", "--locked", "other.lock").code == 1


def test_a_file_that_is_no_lock_is_spared(locked: CommandLine) -> None:
    before = text_of(locked, "interpose.toml")
    outcome = locked("lock", "--output", "interpose.toml")
    assert outcome.code == 1
    assert "error[invalid-lock]: interpose.toml is there, and is no lock;" in outcome.err
    assert text_of(locked, "interpose.toml") == before


def test_a_damaged_lock_is_replaced(locked: CommandLine) -> None:
    before = text_of(locked)
    locked.write("<<<<<<< HEAD\n" + before, "interpose.lock")
    outcome = locked("lock")
    assert outcome.code == 0
    assert outcome.out.endswith("what changed is not known: the old one could not be read\n")
    assert text_of(locked) == before


def test_a_lock_that_cannot_be_written_leaves_nothing_behind(locked: CommandLine) -> None:
    before = set(locked.folder.iterdir())
    outcome = locked("lock", "--output", "no/such/folder.lock")
    assert outcome.code == 1
    assert "error[cannot-write-lock]: The lock no/such/folder.lock cannot be written: " in (
        outcome.err
    )
    assert set(locked.folder.iterdir()) == before


def test_a_failed_write_leaves_the_old_lock(
    locked: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, files = text_of(locked), set(locked.folder.iterdir())

    def fail(path: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    outcome = locked("--set", "middleware.tag.size=9", "lock")
    assert outcome.code == 1
    assert "No space left on device" in outcome.err
    assert text_of(locked) == before
    assert set(locked.folder.iterdir()) == files


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX modes and links")
def test_a_link_and_the_mode_of_a_lock_are_kept(locked: CommandLine) -> None:
    path = locked.folder / "interpose.lock"
    real = locked.folder / "real.lock"
    path.rename(real)
    real.chmod(0o640)
    path.symlink_to(real)
    assert locked("--set", "middleware.tag.size=9", "lock").code == 0
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert json.loads(real.read_text())["agents"]["default"]["layers"][1]["settings"]["size"]


# Always the same -------------------------------------------------------------------------------


def test_a_lock_is_the_same_in_every_process(locked: CommandLine) -> None:
    locks = set()
    for seed in ("0", "1", "42", "random"):
        (locked.folder / "interpose.lock").unlink()
        subprocess.run(
            [sys.executable, "-m", "interpose", "lock"],
            cwd=locked.folder,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        locks.add((locked.folder / "interpose.lock").read_bytes())
    assert len(locks) == 1


def test_a_set_has_no_order_and_a_variable_counts_as_what_it_says(
    locked: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked.write(TOML.replace('"b", "a", "c"', '"c", "b", "a"'))
    assert problems(locked) == []
    locked.write(TOML + "size = 8\n")
    assert locked("lock").code == 0
    locked.write(TOML)
    monkeypatch.setenv("INTERPOSE__MIDDLEWARE__TAG__SIZE", "8")
    assert problems(locked) == []


def test_a_comment_or_a_moved_table_is_no_difference(locked: CommandLine) -> None:
    head, gate, tag = TOML.split("\n\n")
    locked.write(f"{head}\n\n    # more\n{tag}\n\n{gate}\n")
    assert problems(locked) == []


# Secrets ---------------------------------------------------------------------------------------

SECRETS = """
    key = "%(inline)s"
    plain = { "$env" = "LOCK_CANARY" }
    size = 4

    [middleware.tag.headers]
    authorization = { "$file" = "canary" }
    """


def test_no_secret_is_in_a_lock_and_none_changes_it(
    locked: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock(canary: str) -> str:
        monkeypatch.setenv("LOCK_CANARY", f"{canary}-env")
        locked.write(f"{canary}-file", "canary")
        locked.write(TOML + SECRETS % {"inline": f"{canary}-inline"})
        outcome = locked("lock")
        assert outcome.code == 0
        assert f"{canary}-" not in outcome.out + outcome.err + text_of(locked)
        assert problems(locked) == []
        return text_of(locked)

    first = lock("swordfish")
    settings = json.loads(first)["agents"]["default"]["layers"][1]["settings"]
    secret = {name for name, digest in settings.items() if digest == "secret"}
    assert secret == {"key", "plain", "headers.authorization"}
    assert lock("password") == first
    assert lock("x") == first


def test_a_secret_that_comes_or_goes_is_a_difference(
    locked: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked.write(TOML + 'key = "swordfish"\n')
    assert problems(locked) == [("changed-settings", "layer tag: its settings: key added.")]


def test_the_signing_key_of_the_host_is_locked_without_its_value(locked: CommandLine) -> None:
    assert locked("--set", "host.signing_key=swordfish", "lock").code == 0
    assert json.loads(text_of(locked))["host"] == {"signing_key": "secret"}
    assert problems(locked, "--set", "host.signing_key=another") == []


# Drift -----------------------------------------------------------------------------------------


def test_without_a_difference_all_is_well(locked: CommandLine) -> None:
    outcome = locked("check", "--locked")
    assert outcome.code == 0
    assert outcome.out == "ok: interpose.toml: agent default with 2 layers, as in interpose.lock\n"
    assert locked("check").out == "ok: interpose.toml: agent default with 2 layers\n"


def test_a_difference_is_told_with_its_remedy(locked: CommandLine) -> None:
    outcome = locked("--set", "middleware.tag.size=4", "check", "--locked")
    assert outcome.code == 1
    assert outcome.out == (
        "error[changed-settings]: layer tag: its settings: size added.\n"
        "  at interpose.lock\n"
        "  fix: Undo the change, or accept it: run interpose lock, with the same options.\n"
        "\n"
        "1 problem with interpose.lock.\n"
    )


def test_a_changed_order_names_the_layer_that_moved(locked: CommandLine) -> None:
    locked.write(TOML + 'layer = { before = ["gate"] }\n')
    assert problems(locked) == [
        (
            "changed-order",
            (
                "the order of the layers, outermost first: tag moved: "
                "locked is gate, tag; now tag, gate."
            ),
        )
    ]


def test_layers_that_come_and_go_are_told(locked: CommandLine) -> None:
    locked.write(TOML.replace("[middleware.gate]", "[middleware.guard]"))
    assert problems(locked) == [
        (
            "changed-layers",
            "layer guard: it is new, with locked_layers:Gate (in-house code).",
        ),
        (
            "changed-layers",
            "layer gate: it is gone; locked with locked_layers:Gate (in-house code).",
        ),
    ]


def test_a_layer_that_is_another_middleware_is_told_once(locked: CommandLine) -> None:
    locked.write(TOML.replace("locked_layers:Gate", "locked_layers:Tag") + "size = 3\n")
    assert problems(locked) == [
        (
            "changed-layers",
            (
                "layer gate: locked_layers:Gate (in-house code) is locked, "
                "locked_layers:Tag (in-house code) is used."
            ),
        ),
        ("changed-settings", "layer tag: its settings: size added."),
    ]


@pytest.mark.parametrize(
    ("option", "code", "message"),
    [
        ("stage=content", "changed-layers", 'layer tag: stage "shape" is locked, "content" now.'),
        (
            "on_failure=skip",
            "changed-layers",
            'layer tag: on_failure "fail" is locked, "skip" now.',
        ),
        ("deadline=2", "changed-settings", "layer tag: its settings: layer.deadline added."),
    ],
)
def test_options_of_a_layer_are_locked(
    locked: CommandLine, option: str, code: str, message: str
) -> None:
    assert problems(locked, "--set", f"middleware.tag.layer.{option}") == [(code, message)]


def test_another_agent_offers_other_points_and_calls_other_hooks(locked: CommandLine) -> None:
    assert problems(locked, "--set", "agent.use=loop") == [
        (
            "changed-agents",
            (
                f"agent default: scripted of interpose {__version__} is locked, "
                f"loop of interpose {__version__} is used."
            ),
        ),
        (
            "changed-points",
            "agent default: its points: HISTORY, INTERRUPTS, MODEL, STEP and TOOLS added.",
        ),
        ("changed-points", "layer gate: its hooks that are called: around_tool_call added."),
    ]


def test_a_difference_of_some_agents_says_of_which(locked: CommandLine) -> None:
    two = TOML.replace("[agent]", "[agents.one]") + "\n[agents.two]\nuse = 'scripted'\n"
    locked.write(two)
    told = problems(locked)
    assert [code for code, _ in told] == ["changed-agents"] * 3
    assert told[0][1] == f"agent one: it is new, with scripted of interpose {__version__}."
    assert locked("lock").code == 0
    assert problems(locked, "--set", "middleware.tag.size=5") == [
        ("changed-settings", "layer tag: its settings: size added.")
    ]
    assert problems(locked, "--set", "agents.two.middleware.tag.size=5") == [
        ("changed-settings", "layer tag: its settings: size added (only for agent two).")
    ]


def test_another_version_of_a_distribution_is_told_once(cli: CommandLine, install: Install) -> None:
    code = "from interpose import Middleware\nclass Wave(Middleware):\n    pass\n"
    info = install(
        "acme-wave", "1.0", plugins={"wave": "acme_wave:Wave"}, modules={"acme_wave": code}
    )
    cli.write('[agents.a]\nuse="scripted"\n[agents.b]\nuse="scripted"\n[middleware.wave]\n')
    assert cli("lock").code == 0
    assert json.loads(text_of(cli))["distributions"]["acme-wave"] == "1.0"
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: acme-wave\nVersion: 1.1\n")
    assert problems(cli) == [("changed-version", "acme-wave: 1.0 is locked, 1.1 is installed.")]
    assert cli("lock").out.endswith("\n  acme-wave: 1.0 is locked, 1.1 is installed\n")


def test_a_distribution_that_comes_or_goes_with_its_layer_is_told_with_it(
    cli: CommandLine, install: Install
) -> None:
    code = "from interpose import Middleware\nclass Wave(Middleware):\n    pass\n"
    install("acme-wave", plugins={"wave": "acme_wave:Wave"}, modules={"acme_wave": code})
    cli.write('[agent]\nuse = "scripted"\n')
    assert cli("lock").code == 0
    cli.write('[agent]\nuse = "scripted"\n[middleware.wave]\n')
    assert problems(cli) == [
        ("changed-layers", "layer wave: it is new, with wave of acme-wave 1.0.")
    ]
    assert cli("lock").code == 0
    cli.write('[agent]\nuse = "scripted"\n')
    assert problems(cli) == [
        ("changed-layers", "layer wave: it is gone; locked with wave of acme-wave 1.0.")
    ]


def test_a_plugin_without_a_layer_is_locked(cli: CommandLine, install: Install) -> None:
    hooks = "from interpose import hookimpl\n@hookimpl\ndef interpose_models():\n    return {}\n"
    install("acme-hooks", plugins={"hooks": "acme_hooks"}, modules={"acme_hooks": hooks})
    cli.write('[agent]\nuse = "scripted"\n')
    assert cli("lock").code == 0
    cli.write('[agent]\nuse = "scripted"\n[plugins]\nuse = ["hooks"]\n')
    assert problems(cli) == [("changed-version", "acme-hooks: 1.0 is active, and is not locked.")]
    assert cli("lock").code == 0
    cli.write('[agent]\nuse = "scripted"\n')
    assert problems(cli) == [
        ("changed-version", "acme-hooks: 1.0 is locked, and is not active now.")
    ]


PROVIDERS = """
    from contextlib import asynccontextmanager
    from interpose import Capability, Middleware, Provider

    STORE = Capability("locked/store")

    class Memory(Provider):
        provides = (STORE,)

        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings, ctx):
            ctx.provide(STORE, {})
            yield

    class Disk(Memory):
        pass

    class Keeper(Middleware):
        requires = (STORE,)
    """
STORES = """
    [agent]
    use = "scripted"
    [middleware.keeper]
    use = "locked_providers:Keeper"
    [providers.memory]
    use = "locked_providers:Memory"
    [providers.disk]
    use = "locked_providers:Disk"
    [capabilities]
    "locked/store" = "memory"
    """


def test_another_choice_of_a_provider_is_told(cli: CommandLine) -> None:
    cli.write(PROVIDERS, "locked_providers.py")
    cli.write(STORES)
    assert cli("lock").code == 0
    lock = json.loads(text_of(cli))
    assert lock["agents"]["default"]["capabilities"] == {"locked/store 1": ["provider memory"]}
    assert set(lock["providers"]) == {"disk", "memory"}
    cli.write(STORES.replace('"memory"', '"disk"'))
    assert problems(cli) == [
        (
            "changed-capability",
            "the capability locked/store 1: provider memory is locked, provider disk now.",
        )
    ]
    cli.write(STORES.replace("locked_providers:Disk", "locked_providers:Memory"))
    assert problems(cli) == [
        (
            "changed-parts",
            (
                "provider disk: locked_providers:Disk (in-house code) is locked, "
                "locked_providers:Memory (in-house code) is used."
            ),
        )
    ]
    cli.write(STORES.replace("[providers.disk]", "[providers.other]"))
    assert [code for code, _ in problems(cli)] == ["changed-parts"] * 2


def test_a_model_is_locked_with_its_settings(cli: CommandLine) -> None:
    cli.write('[agent]\nuse="loop"\nmodel="main"\n[models.main]\nuse="scripted"\nturns=["a"]\n')
    assert cli("lock").code == 0
    model = json.loads(text_of(cli))["models"]["main"]
    assert (model["use"], model["version"], set(model["settings"])) == (
        "scripted",
        __version__,
        {"turns"},
    )
    assert problems(cli, "--set", 'models.main.turns=["b"]') == [
        ("changed-settings", "model main: its settings: turns changed.")
    ]


def test_problems_of_the_configuration_come_before_any_lock(locked: CommandLine) -> None:
    assert [code for code, _ in problems(locked, "--set", "middleware.tag.siz=4")] == [
        "unknown-setting"
    ]


# Bad locks -------------------------------------------------------------------------------------


def test_a_missing_lock_is_an_error(locked: CommandLine) -> None:
    (locked.folder / "interpose.lock").unlink()
    outcome = locked("check", "--locked")
    assert outcome.code == 1
    assert outcome.out == (
        "error[missing-lock]: There is no lock interpose.lock.\n"
        f"  at {locked.folder / 'interpose.lock'}\n"
        "  fix: Write one: interpose lock.\n"
        "\n"
        "1 problem with interpose.lock.\n"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not JSON: Expecting value"),
        (b"<<<<<<< HEAD\n{}", "it is not JSON: Expecting value"),
        (b"[" * 100_000, "it is not JSON: "),
        (b'{"schema": 1, "schema": 1}', '"schema" stands twice in a table'),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"[]", "the whole: "),
        (b"{}", "distributions: Field required"),
        (b'{"schema": 0}', "schema: "),
        (
            b'{"schema": 1, "distributions": {"a": 1}, "host": {}, "agents": {}}',
            "distributions.a: Input should be a valid string",
        ),
    ],
)
def test_a_damaged_lock_is_an_error(locked: CommandLine, content: bytes, reason: str) -> None:
    (locked.folder / "interpose.lock").write_bytes(content)
    [(code, message)] = problems(locked)
    assert code == "invalid-lock"
    assert message.startswith("The lock cannot be read: ")
    assert reason in message


def test_a_truncated_lock_is_an_error_that_says_where(locked: CommandLine) -> None:
    locked.write(text_of(locked)[:100], "interpose.lock")
    outcome = locked("check", "--locked")
    assert outcome.code == 1
    assert re.search(r"^error\[invalid-lock\].*\n  at interpose\.lock:\d+:\d+\n", outcome.out)


def test_a_folder_in_place_of_a_lock_is_an_error(locked: CommandLine) -> None:
    (locked.folder / "interpose.lock").unlink()
    (locked.folder / "interpose.lock").mkdir()
    assert [code for code, _ in problems(locked)] == ["invalid-lock"]
    outcome = locked("lock")
    assert outcome.code == 1
    assert "error[cannot-write-lock]" in outcome.err


def test_a_lock_of_a_newer_form_is_an_error(locked: CommandLine) -> None:
    locked.write('{"schema": 2, "unheard": "of"}', "interpose.lock")
    assert problems(locked) == [
        ("newer-lock", "The lock has the form 2; this Interpose reads the form 1.")
    ]


def test_a_lock_that_was_edited_by_hand_is_noticed(locked: CommandLine) -> None:
    locked.write(
        text_of(locked).replace(f'"version": "{__version__}"', '"version": "9"'), "interpose.lock"
    )
    assert [code for code, _ in problems(locked)] == ["changed-lock"]
