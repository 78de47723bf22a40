from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interpose.authoring import Middleware, Point, Provider, middleware
from interpose.capability import PRINCIPAL, Capability
from interpose.errors import Problem, UsageError, render
from interpose.hookspecs import hookimpl
from interpose.model import ModelFactory
from interpose.plan import PartRef
from interpose.startup.adapting import AgentSource
from interpose.startup.contributions import Contribution, RegisteredPart, contribution
from interpose.startup.discovery import Distribution, PluginEntry, discover
from interpose.startup.hook_checks import HOOKS, find_hooks
from interpose.startup.lifecycle import call_plan_resolved, call_started, call_stopped
from interpose.startup.loading import LoadedPlugin
from interpose.startup.registration import Catalogue, build_catalogue
from interpose.startup.uses import Kind, Wanted

Install = Callable[..., Path]

ACME = Distribution("acme-guard", "acme-guard", "1.0", "/site")


class Guard(Middleware):
    def setup(self, ctx: Any, /) -> None: ...


class Model(ModelFactory):
    def __call__(self, settings: Any, ctx: Any, /) -> Any:
        return object()


def refused(value: object, plugin_id: str = "guard") -> str:
    """Register ``value`` as a plugin; returns the faults, one a line."""
    found = contribution(LoadedPlugin(PluginEntry(plugin_id, "m", ACME), value))
    assert isinstance(found, Problem), found
    head, *faults = found.message.splitlines()
    assert head == f'plugin "{plugin_id}" (acme-guard 1.0) is refused:'
    return "\n".join(fault.removeprefix("- ") for fault in faults)


def accepted(value: object, plugin_id: str = "guard") -> Contribution:
    found = contribution(LoadedPlugin(PluginEntry(plugin_id, "m", ACME), value))
    assert isinstance(found, Contribution), found
    return found


class Offering:
    """A plugin object that offers these middlewares."""

    def __init__(self, **middlewares: Any) -> None:
        self.middlewares = middlewares

    @hookimpl
    def interpose_middlewares(self) -> Any:
        return {key.replace("_", "-"): value for key, value in self.middlewares.items()}


# What a plugin has ----------------------------------------------------------------------------


def test_the_key_that_equals_the_plugins_id_needs_no_prefix() -> None:
    parts = accepted(Offering(guard=Guard, budget_free=Guard)).parts.values()
    assert [(part.name, part.use) for part in parts] == [
        ("guard", "guard@acme-guard"),
        ("guard.budget-free", "guard.budget-free@acme-guard"),
    ]
    assert {(part.plugin, part.distribution, part.version) for part in parts} == {
        ("guard", "acme-guard", "1.0")
    }


@pytest.mark.parametrize(("value", "kind"), [(Guard, "middleware"), (Model, "model")])
def test_an_entry_point_may_name_a_class_itself(value: type, kind: Kind) -> None:
    found = accepted(value)
    assert found.parts[kind, "guard"].target is value
    assert found.hooks == {}


def test_an_agent_factory_becomes_a_source_of_agents(install: Install, site: Path) -> None:
    source = """
from interpose.authoring import AgentFactory, Point, Settings
class EchoSettings(Settings):
    text: str = ""
class Echo(AgentFactory[EchoSettings]):
    scope = "host"
    points = (Point.RUN, Point.EVENTS, Point.MODEL)
    def __call__(self, settings, ctx):
        class Agent:
            async def run(self, run_input, ctx):
                yield settings.text
        return Agent()
"""
    install("acme", plugins={"echo": "m_echo:Echo"}, modules={"m_echo": source})
    part = catalogue(site, Wanted("echo", "agent")).resolve("echo", "agent")
    assert isinstance(part, RegisteredPart)
    assert isinstance(part.target, AgentSource)
    assert (part.target.scope, part.target.points[-1]) == ("host", Point.MODEL)
    assert part.target.settings_class.__name__ == "EchoSettings"
    assert hasattr(part.target.make(part.target.settings_class(), None), "run")  # type: ignore[arg-type]


