import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from interpose_tool_filter import ToolFilterSettings

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(TEXT)


def test_the_readme_shows_both_kinds_of_tools() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("code", "output"), EXAMPLES, ids=["back-end", "front-end"])
def test_an_example_of_the_readme_prints_what_it_says(code: str, output: str) -> None:
    ran = subprocess.run(  # noqa: S603 - the README's own code
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == (output, "")


def test_the_readme_lists_each_key() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .*? \| .*? \|", TEXT, re.MULTILINE)
    assert rows == list(ToolFilterSettings.model_fields)


def test_the_table_of_the_readme_is_valid() -> None:
    [block] = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    table = tomllib.loads(block)["middleware"]["tool-filter"]
    assert ToolFilterSettings.model_validate(table).hides("delete_rows")
