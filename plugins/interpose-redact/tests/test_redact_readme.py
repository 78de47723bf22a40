"""The README says what the settings say, and its tables work."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any, get_args

from interpose import Covers
from interpose_redact import RedactSettings
from interpose_redact.entities import _IBAN_COUNTRIES, ENTITIES
from interpose_redact.settings import Action, Cover

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([\w-]+)` \| .*? \| (.*?) \|", README, re.MULTILINE))


def shown(value: Any) -> str:
    if isinstance(value, frozenset):
        return "all of them"
    plain = {} if value == {} else list(value) if isinstance(value, tuple) else value
    return f"`{json.dumps(plain)}`"


def test_the_readme_lists_each_key_with_its_default() -> None:
    for key, field in RedactSettings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        assert ROWS[key] in {shown(default), "not given", "not given: everywhere"}, key
        assert (default is None) is ROWS[key].startswith("not given"), key


def test_the_readme_lists_each_entity_action_and_cover() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \| [^|]+ \|$", README, re.MULTILINE)
    assert tuple(listed) == ENTITIES
    assert re.findall(r"^- `(\w+)`: ", README, re.MULTILINE) == ["replace", "mask", "hash", "block"]
    assert set(get_args(Action)) == {"replace", "mask", "hash", "block"}
    assert all(f"`{cover}`" in README for cover in get_args(Cover))
    assert len(get_args(Cover)) == len(list(Covers))


def test_the_readme_counts_the_countries() -> None:
    count = sum(len(countries.split()) for countries in _IBAN_COUNTRIES.values())
    assert f"{count} countries" in README


def test_the_tables_of_the_readme_are_valid() -> None:
    tables = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    variables = {"DATABASE_PASSWORD": "hunter2hunter2", "REDACT_KEY": "0123456789abcdef"}
    for table in tables:
        given = re.sub(r'\{ "\$env" = "(\w+)" \}', lambda m: f'"{variables[m[1]]}"', table)
        RedactSettings.model_validate(tomllib.loads(given)["middleware"]["redact"])