def test_a_function_form_middleware_is_a_class_like_any_other() -> None:
    @middleware
    async def guard(ctx: Any, run_input: Any, call_next: Any) -> Any:
        async for event in call_next(run_input):
            yield event

    assert accepted(guard).parts["middleware", "guard"].name == "guard"


# Hooks that are refused -----------------------------------------------------------------------


def test_the_hooks_are_those_of_the_page_of_hookspecs() -> None:
    assert set(HOOKS) == {
        *(f"interpose_{what}" for what in ("middlewares", "providers", "agents", "models")),
        "interpose_plan_resolved",
        "interpose_host_started",
        "interpose_host_stopped",
    }


def refused_hook(name: str, function: Callable[..., Any]) -> str:
    return refused(SimpleNamespace(**{name: function}))


def test_a_misspelt_hook_gets_the_nearest_name() -> None:
    @hookimpl
    def hook() -> Any: ...

    assert refused_hook("interpose_midlewares", hook) == (
        "interpose_midlewares is no hook; did you mean interpose_middlewares?"
    )
    assert refused_hook("providers", hook) == (
        "providers is no hook; did you mean interpose_providers?"
    )
    assert refused_hook("interpose_zzz", hook).startswith(
        "interpose_zzz is no hook; the hooks are interpose_middlewares, "
    )


def test_a_hook_without_its_mark_would_never_be_called() -> None:
    def hook() -> Any: ...

    assert refused_hook("interpose_middlewares", hook) == (
        "interpose_middlewares is not marked, so it would never be called; put @hookimpl above it."
    )


def test_a_function_of_ones_own_with_the_prefix_is_no_hook() -> None:
    plugin = Offering(guard=Guard)
    vars(plugin)["interpose_version_text"] = lambda: "1"
    assert accepted(plugin).parts


@pytest.mark.parametrize("option", ["tryfirst", "trylast", "wrapper", "hookwrapper"])
def test_a_plugin_does_not_decide_about_order(option: str) -> None:
    def hook(plan: Any) -> Any:
        yield

    options: dict[str, Any] = {option: True}
    said = refused_hook("interpose_plan_resolved", hookimpl(**options)(hook))
    assert f"interpose_plan_resolved uses {option}, and order is the configuration's" in said


def test_an_async_hook_is_refused() -> None:
    @hookimpl
    async def started(host: Any) -> None: ...

    assert refused_hook("interpose_host_started", started) == (
        "interpose_host_started is `async def`, but hooks of a plugin are called synchronously; "
        "use `def`."
    )


def test_a_generator_hook_is_refused() -> None:
    @hookimpl
    def middlewares() -> Any:
        yield Guard

    assert "interpose_middlewares contains `yield`" in refused_hook(
        "interpose_middlewares", middlewares
    )


def test_arguments_that_would_never_be_filled_are_refused() -> None:
    @hookimpl
    def required(plann: Any) -> None: ...
    @hookimpl
    def defaulted(plann: Any = None) -> None: ...
    @hookimpl
    def right_but_defaulted(plan: Any = None) -> None: ...
    @hookimpl
    def keyword_only(*, plan: Any) -> None: ...
    @hookimpl
    def rest(*args: Any, **kwargs: Any) -> None: ...
    @hookimpl
    def none_taken(plan: Any) -> None: ...

    name = "interpose_plan_resolved"
    assert refused_hook(name, required) == f"{name} has no argument plann; did you mean plan?"
    assert refused_hook(name, defaulted) == f"{name} has no argument plann; did you mean plan?"
    assert refused_hook(name, right_but_defaulted) == (
        f"{name} gives plan a default, so it is never passed; remove it."
    )
    assert refused_hook(name, keyword_only) == (
        f"{name} has the keyword-only argument plan; remove the * before it."
    )
    assert refused_hook(name, rest) == (
        f"{name} has *args, which receives nothing; {name} takes plan.\n"
        f"{name} has **kwargs, which receives nothing; {name} takes plan."
    )
    assert refused_hook("interpose_models", none_taken) == (
        "interpose_models has no argument plan; interpose_models takes no arguments."
    )


