import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(README.read_text(encoding="utf-8"))


def test_the_readme_shows_both_kinds_of_tools() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("code", "output"), EXAMPLES, ids=["back-end", "front-end"])
def test_an_example_of_the_readme_prints_what_it_says(code: str, output: str) -> None:
    ran = subprocess.run(  # noqa: S603 - the README's own code
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == (output, "")
