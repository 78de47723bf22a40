"""The public interface changes only when somebody says so."""

import difflib
import os

import public_api
from error_codes import error_codes
from repository import ROOT, distributions

SNAPSHOT = ROOT / "tests/public_api.txt"
HOW = """The public interface differs from tests/public_api.txt.

If the change is meant, see "Compatibility" in CONTRIBUTING.md for what it takes, say it in
core/CHANGELOG.md, and write the snapshot anew:

    INTERPOSE_UPDATE_API=1 python -m pytest tests/test_public_api.py

"""


def test_the_public_interface_is_the_announced_one() -> None:
    current = public_api.render()
    if os.environ.get("INTERPOSE_UPDATE_API") == "1":
        SNAPSHOT.write_text(current, encoding="utf-8")
    announced = SNAPSHOT.read_text(encoding="utf-8") if SNAPSHOT.exists() else ""
    changes = difflib.unified_diff(
        announced.splitlines(), current.splitlines(), "announced", "current", lineterm="", n=1
    )
    assert current == announced, HOW + "\n".join(changes)


def test_every_public_name_is_in_the_snapshot() -> None:
    import interpose

    lines = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    words = {word for line in lines for word in line.replace("(", " ").replace(":", " ").split()}
    assert set(interpose.__all__) - words == set()


def test_every_error_code_is_documented() -> None:
    documented = documented_codes()
    [core] = (each for each in distributions() if each.name == "interpose")
    codes = {each.name: error_codes(each, core) for each in distributions()}
    given = {code for found in codes.values() for code in found}
    assert given - documented == set(), "write a line for each in docs/errors.md"
    assert documented - given == set(), "no code of docs/errors.md is without a source"


def documented_codes() -> set[str]:
    text = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    return {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