def test_a_class_is_no_plugin_object() -> None:
    class Plugin:
        @hookimpl
        def interpose_middlewares(self) -> Any:
            return {}

    said = refused(Plugin)
    assert "Plugin is a class, and hooks are called on an instance" in said
    assert "plugin = Plugin()" in said
    assert accepted(Plugin()).parts == {}


def test_a_plugin_without_hooks_is_told_so() -> None:
    assert refused(SimpleNamespace()) == (
        "the SimpleNamespace object implements no hook; "
        "mark a function with @hookimpl, as interpose_middlewares."
    )


def test_looking_for_hooks_runs_no_property() -> None:
    class Plugin(Offering):
        @property
        def interpose_models(self) -> Any:
            raise AssertionError

    assert set(find_hooks(Plugin()).functions) == {"interpose_middlewares"}


def test_hooks_may_be_static_or_of_the_class() -> None:
    class Plugin:
        @hookimpl
        @staticmethod
        def interpose_middlewares() -> Any:
            return {"guard": Guard}

        @classmethod
        @hookimpl
        def interpose_models(cls) -> Any:
            return {"small": Model}

    assert set(accepted(Plugin()).parts) == {("middleware", "guard"), ("model", "small")}


# Answers that are refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "returned None"),
        ([Guard], "returned a list"),
        (Guard, "returned the class Guard"),
    ],
)
def test_a_hook_that_returns_no_mapping_is_refused(answer: Any, said: str) -> None:
    @hookimpl
    def hook() -> Any:
        return answer

    assert refused_hook("interpose_middlewares", hook) == (
        f"interpose_middlewares {said}; it returns a mapping from key to class."
    )


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(2)])
def test_a_hook_that_raises_is_refused_with_its_cause(error: BaseException) -> None:
    @hookimpl
    def hook() -> Any:
        raise error

    assert refused_hook("interpose_middlewares", hook).startswith("interpose_middlewares failed: ")


def test_values_that_are_no_middleware_class_are_refused() -> None:
    async def function(ctx: Any, run_input: Any, call_next: Any) -> Any:
        yield

    said = refused(Offering(a=Guard(), b=function, c=Model, d="app:Guard", e=Middleware, f=int))
    assert said.splitlines() == [
        'middleware "a": it is an instance of Guard; give the class itself.',
        'middleware "b": it is a function; put @middleware above it.',
        'middleware "c": the class Model is a ModelFactory, and a middleware is wanted.',
        'middleware "d": it is a str; a middleware is a class derived from Middleware.',
        'middleware "e": Middleware itself does nothing; derive a class from it.',
        'middleware "f": it is the class int; a middleware is a class derived from Middleware.',
    ]


@pytest.mark.parametrize("key", ["Guard", "a_b", "a.b", "", 3])
def test_a_key_outside_the_alphabet_is_refused(key: Any) -> None:
    @hookimpl
    def hook() -> Any:
        return {key: Guard}

    assert "its key in interpose_middlewares is not an id" in refused_hook(
        "interpose_middlewares", hook
    )


def test_the_faults_of_a_class_are_told_with_its_key() -> None:
    class Leaky(Guard):
        seen: list[str] = []  # noqa: RUF012 - the fault under test

    said = refused(Offering(guard=Leaky))
    assert said.startswith('middleware "guard" (')
    assert "Leaky): the class attribute seen is a list" in said


def test_a_provider_without_lifespan_or_capability_is_refused() -> None:
    class Empty(Provider):
        pass

    said = refused(Empty)
    assert "it has no lifespan" in said
    assert "it provides nothing; write provides = (CAPABILITY,)" in said


def test_unqualified_capability_names_are_the_cores() -> None:
    class Taking(Guard):
        requires = (PRINCIPAL, Capability[Any]("acme-store/rows"))
        optional_requires = (Capability[Any]("store"),)

    (said,) = refused(Taking).splitlines()
    assert said.endswith(
        'the capability "store" has a name that belongs to Interpose; call it "acme-guard/store".'
    )


