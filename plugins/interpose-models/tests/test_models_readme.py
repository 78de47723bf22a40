import re
import tomllib
from pathlib import Path
from typing import Any

from interpose_models import CallSettings, ModelsSettings

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_readme_lists_each_key_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| (.*?) \|", README, re.MULTILINE))
    fields = ModelsSettings.model_fields
    told = {key: default for key, default in rows.items() if key in fields}
    assert list(told) == list(fields)
    plain = {key: field.default for key, field in fields.items()}
    assert {key: told[key] for key, value in plain.items() if isinstance(value, bool | int)} == {
        key: f"`{str(value).lower()}`"
        for key, value in plain.items()
        if isinstance(value, bool | int)
    }


def test_the_readme_lists_each_setting_of_a_call() -> None:
    [listed] = re.findall(r"^`settings` takes (.*?)\n\n", README, re.MULTILINE | re.DOTALL)
    assert set(CallSettings.model_fields) <= set(re.findall(r"`(\w+)`", listed))


def test_the_readme_lists_each_failure() -> None:
    import interpose

    [table] = re.findall(r"## Failures\n\n(.*?)\n\n", README, re.DOTALL)
    failures = {
        name
        for name in interpose.__all__
        if isinstance(value := getattr(interpose, name), type)
        and issubclass(value, interpose.ModelFailed)
        and value is not interpose.ModelFailed
    }
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == failures


def test_the_tables_of_the_readme_are_valid() -> None:
    models: dict[str, Any] = {}
    for block in re.findall(r"```toml\n(.*?)```", README, re.DOTALL):
        models |= tomllib.loads(block)["models"]
    names = []
    for table in models.values():
        assert table.pop("use") == "models"
        if "api_key" in table:
            table["api_key"] = "what the variable holds"
        names.append(ModelsSettings.model_validate(table).name)
    assert names == ["openai:gpt-5-mini", "openai-chat:qwen3", "anthropic:claude-sonnet-5-5"]
