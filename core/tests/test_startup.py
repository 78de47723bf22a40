"""Startup as a whole: every problem at once, each with its place, and no secret in any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playing import agent_of
from pydantic import SecretStr

from interpose import Declaration, Host, Layer, Middleware, Settings, StartupError


class Secretive(Settings):
    token: SecretStr


class Quotes(Middleware[Secretive]):
    @classmethod
    def declare(cls, settings: Secretive) -> Declaration:
        raise ValueError(f"bad token {settings.token.get_secret_value()}")


def problems_of(make: Any) -> list[str]:
    with pytest.raises(StartupError) as caught:
        make()
    return [problem.code for problem in caught.value.problems]


def test_a_declare_that_quotes_a_secret_shows_none() -> None:
    with pytest.raises(StartupError) as caught:
        Host([Layer(Quotes, {"token": "hunter2-hunter2"})], agent=agent_of())
    assert "bad token ***" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_nested_table_is_told_what_was_meant(tmp_path: Path) -> None:
    config = tmp_path / "interpose.toml"
    config.write_text('[agent]\nuse = "scripted"\n[middleware.guard.budget]\nmost = 3\n')
    with pytest.raises(StartupError) as caught:
        Host.from_config(config, environ={})
    assert str(caught.value) == (
        "1 problem at startup\n"
        "\n"
        'error[unknown-use]: The middleware "guard" is not installed.\n'
        f"  at {config}:3\n"
        "  fix: Each layer has a table of its own. If the middleware guard.budget is meant:\n"
        "       [middleware.budget]\n"
        '       use = "guard.budget"'
    )


def test_problems_of_all_phases_come_at_once(tmp_path: Path) -> None:
    class Needs(Middleware):
        before = ("nobody",)

    config = tmp_path / "interpose.toml"
    config.write_text(
        '[agent]\nuse = "scripted"\ndelay = "slow"\n[middlewares.x]\n[middleware.nosuch]\n'
    )
    codes = problems_of(
        lambda: Host.from_config(
            config,
            layers=[Layer(Needs, before=["unknown-layer"])],
            environ={"INTERPOSE__MIDDLEWARE__NOSUCHER__X": "1"},
        )
    )
    assert len(codes) == 5, codes
    assert len(set(codes)) == 5, codes


def test_two_code_layers_with_one_id_are_refused() -> None:
    class Same(Middleware):
        """Do nothing."""

    assert problems_of(lambda: Host([Same, Same], agent=agent_of())) == ["duplicate-layer"]


def test_a_layer_that_is_not_required_is_left_out_with_a_warning(tmp_path: Path) -> None:
    config = tmp_path / "interpose.toml"
    config.write_text(
        '[agent]\nuse = "scripted"\n[middleware.nosuch]\nlayer = { required = false }\n'
    )
    host = Host.from_config(config, environ={})
    assert host.plan().order == ()
    assert [problem.severity for problem in host.warnings] == ["warning"]


def test_without_any_file_from_config_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StartupError, match=r"There is no interpose\.toml here"):
        Host.from_config(environ={})


def test_an_agent_of_the_code_takes_the_place_of_the_files(tmp_path: Path) -> None:
    config = tmp_path / "interpose.toml"
    config.write_text('[agent]\nuse = "nosuch"\nurl = "https://example.invalid"\n')
    host = Host.from_config(config, agent=agent_of(), environ={})
    assert host.agents == ("default",)


def test_agents_have_their_own_layers_and_settings(tmp_path: Path) -> None:
    class Text(Settings):
        text: str = "all"

    class Prefix(Middleware[Text]):
        def on_start(self, ctx: Any) -> None:
            """Do nothing."""

    config = tmp_path / "interpose.toml"
    config.write_text(
        '[agents.one]\nuse = "scripted"\n'
        '[agents.two]\nuse = "scripted"\n'
        "[agents.two.middleware.prefix]\n"
        'text = "two"\n'
        "[agents.two.middleware.extra]\n"
        "enabled = false\n"
    )
    host = Host.from_config(
        config,
        layers=[Prefix, Layer(Prefix, id="extra"), Layer(Prefix, id="only", agents=["two"])],
        environ={},
    )
    assert host.plan("one").order == ("prefix", "extra")
    assert host.plan("two").order == ("prefix", "only")
    assert [
        step.agents for step in host.plan("two").lifespan_order if step.part.id == "prefix"
    ] == [("two",)]
