"""What an operator sets, and what startup says to it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, cast

import pytest
from pydantic import ValidationError

from interpose import LifespanContext, ModelFactory, UsageError
from interpose_models import Models, ModelsSettings

CONTEXT = cast("LifespanContext", None)


def refused(**settings: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        ModelsSettings.model_validate({"name": "openai:gpt-5-mini", **settings})
    return str(caught.value)


def made(**settings: Any) -> Any:
    return Models()(ModelsSettings.model_validate({"api_key": "k" * 20, **settings}), CONTEXT)


@pytest.mark.parametrize("name", ["gpt-5-mini", "openai:", ":gpt", "OpenAI:gpt", "a/b:c", "a:b c"])
def test_a_name_has_a_provider_and_a_model(name: str) -> None:
    assert "`name` is a provider and its model, as in openai:gpt-5-mini" in refused(name=name)


@pytest.mark.parametrize(
    ("name", "extra"),
    [("openai:x", "openai"), ("openai-chat:x", "openai"), ("anthropic:x", "anthropic")],
)
def test_a_missing_package_is_told_with_how_to_install_it(
    name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interpose_models.settings.find_spec", lambda name: None)
    assert (
        f'this provider needs the package {extra}: pip install "interpose-models[{extra}]"'
    ) in refused(name=name)


def test_a_provider_of_the_library_whose_package_is_missing_is_told_likewise() -> None:
    with pytest.raises(UsageError) as caught:
        made(name="xai:grok-4")
    assert caught.value.message.startswith("The provider xai lacks a package:")
    assert caught.value.hint == ('Install what it needs: pip install "pydantic-ai-slim[xai]".')


@pytest.mark.parametrize("url", ["127.0.0.1:8000/v1", "ftp://127.0.0.1", "http://", "file:/x"])
def test_a_base_url_is_an_http_address(url: str) -> None:
    assert "`base_url` begins with http:// or https:// and names a host" in refused(base_url=url)


def test_a_base_url_holds_no_password() -> None:
    said = refused(base_url="http://someone:secret-word@127.0.0.1/v1")
    assert "`base_url` holds no name and no password; use `api_key`" in said
    assert "secret-word" not in said


def test_unknown_keys_are_refused_on_both_levels() -> None:
    assert "Extra inputs are not permitted" in refused(colour="red")
    assert "Extra inputs are not permitted" in refused(settings={"temprature": 0})


def test_a_setting_of_another_provider_is_refused() -> None:
    told = "provider_settings.anthropic_top_k does not begin with openai_"
    assert told in refused(provider_settings={"anthropic_top_k": 1})
    told = "provider_settings.x does not begin with deepseek_ or openai_"
    assert told in refused(name="deepseek:chat", provider_settings={"x": 1})
    given = {"name": "anthropic:x", "provider_settings": {"anthropic_user": "me"}}
    assert ModelsSettings.model_validate(given).prefixes == ("anthropic_",)


def test_the_key_is_not_shown() -> None:
    settings = ModelsSettings.model_validate(
        {
            "name": "openai:x",
            "api_key": "secret-word",
            "settings": {"extra_headers": {"x-key": "secret-word"}},
        }
    )
    assert "secret-word" not in f"{settings} {settings!r} {settings.model_dump_json()}"


def test_an_unknown_provider_is_a_problem_at_startup() -> None:
    with pytest.raises(UsageError) as caught:
        made(name="opnai:gpt-5")
    assert caught.value.message == "There is no provider opnai."


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai:x", "OPENAI_API_KEY"), ("anthropic:claude-sonnet-4-6", "ANTHROPIC_API_KEY")],
)
def test_a_missing_key_is_a_problem_at_startup(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(other, raising=False)
    with pytest.raises(UsageError) as caught:
        made(name=name, api_key=None)
    provider = name.partition(":")[0]
    assert caught.value.message == f"The provider {provider} lacks a key, or an address."
    assert caught.value.hint == f"Set api_key or base_url of this model, or {variable}."
    monkeypatch.setenv(variable, "from-the-environment")
    assert made(name=name, api_key=None).provider == provider


def test_what_a_provider_does_not_take_is_a_problem_at_startup() -> None:
    with pytest.raises(UsageError) as caught:
        made(name="openrouter:a/b", base_url="http://127.0.0.1:1")
    assert caught.value.message == "The provider openrouter takes no base_url."


def test_the_plugin_offers_its_factory_under_its_id() -> None:
    from interpose_models.plugin import interpose_models

    assert interpose_models() == {"models": Models}
    assert issubclass(Models, ModelFactory)
    assert Models.scope == "host"


def test_the_model_says_whose_it_is() -> None:
    model = made(name="openai-chat:gpt-4o")
    assert (model.provider, model.name) == ("openai", "gpt-4o")


def test_importing_the_plugin_imports_no_provider() -> None:
    code = (
        "import sys, interpose_models.plugin as p; p.interpose_models(); "
        "print({'pydantic_ai', 'openai', 'anthropic', 'httpx2'} & sys.modules.keys())"
    )
    ran = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "set()\n"