def test_all_faults_of_a_plugin_are_told_at_once_and_nothing_of_it_is_used(
    install: Install, site: Path
) -> None:
    source = """
from interpose.authoring import Middleware
from interpose.hookspecs import hookimpl
class Good(Middleware):
    def setup(self, ctx): ...
@hookimpl
def interpose_middlewares():
    return {"guard": Good, "Bad": Good}
@hookimpl
def interpose_host_startet(host): ...
@hookimpl(tryfirst=True)
def interpose_plan_resolved(plan, verbose=False): ...
"""
    install("acme-guard", plugins={"guard": "m_faulty"}, modules={"m_faulty": source})
    found = catalogue(
        site,
        Wanted("guard", "middleware", "interpose.toml:1"),
        Wanted("guard.other", "middleware", "interpose.toml:4"),
    )
    (problem,) = found.problems
    assert render([problem]) == (
        'error[refused-part]: plugin "guard" (acme-guard 1.0) is refused:\n'
        "  - interpose_host_startet is no hook; did you mean interpose_host_started?\n"
        "  - interpose_plan_resolved uses tryfirst, and order is the configuration's; "
        "remove it, and use stage, before and after on the middleware.\n"
        "  - interpose_plan_resolved has no argument verbose; interpose_plan_resolved takes plan.\n"
        '  - middleware "Bad": its key in interpose_middlewares is not an id; '
        "use lower case letters, digits and single hyphens.\n"
        "  at interpose.toml:1\n"
        "  at interpose.toml:4\n"
        f"  at {site}\n"
        "  fix: pip install --upgrade acme-guard, take it out of the config, "
        "or correct it if it is yours."
    )
    assert found.resolve("guard", "middleware", "interpose.toml:1") is problem
    assert found.resolve("guard.other", "middleware", required=False) is problem
    assert found.active == ()
    assert found.plugins.get_plugins() == set()


# The catalogue --------------------------------------------------------------------------------


def catalogue(site: Path, *wanted: Wanted, built_in: tuple[RegisteredPart, ...] = ()) -> Catalogue:
    return build_catalogue(discover([str(site)]), wanted, built_in=built_in)


GOOD = """
from interpose.authoring import Middleware, Provider
from interpose.hookspecs import hookimpl
class Budget(Middleware):
    def setup(self, ctx): ...
@hookimpl
def interpose_middlewares():
    return {"budget": Budget, "rate": Budget}
"""


def unresolved(found: Catalogue, use: str, kind: Kind, *, required: bool = True) -> Problem:
    part = found.resolve(use, kind, "interpose.toml:7", required=required)
    assert isinstance(part, Problem)
    return part


def test_a_key_that_the_plugin_lacks_gets_the_nearest_one(install: Install, site: Path) -> None:
    install("acme-guard", plugins={"guard": "m_good1"}, modules={"m_good1": GOOD})
    found = catalogue(site, Wanted("guard", "middleware"))
    assert render([unresolved(found, "guard.budgt", "middleware")]) == (
        'error[unknown-use]: plugin "guard" (acme-guard 1.0) has no middleware "guard.budgt".\n'
        "  at interpose.toml:7\n"
        '  fix: Did you mean "guard.budget"?'
    )
    hint = unresolved(found, "guard", "middleware").hint
    assert hint == 'It has guard.budget, guard.rate. Say which: use = "guard.budget".'
    assert unresolved(found, "guard.budget", "provider").hint == (
        "It has the middleware of that name: use it in [middleware.<id>]."
    )
    assert unresolved(found, "guard.x", "model").hint == "It has no model at all."
    assert unresolved(found, "guard.x", "model", required=False).severity == "warning"


def test_an_unknown_use_may_have_meant_a_loaded_key(install: Install, site: Path) -> None:
    install("acme-guard", plugins={"guard": "m_good2"}, modules={"m_good2": GOOD})
    found = catalogue(site, Wanted("guard.budget", "middleware"))
    assert unresolved(found, "gard.budget", "middleware").hint == 'Did you mean "guard.budget"?'


