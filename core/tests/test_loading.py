from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interpose.errors import Problem, render
from interpose.startup.discovery import Discovery, PluginEntry, discover
from interpose.startup.listing import listing
from interpose.startup.loading import LoadedPlugin, check_range, import_object, load
from interpose.startup.uses import ObjectUse, PluginUse, Wanted, needed, parse_use

Install = Callable[..., Path]


def only(site: Path) -> PluginEntry:
    (entry,) = discover([str(site)]).plugins
    return entry


def failure(entry: PluginEntry) -> Problem:
    problem = load(entry)
    assert isinstance(problem, Problem)
    return problem


# The declared range ---------------------------------------------------------------------------


def test_a_plugin_for_another_version_is_not_imported(install: Install, site: Path) -> None:
    install(
        "acme-guard",
        "3.1",
        plugins={"guard": "acme_guard_range"},
        requires=["interpose>=2,<3"],
        modules={"acme_guard_range": ""},
    )
    problem = load(only(site), running="0.1.0")
    assert isinstance(problem, Problem)
    assert render([problem]) == (
        'error[incompatible-plugin]: plugin "guard" (acme-guard 3.1) is built for another version '
        "of Interpose: required <3,>=2, found 0.1.0.\n"
        f"  at {site}\n"
        '  fix: pip install --upgrade acme-guard, or pip install "interpose<3,>=2"'
    )
    assert "acme_guard_range" not in sys.modules


@pytest.mark.parametrize(
    ("declared", "running", "fits"),
    [
        (">=0.1,<1", "0.1.0", True),
        (">=0.1,<1", "0.2.0rc1", True),
        (">=0.1,<1", "0.2.0.dev3+g12ab", True),
        (">=0.1,<1", "1.0.0", False),
        (">=0.2", "0.2.0rc1", False),
        ("==0.1.*", "0.1.7", True),
    ],
)
def test_the_range_admits_prereleases_of_the_running_version(
    install: Install, site: Path, declared: str, running: str, *, fits: bool
) -> None:
    install("acme-guard", plugins={"guard": "acme"}, requires=[f"interpose{declared}"])
    assert (check_range(only(site), running) is None) is fits


# Importing ------------------------------------------------------------------------------------


def test_a_plugin_is_its_module_or_the_object_in_it(install: Install, site: Path) -> None:
    install(
        "acme-guard",
        plugins={"guard": "acme_guard_ok:Outer.inner"},
        modules={"acme_guard_ok": "class Outer:\n    inner = 'found'\n"},
    )
    loaded = load(only(site))
    assert isinstance(loaded, LoadedPlugin)
    assert loaded.value == "found"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(3)", "it called sys.exit(3)"),
        ("raise SystemExit", "it called sys.exit()"),
        ("raise RuntimeError('first\\nsecond')", "RuntimeError: first"),
        ("raise RuntimeError", "RuntimeError"),
        ("def broken(:", "SyntaxError: invalid syntax (acme_guard_bad.py, line 1)"),
    ],
)
def test_an_import_that_fails_is_a_problem_with_its_cause(
    install: Install, site: Path, source: str, says: str
) -> None:
    install(
        "acme-guard",
        "1.2",
        plugins={"guard": "acme_guard_bad"},
        modules={"acme_guard_bad": source},
    )
    problem = failure(only(site))
    assert problem.code == "failed-import"
    assert problem.message == f'plugin "guard" (acme-guard 1.2) cannot be imported: {says}.'
    assert problem.where == (f"{site}/acme_guard_bad.py:1",)
    assert problem.hint.startswith("pip install --upgrade acme-guard, or take it out of the config")


def test_a_missing_dependency_is_told_from_a_missing_module(install: Install, site: Path) -> None:
    install(
        "acme-guard",
        plugins={"guard": "acme_guard_needy"},
        modules={"acme_guard_needy": "\n\nimport not_there_at_all.sub"},
    )
    problem = failure(only(site))
    assert problem.message.endswith(
        "cannot be imported: ModuleNotFoundError: No module named 'not_there_at_all'."
    )
    assert problem.where == (f"{site}/acme_guard_needy.py:3",)
    assert problem.hint == (
        "A dependency is missing: pip install --upgrade acme-guard, "
        "or install the package that has not_there_at_all."
    )


def test_the_line_that_asked_for_a_module_is_shown(install: Install, site: Path) -> None:
    install(
        "acme-guard",
        plugins={"guard": "acme_guard_lazy"},
        modules={"acme_guard_lazy": "import importlib\nimportlib.import_module('not_there')\n"},
    )
    assert failure(only(site)).where == (f"{site}/acme_guard_lazy.py:2",)


def test_a_module_that_the_wheel_lacks_asks_for_a_new_installation(
    install: Install, site: Path
) -> None:
    install("acme-guard", plugins={"guard": "acme_guard_gone.plugin"})
    problem = failure(only(site))
    assert (
        problem.hint == "The installation is incomplete: pip install --force-reinstall acme-guard"
    )


