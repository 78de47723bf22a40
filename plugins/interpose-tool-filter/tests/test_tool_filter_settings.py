import pytest
from pydantic import ValidationError

from interpose_tool_filter import ToolFilterSettings


def message(error: ValidationError) -> str:
    [problem] = error.errors()
    return problem["msg"]


def test_neither_list_is_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        ToolFilterSettings()
    assert message(caught.value) == (
        "Value error, give exactly one of `allow` and `deny`; neither is given "
        "(an empty list counts as given)"
    )


def test_both_lists_are_refused_even_when_one_is_empty() -> None:
    with pytest.raises(ValidationError) as caught:
        ToolFilterSettings(allow=frozenset(), deny=frozenset({"search"}))
    assert message(caught.value) == (
        "Value error, give exactly one of `allow` and `deny`; both are given "
        "(an empty list counts as given)"
    )


def test_an_empty_allow_list_hides_every_tool() -> None:
    settings = ToolFilterSettings.model_validate({"allow": []})
    assert settings.hides("search")
    assert settings.hides("")


def test_an_empty_deny_list_hides_no_tool() -> None:
    settings = ToolFilterSettings.model_validate({"deny": []})
    assert not settings.hides("search")
    assert not settings.hides(None)


def test_names_are_exact_and_case_sensitive() -> None:
    settings = ToolFilterSettings.model_validate({"deny": ["search", "db.*"]})
    assert settings.hides("search")
    assert not settings.hides("Search")
    assert not settings.hides("search_web")
    assert not settings.hides("db.read")


def test_a_call_whose_tool_is_unknown_is_hidden_by_allow_and_shown_by_deny() -> None:
    assert ToolFilterSettings(allow=frozenset({"search"})).hides(None)
    assert not ToolFilterSettings(deny=frozenset({"search"})).hides(None)


def test_one_name_is_not_a_list() -> None:
    with pytest.raises(ValidationError):
        ToolFilterSettings.model_validate({"deny": "search"})