def test_a_failing_plugin_is_one_problem_and_the_others_go_on(install: Install, site: Path) -> None:
    install("bad", plugins={"bad": "m_bad3"}, modules={"m_bad3": "import sys; sys.exit()"})
    install("acme-guard", plugins={"guard": "m_good3"}, modules={"m_good3": GOOD})
    found = catalogue(
        site,
        Wanted("bad", "middleware", "interpose.toml:1"),
        Wanted("bad", "agent", "interpose.toml:3"),
        Wanted("guard.rate", "middleware", "interpose.toml:5"),
    )
    (problem,) = found.problems
    assert problem.where[:2] == ("interpose.toml:1", "interpose.toml:3")
    assert isinstance(found.resolve("guard.rate", "middleware"), RegisteredPart)
    assert [entry.id for entry in found.active] == ["guard"]


def test_a_failing_plugin_that_nothing_requires_is_a_warning(install: Install, site: Path) -> None:
    install("bad", plugins={"bad": "m_bad4"}, modules={"m_bad4": "1 / 0"})
    found = catalogue(site, Wanted("bad", "middleware", required=False))
    assert [problem.severity for problem in found.problems] == ["warning"]
    again = catalogue(
        site, Wanted("bad", "middleware", required=False), Wanted("bad", "middleware")
    )
    assert [problem.severity for problem in again.problems] == ["error"]


def test_a_plugin_may_be_active_without_a_layer(install: Install, site: Path) -> None:
    install("acme-guard", plugins={"guard": "m_good5"}, modules={"m_good5": GOOD})
    found = catalogue(site, Wanted("guard"), Wanted("gaurd", place="interpose.toml:2"))
    assert [name for name, _ in found.plugins.list_name_plugin()] == ["guard"]
    (problem,) = found.problems
    assert problem.message == 'The plugin "gaurd" is not installed.'


def test_two_plugins_with_one_id_can_both_be_used(install: Install, site: Path) -> None:
    install("acme-guard", plugins={"guard": "m_acme6"}, modules={"m_acme6": GOOD})
    install("zeta-guard", plugins={"guard": "m_zeta6"}, modules={"m_zeta6": GOOD})
    uses = ("guard.rate@acme-guard", "guard.rate@zeta-guard")
    found = catalogue(site, *(Wanted(use, "middleware") for use in uses))
    parts = [found.resolve(use, "middleware") for use in uses]
    assert [part.distribution for part in parts if isinstance(part, RegisteredPart)] == [
        "acme-guard",
        "zeta-guard",
    ]
    assert {name for name, _ in found.plugins.list_name_plugin()} == {
        "guard@acme-guard",
        "guard@zeta-guard",
    }


def test_one_module_may_serve_two_ids(install: Install, site: Path) -> None:
    install("acme-guard", plugins={"a": "m_both7", "b": "m_both7"}, modules={"m_both7": GOOD})
    found = catalogue(site, Wanted("a.rate", "middleware"), Wanted("b.rate", "middleware"))
    assert found.problems == ()
    assert [entry.id for entry in found.active] == ["a", "b"]


def test_what_the_host_has_itself_needs_no_plugin(site: Path) -> None:
    own = RegisteredPart("agent", "scripted", "scripted", object())
    found = catalogue(site, Wanted("scripted", "agent"), built_in=(own,))
    assert found.resolve("scripted", "agent") is own
    assert unresolved(found, "scriptd", "agent").hint == 'Did you mean "scripted"?'


def test_a_use_that_was_not_announced_is_a_mistake_of_the_caller(
    install: Install, site: Path
) -> None:
    install("acme-guard", plugins={"guard": "m_good8"}, modules={"m_good8": GOOD})
    with pytest.raises(UsageError, match="was not loaded"):
        catalogue(site).resolve("guard", "middleware")


def test_two_catalogues_share_nothing(install: Install, site: Path) -> None:
    install("acme-guard", plugins={"guard": "m_good9"}, modules={"m_good9": GOOD})
    first, second = (catalogue(site, Wanted("guard", "middleware")) for _ in range(2))
    assert first.plugins is not second.plugins
    assert first.plugins.get_plugins().isdisjoint(second.plugins.get_plugins())


