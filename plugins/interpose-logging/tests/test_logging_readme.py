import re
import subprocess
import sys
import tomllib
from pathlib import Path

from interpose_logging import LoggingSettings

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_readme_lists_each_key_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .*? \| (.*?) \|", README, re.MULTILINE)
    defaults = {
        key: "not given" if field.default is None else f"`{tomlish(field.default)}`"
        for key, field in LoggingSettings.model_fields.items()
    }
    assert dict(rows) == defaults


def tomlish(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


def test_the_tables_of_the_readme_are_valid() -> None:
    tables = [tomllib.loads(block)["middleware"]["logging"] for block in blocks("toml")]
    assert [LoggingSettings.model_validate(table).format for table in tables] == ["text", "json"]


def test_the_code_of_the_readme_runs() -> None:
    [code] = blocks("python")
    ran = subprocess.run(  # noqa: S603 - the README's own code
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
