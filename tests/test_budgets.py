"""What costs nothing stays free: imports are counted by ``sys.modules``, never by time."""

import subprocess
import sys

import pytest

HEAVY = ("pydantic", "pydantic_core", "pydantic_settings", "ag_ui", "asyncio", "loguru", "rich")
PLUGINS = (
    "interpose_logging",
    "interpose_mcp",
    "interpose_models",
    "interpose_redact",
    "interpose_tool_filter",
)


SCRIPT = """
import atexit, sys
atexit.register(lambda: print("LOADED", *({watched!r} & sys.modules.keys())))
{code}
"""


def loaded_by(code: str, *watched: str) -> set[str]:
    """Run ``code`` in a fresh interpreter; return which of ``watched`` it imported."""
    script = SCRIPT.format(watched=set(watched), code=code)
    ran = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.splitlines()[-1].split()[1:])


def test_the_measurement_sees_what_is_imported() -> None:
    assert loaded_by("import pydantic, json", "pydantic", "loguru", "json") == {"pydantic", "json"}


def test_importing_interpose_imports_nothing_heavy() -> None:
    assert loaded_by("import interpose", *HEAVY, *PLUGINS, "pluggy", "typing_extensions") == set()


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(option: str) -> None:
    code = f"sys.argv = ['interpose', {option!r}]\nfrom interpose.cli import main\nsys.exit(main())"
    assert loaded_by(code, *HEAVY, *PLUGINS) == set()


def test_a_host_imports_neither_inactive_plugins_nor_the_command_line() -> None:
    code = "from interpose import Host\nHost(agent=type('A', (), {'run': lambda s, i: None})())"
    assert loaded_by(code, *PLUGINS, "rich", "interpose.cli") == set()


def test_the_rules_of_streams_import_no_host() -> None:
    host = ("interpose.host", "interpose.startup.preparing", "pluggy", "loguru", "rich")
    assert loaded_by("import interpose.agui", *host) == set()


@pytest.mark.parametrize(("arguments", "frozen"), [("", ">"), ("['plugins']", "==")])
def test_a_command_keeps_its_imports_from_the_garbage_collector_in_its_own_process_only(
    arguments: str, frozen: str
) -> None:
    code = (
        "import gc\n"
        "before = gc.get_freeze_count()\n"
        "sys.argv = ['interpose', 'plugins']\n"
        "from interpose.cli import main\n"
        f"assert main({arguments}) == 0\n"
        "assert gc.isenabled()\n"
        f"assert gc.get_freeze_count() {frozen} before\n"
    )
    assert loaded_by(code, "interpose.cli.plugins") == {"interpose.cli.plugins"}