def test_in_house_classes_are_used_by_module_and_attribute(site: Path) -> None:
    (site / "own_parts.py").write_text(
        "from interpose.authoring import Middleware\n"
        "from interpose.capability import Capability\n"
        "class TenantGuard(Middleware):\n"
        "    requires = (Capability('rows'),)\n"
        "    def setup(self, ctx): ...\n"
        "class Leaky(Middleware):\n"
        "    seen = []\n"
        "guard = TenantGuard()\n"
    )
    found = catalogue(site)
    part = found.resolve("own_parts:TenantGuard", "middleware")
    assert isinstance(part, RegisteredPart)
    assert (part.name, part.use, part.distribution) == (
        "tenant-guard",
        "own_parts:TenantGuard",
        None,
    )
    said = unresolved(found, "own_parts:Leaky", "middleware")
    assert said.message.startswith("own_parts:Leaky is refused:\n- the class attribute seen is a")
    assert said.where == ("interpose.toml:7",)
    assert "it is an instance of TenantGuard; give the class itself" in (
        unresolved(found, "own_parts:guard", "middleware").message
    )


# Lifecycle ------------------------------------------------------------------------------------


LIVING = """
from interpose.authoring import Middleware
from interpose.hookspecs import hookimpl
class Guard(Middleware):
    def setup(self, ctx): ...
@hookimpl
def interpose_middlewares():
    return {"NAME": Guard}
@hookimpl
def interpose_plan_resolved(plan):
    plan.seen.append("NAME")
    PLAN
@hookimpl
def interpose_host_started(host):
    host.append("+NAME")
    HOST
@hookimpl
def interpose_host_stopped(host):
    host.append("-NAME")
"""


def living(
    install: Install, site: Path, mark: str, *, plan: str = "pass", host: str = "pass"
) -> Catalogue:
    for name in ("a", "b", "c"):
        source = LIVING.replace("NAME", name)
        for word, body in (("PLAN", plan), ("HOST", host)):
            source = source.replace(word, body if name == "b" else "pass")
        module = f"m_living_{mark}_{name}"
        install(f"dist-{name}", plugins={name: module}, modules={module: source})
    return catalogue(site, *(Wanted(name, "middleware") for name in ("a", "b", "c")))


def a_plan(*middlewares: str) -> Any:
    layers = [
        SimpleNamespace(middleware=name, position=position)
        for position, name in enumerate(middlewares, start=1)
    ]
    agent = SimpleNamespace(ref=PartRef("agent", "billing"))
    return SimpleNamespace(layers=layers, agent=agent, seen=[])


def test_plugins_see_the_plan_in_its_order(install: Install, site: Path) -> None:
    found = living(install, site, "order")
    plan = a_plan("c", "b.extra", "own")
    assert call_plan_resolved(found.plugins, plan) == ()
    assert plan.seen == ["c", "b", "a"]


def test_a_veto_names_plugin_and_distribution_and_every_plugin_is_asked(
    install: Install, site: Path
) -> None:
    found = living(install, site, "veto", plan="raise ValueError('two caches')")
    plan = a_plan("a", "b", "c")
    (problem,) = call_plan_resolved(found.plugins, plan)
    assert problem.code == "plan-vetoed"
    assert problem.message == (
        'plugin "b" (dist-b 1.0) refuses the plan of agent "billing": ValueError: two caches.'
    )
    assert plan.seen == ["a", "b", "c"]


def test_start_and_stop_reach_every_plugin_whatever_one_does(install: Install, site: Path) -> None:
    found = living(install, site, "host", host="raise SystemExit(1)")
    host: Any = []
    (problem,) = call_started(found.plugins, host)
    assert problem.message == (
        'plugin "b" (dist-b 1.0) failed in interpose_host_started: it called sys.exit(1).'
    )
    assert call_stopped(found.plugins, host) == ()
    assert host == ["+a", "+b", "+c", "-c", "-b", "-a"]


def test_a_coroutine_from_a_lifecycle_hook_is_reported(install: Install, site: Path) -> None:
    body = "async def later(): ...\n    return later()"
    found = living(install, site, "later", host=body)
    host: Any = []
    (problem,) = call_started(found.plugins, host)
    assert "it returned a coroutine" in problem.message