def test_an_attribute_that_the_module_lacks_is_a_problem(install: Install, site: Path) -> None:
    install(
        "acme-guard",
        plugins={"guard": "acme_guard_empty:plugin"},
        modules={"acme_guard_empty": ""},
    )
    assert (
        "AttributeError: module 'acme_guard_empty' has no attribute 'plugin'"
        in failure(only(site)).message
    )


def test_a_very_long_message_is_cut(install: Install, site: Path) -> None:
    install(
        "acme-guard",
        plugins={"guard": "acme_guard_long"},
        modules={"acme_guard_long": "raise RuntimeError('x' * 10_000)"},
    )
    assert len(failure(only(site)).message) < 400


def test_the_interrupt_of_a_person_passes(install: Install, site: Path) -> None:
    install(
        "acme-guard",
        plugins={"guard": "acme_guard_slow"},
        modules={"acme_guard_slow": "raise KeyboardInterrupt"},
    )
    with pytest.raises(KeyboardInterrupt):
        load(only(site))


# module:attribute -----------------------------------------------------------------------------


def test_code_of_ones_own_is_imported_by_module_and_attribute(site: Path) -> None:
    (site / "own_code.py").write_text("class Box:\n    part = 7\n")
    assert import_object(ObjectUse("own_code", "Box.part")) == 7


def test_a_module_that_is_not_on_the_path_says_whose_folder_is(site: Path) -> None:
    problem = import_object(ObjectUse("own_missing.parts", "Guard"), "interpose.toml:3")
    assert isinstance(problem, Problem)
    assert render([problem]) == (
        "error[failed-import]: own_missing.parts:Guard cannot be imported: "
        "ModuleNotFoundError: No module named 'own_missing'.\n"
        "  at interpose.toml:3\n"
        "  fix: Check the name, and that the folder of own_missing is on sys.path: "
        "the command line adds the config file's folder, an embedded Host adds none."
    )


def test_a_module_that_fails_says_where(site: Path) -> None:
    (site / "own_broken.py").write_text("\nimport sys\nsys.exit('no')\n")
    problem = import_object(ObjectUse("own_broken", "Guard"), "interpose.toml:3")
    assert isinstance(problem, Problem)
    assert problem.message == "own_broken:Guard cannot be imported: it called sys.exit('no')."
    assert problem.where == ("interpose.toml:3", f"{site}/own_broken.py:3")


def test_a_misspelt_attribute_gets_the_nearest_one(site: Path) -> None:
    (site / "own_names.py").write_text("class TenantGuard: ...\n")
    problem = import_object(ObjectUse("own_names", "TenantGaurd"))
    assert isinstance(problem, Problem)
    assert problem.message == ("own_names:TenantGaurd: own_names has no attribute 'TenantGaurd'.")
    assert problem.where == (f"{site}/own_names.py",)
    assert problem.hint == "Did you mean 'TenantGuard'?"


def test_an_attribute_that_raises_is_a_problem(site: Path) -> None:
    (site / "own_lazy.py").write_text("def __getattr__(name):\n    raise RuntimeError('lazy')\n")
    problem = import_object(ObjectUse("own_lazy", "Guard"))
    assert isinstance(problem, Problem)
    assert problem.message == "own_lazy:Guard cannot be imported: RuntimeError: lazy."


# What a use means -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("redact", PluginUse("redact", "redact")),
        ("guard.budget", PluginUse("guard", "budget")),
        ("redact@Acme_Redact", PluginUse("redact", "redact", "acme-redact")),
        ("guard.budget@acme.guard", PluginUse("guard", "budget", "acme-guard")),
        ("app.parts:Guard", ObjectUse("app.parts", "Guard")),
        ("app:Outer.inner", ObjectUse("app", "Outer.inner")),
    ],
)
def test_each_form_of_a_use_is_read(text: str, means: object) -> None:
    assert parse_use(text) == means


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Redact",
        "a b",
        "redact@",
        "@acme",
        "guard.",
        "a.b.c",
        "app:",
        ":Guard",
        "app:a-b",
        "a\n",
    ],
)
def test_what_is_no_use_is_refused_with_the_forms(text: str) -> None:
    problem = parse_use(text, "interpose.toml:2")
    assert isinstance(problem, Problem)
    assert (problem.code, problem.where) == ("invalid-use", ("interpose.toml:2",))
    assert '"module:attribute"' in problem.hint


def wants(discovery: Discovery, *uses: str) -> tuple[list[str], list[Problem]]:
    entries, problems = needed(
        discovery, [Wanted(use, "middleware", f"interpose.toml:{n}") for n, use in enumerate(uses)]
    )
    return [entry.value for entry in entries], list(problems)


def test_only_the_plugins_that_are_used_are_needed_each_once(install: Install, site: Path) -> None:
    install("a", plugins={"one": "m_one", "two": "m_two", "three": "m_three"})
    entries, problems = wants(discover([str(site)]), "two.x", "app:Guard", "one", "two", "one@a")
    assert (entries, problems) == (["m_two", "m_one"], [])


def test_an_id_of_two_distributions_must_be_chosen(install: Install, site: Path) -> None:
    install("acme-guard", plugins={"guard": "acme"})
    install("zeta-guard", plugins={"guard": "zeta"})
    discovery = discover([str(site)])
    assert wants(discovery, "guard@Zeta_Guard") == (["zeta"], [])
    entries, (problem,) = wants(discovery, "guard.budget")
    assert entries == []
    assert render([problem]) == (
        'error[ambiguous-use]: "guard.budget" may mean the plugin of acme-guard 1.0 '
        "or of zeta-guard 1.0.\n"
        "  at interpose.toml:0\n"
        '  fix: Say which one: use = "guard.budget@acme-guard" or '
        'use = "guard.budget@zeta-guard"; or uninstall one of them.'
    )


def test_a_distribution_that_does_not_have_the_plugin_is_told(install: Install, site: Path) -> None:
    install("acme-guard", plugins={"guard": "acme"})
    _, (problem,) = wants(discover([str(site)]), "guard@zeta")
    assert problem.message == '"guard@zeta": the plugin "guard" is installed, but not from zeta.'
    assert problem.hint == 'It comes from acme-guard 1.0: write "guard@acme-guard".'


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        ("gaurd", 'Did you mean "guard"?'),
        ("redact", "pip install interpose-redact"),
        ("redact.eu", "pip install interpose-redact"),
        (
            "tool-fliter",
            'Did you mean "tool-filter"? It comes with: pip install interpose-tool-filter',
        ),
        (
            "guard-auditing-log",
            'If "guard.auditing-log" is meant, say so: use = "guard.auditing-log".',
        ),
        ("zzz", "Install the distribution that has it. Installed plugins: guard."),
    ],
)
def test_an_unknown_use_gets_what_was_probably_meant(
    install: Install, site: Path, use: str, hint: str
) -> None:
    install("acme-guard", plugins={"guard": "acme"})
    _, (problem,) = wants(discover([str(site)]), use)
    assert problem.code == "unknown-use"
    assert problem.message == f'The middleware "{use}" is not installed.'
    assert problem.hint == hint


def test_a_plugin_of_a_damaged_distribution_is_explained(install: Install, site: Path) -> None:
    place = install("acme-guard", plugins={"guard": "acme"}, metadata="")
    _, (problem,) = wants(discover([str(site)]), "guard")
    assert problem.code == "unusable-plugin"
    assert problem.message.startswith('"guard" names a plugin that cannot be used.\nacme_guard-1.0')
    assert problem.where == ("interpose.toml:0", str(place))


def test_what_is_not_required_is_only_a_warning(site: Path) -> None:
    wanted = [Wanted("gaurd", "middleware", required=False)]
    _, (problem,) = needed(discover([str(site)]), wanted)
    assert problem.severity == "warning"


# The list of plugins --------------------------------------------------------------------------


def test_every_plugin_is_listed_with_the_toml_that_switches_it_on(
    install: Install, site: Path
) -> None:
    install("a", plugins={"redact": "m_redact", "models": "m_models", "mcp": "m_mcp"})
    install(
        "b",
        plugins={"sql": "m_sql", "old": "m_old"},
        offers={"capability.b/store": "m_sql"},
        requires=["interpose>=99"],
    )
    install("c", plugins={"old": "m_old"})
    discovery = discover([str(site)])
    active, _ = needed(discovery, [Wanted("redact")])
    lines = listing(discovery, active, running="0.1.0")
    assert [(line.entry.id, line.active, line.toml) for line in lines] == [
        ("mcp", False, '[middleware.mcp]\nuse = "mcp.tools"'),
        ("models", False, "[models.models]"),
        ("old", False, '[middleware.old]\nuse = "old@b"'),
        ("old", False, '[middleware.old]\nuse = "old@c"'),
        ("redact", True, "[middleware.redact]"),
        ("sql", False, "[providers.sql]"),
    ]
    assert [line.problem is None for line in lines] == [True, True, False, True, True, False]


def test_an_inactive_broken_plugin_disturbs_nothing(install: Install, site: Path) -> None:
    good = (
        "from interpose.authoring import Middleware\n"
        "class Good(Middleware):\n"
        "    def setup(self, ctx): ...\n"
    )
    install("good", plugins={"good": "m_good:Good"}, modules={"m_good": good})
    install("bad", plugins={"bad": "m_bad"}, modules={"m_bad": "import os; os._exit(9)"})
    program = (
        "import sys\n"
        f"sys.path.insert(0, {str(site)!r})\n"
        "from interpose.startup.discovery import discover\n"
        "from interpose.startup.registration import build_catalogue\n"
        "from interpose.startup.uses import Wanted\n"
        "found = discover()\n"
        "catalogue = build_catalogue(found, [Wanted('good', 'middleware')])\n"
        "assert {'bad', 'good'} <= set(found.ids), found.ids\n"
        "print(catalogue.problems, catalogue.resolve('good', 'middleware').name)\n"
        "print('m_good' in sys.modules, 'm_bad' in sys.modules)\n"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter and text
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("() good\nTrue False\n", "")
