"""What ``interpose check-plugin`` finds when it loads a plugin, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from publishing import GOOD, README, wheel

from interpose.cli.plugin_check import places, trying
from interpose.cli.plugin_check.imports import scan
from interpose.cli.plugin_check.results import Check
from interpose.cli.plugin_check.subject import Subject, unpacked
from interpose.errors import Problem

AMPLE = 120.0


def load(
    tmp_path: Path,
    source: str = GOOD,
    *,
    options: Sequence[str] = (),
    deadline: float = AMPLE,
    beside: Path | None = None,
    **wrong: Any,
) -> Mapping[str, Check]:
    """Load the plugin of a wheel with what is installed here, and in the folder ``beside``."""
    subject = unpacked(wheel(tmp_path / "dist", source, **wrong), tmp_path / "unpacked")
    assert isinstance(subject, Subject)
    place = places.here(subject.root, first=[subject.root, *filter(None, [beside])])
    checks = trying.load(subject, scan(subject), place, options, deadline=deadline)
    found = {check.name: check for check in checks}
    assert tuple(sorted(found)) == tuple(sorted(trying.CHECKS))
    return found


def wrong_in(checks: Mapping[str, Check]) -> Mapping[str, Sequence[Problem]]:
    return {name: check.problems for name, check in checks.items() if check.problems}


def one(checks: Mapping[str, Check], name: str) -> Problem:
    """Return the one problem that there is, in this check."""
    assert list(wrong_in(checks)) == [name]
    [problem] = checks[name].problems
    assert problem.hint
    return problem


NEEDS_NUMPY = {"Requires-Dist": ["interpose<1,>=0.1", "numpy>=1"]}
HEAD = """
from interpose import Middleware, Settings, hookimpl
"""


def guard(body: str, head: str = "") -> str:
    """Write a plugin that is a middleware with this body."""
    lines = "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
    return f'{HEAD}{dedent(head)}\n\nclass Guard(Middleware):\n    """Guard."""\n\n{lines}\n'


def settings(body: str, head: str = "") -> str:
    """Write a plugin whose settings have this body."""
    lines = "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
    return (
        f"{HEAD}{dedent(head)}\n\nclass GuardSettings(Settings):\n{lines}\n\n\n"
        f'class Guard(Middleware[GuardSettings]):\n    """Guard."""\n'
    )


def test_a_good_plugin_passes(tmp_path: Path) -> None:
    before = set(sys.modules)
    checks = load(tmp_path)
    assert {name: (check.outcome, check.says) for name, check in checks.items()} == {
        "dependencies": ("ok", "interpose, loguru, pydantic"),
        "load": ("ok", "guard"),
        "side-effects": ("ok", "none of its own"),
        "imports": ("ok", "1 module of its own, 0 others"),
        "parts": ("ok", "middleware guard"),
        "offers-true": ("ok", "nothing is provided"),
        "settings": ("ok", "guard has 1"),
        "plan": ("ok", "guard"),
    }
    assert "acme_guard" not in set(sys.modules) - before


# What keeps it from being loaded --------------------------------------------------------------
FAILING = {
    "missing": ("import acme_guard.nowhere", "ModuleNotFoundError: No module named"),
    "raises": ("raise RuntimeError('no')", "RuntimeError: no."),
    "exits": ("import sys\nsys.exit(3)", "it called sys.exit(3)."),
    "syntax": ("def (:", "SyntaxError: "),
}


def test_an_import_that_fails_is_told_with_its_plugin(tmp_path: Path) -> None:
    files = {f"acme_guard/{name}.py": source for name, (source, _) in FAILING.items()}
    plugins = {name: f"acme_guard.{name}" for name in FAILING} | {"lost": "acme_guard:Gard"}
    checks = load(tmp_path, plugins=plugins, files=files)
    problems = {
        problem.message.partition('"')[2].partition('"')[0]: problem
        for problem in checks["load"].problems
    }
    assert list(wrong_in(checks)) == ["load"]
    assert {problem.code for problem in problems.values()} == {"failed-import"}
    for name, (_, said) in FAILING.items():
        start = f'plugin "{name}" (acme-guard 1.0) cannot be imported: {said}'
        assert problems[name].message.startswith(start)
        assert problems[name].where[0].startswith(f"acme_guard/{name}.py:")
    assert "module 'acme_guard' has no attribute 'Gard'" in problems["lost"].message
    assert checks["plan"].skipped == "no plugin could be loaded"
    assert checks["parts"].skipped == "no plugin could be imported"


def test_a_plugin_that_fails_hides_no_other(tmp_path: Path) -> None:
    plugins = {"guard": "acme_guard:Guard", "bad": "acme_guard.bad"}
    checks = load(tmp_path, plugins=plugins, files={"acme_guard/bad.py": "raise ValueError('bad')"})
    assert 'plugin "bad"' in one(checks, "load").message
    assert checks["parts"].says == "middleware guard"


def test_a_process_that_ends_at_import_is_told_with_its_plugin(tmp_path: Path) -> None:
    checks = load(tmp_path, "import os\nprint('bye', flush=True)\nos._exit(7)")
    problem = one(checks, "load")
    assert problem.code == "plugin-broke-off"
    assert problem.message.startswith(
        'The process ended (exit code 7) while importing the plugin "guard" (acme_guard:Guard).'
    )
    assert checks["plan"].skipped.startswith("the process ended while importing the plugin")


def test_an_import_that_does_not_come_back_is_stopped(tmp_path: Path) -> None:
    checks = load(tmp_path, "import threading\nthreading.Event().wait()", deadline=10)
    problem = one(checks, "load")
    assert problem.message.startswith(
        'It took longer than 10 seconds, and was stopped, while importing the plugin "guard"'
    )


def test_a_hook_that_ends_the_process_is_told(tmp_path: Path) -> None:
    source = f"{HEAD}\nimport os\n\n@hookimpl\ndef interpose_middlewares():\n    os._exit(1)\n"
    checks = load(tmp_path, source, plugins={"guard": "acme_guard"})
    assert 'while calling the hooks of the plugin "guard"' in one(checks, "parts").message


def test_a_module_from_another_place_is_told(tmp_path: Path) -> None:
    subject = unpacked(wheel(tmp_path / "dist"), tmp_path / "unpacked")
    assert isinstance(subject, Subject)
    other = tmp_path / "other"
    (other / "acme_guard").mkdir(parents=True)
    (other / "acme_guard/__init__.py").write_text(GOOD)
    place = places.here(subject.root, first=[other, subject.root])
    found = trying.load(subject, scan(subject), place, (), deadline=AMPLE)
    problem = one({check.name: check for check in found}, "load")
    assert problem.code == "plugin-import-place"
    assert problem.message.startswith("acme_guard was not imported from what is checked")
    assert problem.where == (str(other / "acme_guard/__init__.py"),)


# What it does at import -----------------------------------------------------------------------
EFFECTS = {
    "os.environ['ACME'] = 'hunter2'": "sets the environment variable ACME",
    "sys.path.append('/nowhere')": "changes sys.path (/nowhere)",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)": "replaces the handler of SIGTERM",
    "warnings.simplefilter('ignore')": "changes the warning filters",
    "threading.Thread(target=threading.Event().wait, name='t1').start()": "starts a thread (t1)",
    "sys.excepthook = print": "replaces sys.excepthook",
    "logger.remove()": "adds or removes a sink of loguru",
    "logging.basicConfig()": "configures the root logger of logging",
    "print('hello')": "prints to standard output",
    "socket.setdefaulttimeout(1)": "changes the time-out of all sockets",
    "open('made.txt', 'w').close()": "writes or removes a file (made.txt)",
    "os.mkdir('made')": "writes or removes a file (made)",
    "os.remove('made.txt')": "writes or removes a file (made.txt)",
    "subprocess.run(['true'])": "starts a process (true)",
    "socket.socket().connect_ex(('127.0.0.1', 1))": "uses the network (127.0.0.1:1)",
    "sys.meta_path.append(Finder())": "adds a hook to imports (Finder)",
    "asyncio.set_event_loop_policy(Policy())": "replaces the event loop policy",
    "os.chdir('made')": "changes the current folder",
    "os.environ.pop('PATH')": "sets the environment variable PATH",
}
EFFECTIVE = """
import asyncio, logging, os, signal, socket, subprocess, sys, threading, warnings

from loguru import logger

class Policy(asyncio.DefaultEventLoopPolicy): ...

class Finder:
    def find_spec(self, *given): return None
"""


def test_each_side_effect_of_an_import_is_found(tmp_path: Path) -> None:
    checks = load(tmp_path, "\n".join([EFFECTIVE, *EFFECTS, dedent(GOOD)]))
    assert list(wrong_in(checks)) == ["side-effects"]
    problems = checks["side-effects"].problems
    said = [problem.message.partition(". Whoever")[0] for problem in problems]
    assert sorted(said) == sorted({f"Importing it {each}" for each in EFFECTS.values()})
    for problem in problems:
        assert (problem.code, problem.severity) == ("plugin-side-effect", "error")
        assert problem.where == ("acme_guard",)
        assert problem.hint
    assert "hunter2" not in str(checks)
    # A thread that it leaves behind keeps nobody waiting.
    assert checks["plan"].says == "guard"


def test_what_is_undone_or_only_read_is_no_side_effect(tmp_path: Path) -> None:
    source = """
    import os, pathlib, threading, warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
    os.environ["ACME"] = "1"
    del os.environ["ACME"]
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    pathlib.Path(__file__).read_text()
    """
    assert wrong_in(load(tmp_path, dedent(source) + dedent(GOOD))) == {}


def test_a_side_effect_of_a_library_is_a_note(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "numpy.py").write_text("import os\nos.environ['LOUD'] = '1'\nprint('loud')\n")
    source = f"import numpy\n{dedent(GOOD)}"
    check = load(tmp_path, source, beside=library, fields=NEEDS_NUMPY)["side-effects"]
    assert check.outcome == "ok"
    assert {problem.severity for problem in check.problems} == {"note"}
    assert {problem.message for problem in check.problems} == {
        "Importing it imports numpy, which sets the environment variable LOUD.",
        "Importing it imports numpy, which prints to standard output.",
    }


def test_a_heavy_import_is_a_warning(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "numpy.py").touch()
    source = f"import numpy\n{dedent(GOOD)}"
    problem = one(load(tmp_path, source, beside=library, fields=NEEDS_NUMPY), "imports")
    assert (problem.code, problem.severity) == ("plugin-heavy-import", "warning")
    assert problem.message.endswith("; numpy is slow to import.")


# What it imports ------------------------------------------------------------------------------
def test_an_import_that_is_not_declared_is_found(tmp_path: Path) -> None:
    checks = load(tmp_path, f"import regex\n{dedent(GOOD)}")
    problem = one(checks, "dependencies")
    assert (problem.code, problem.severity) == ("plugin-dependency", "error")
    assert problem.message == (
        "It imports regex, which comes with regex, and does not declare it: it is here only "
        "because something else needs it."
    )
    assert problem.where == ("acme_guard/__init__.py:1",)
    assert problem.hint == 'dependencies = ["regex>=..."]'


def test_the_distribution_of_a_module_may_have_another_name(tmp_path: Path) -> None:
    source = f"from ag_ui.core import BaseEvent\n{dedent(GOOD)}"
    assert "comes with ag-ui-protocol" in one(load(tmp_path / "a", source), "dependencies").message
    fields = {"Requires-Dist": ["interpose<1,>=0.1", "ag_ui.protocol>=1"]}
    assert wrong_in(load(tmp_path / "b", source, fields=fields)) == {}


def test_an_optional_import_that_is_not_declared_is_a_warning(tmp_path: Path) -> None:
    source = """
    try:
        import nowhere_at_all
    except ImportError:
        nowhere_at_all = None
    """
    checks = load(tmp_path / "a", dedent(source) + dedent(GOOD))
    problem = one(checks, "dependencies")
    assert problem.severity == "warning"
    assert problem.message == "It imports nowhere_at_all and does not declare it."
    extra = ["interpose<1,>=0.1", "nowhere-at-all>=1; extra == 'all'"]
    checks = load(tmp_path / "b", dedent(source) + dedent(GOOD), fields={"Requires-Dist": extra})
    assert wrong_in(checks) == {}


# What it brings -------------------------------------------------------------------------------
REFUSED = {
    "hook": (guard("def on_evnt(self, ctx, event): ..."), "on_evnt is no hook; did you mean"),
    "signature": (guard("def on_event(self, ctx): ..."), "on_event must take 2 arguments"),
    "shared": (guard("seen = []"), "the class attribute seen is a list"),
    "stage": (guard('stage = "early"'), "stage is 'early'"),
    "init": (guard("def __init__(self, words): ..."), "its __init__ takes arguments"),
    "delimiter": (settings("a__b: int = 0"), 'has a field "a__b"'),
    "owned": (settings("enabled: bool = True"), 'has a field "enabled", a key that the host owns'),
    "nested": (
        settings(
            "rule: Rule = Rule()", "from pydantic import BaseModel\nclass Rule(BaseModel): ..."
        ),
        "accepts unknown keys",
    ),
    "core-name": (
        guard(
            "provides = (VERDICTS,)",
            "from interpose import Capability\nVERDICTS = Capability('verdicts')",
        ),
        'the capability "verdicts" has a name that belongs to Interpose',
    ),
    "no-part": (f"{HEAD}\nGuard = 3\n", "the int object implements no hook"),
}


def test_what_the_host_would_refuse_is_refused(tmp_path: Path) -> None:
    names = {name: name.replace("-", "_") for name in REFUSED}
    files = {f"acme_guard/{names[name]}.py": source for name, (source, _) in REFUSED.items()}
    plugins = {name: f"acme_guard.{module}:Guard" for name, module in names.items()}
    checks = load(tmp_path, plugins=plugins, files=files)
    assert list(wrong_in(checks)) == ["parts"]
    problems = {problem.where[0]: problem for problem in checks["parts"].problems}
    assert {problem.code for problem in problems.values()} == {"refused-part"}
    for name, (_, fault) in REFUSED.items():
        assert fault in problems[plugins[name]].message
    assert checks["settings"].skipped == "no plugin could be loaded"


def test_every_fault_of_a_plugin_is_told_at_once(tmp_path: Path) -> None:
    source = f"""{HEAD}
class Guard(Middleware):
    seen = []

    def on_evnt(self, ctx, event): ...


@hookimpl
def interpose_midlewares():
    return {{}}


@hookimpl
async def interpose_providers():
    return {{}}


@hookimpl(tryfirst=True)
def interpose_middlewares(plans):
    return {{"Guard": Guard}}


@hookimpl
def interpose_agents():
    return {{"Guard_2": Guard}}
"""
    problem = one(load(tmp_path, source, plugins={"guard": "acme_guard"}), "parts")
    for fault in (
        "interpose_midlewares is no hook; did you mean interpose_middlewares?",
        "interpose_providers is `async def`",
        "interpose_middlewares uses tryfirst",
        "interpose_middlewares has no argument plans",
        'agent "Guard_2": its key in interpose_agents is not an id',
        'agent "Guard_2": the class Guard is a Middleware, and an agent is wanted',
    ):
        assert fault in problem.message


def test_a_plugin_that_brings_nothing_is_told(tmp_path: Path) -> None:
    source = f"{HEAD}\n@hookimpl\ndef interpose_middlewares():\n    return {{}}\n"
    problem = one(load(tmp_path, source, plugins={"guard": "acme_guard"}), "parts")
    assert problem.code == "plugin-empty"
    assert problem.message.startswith('The plugin "guard" brings nothing')


# What it offers -------------------------------------------------------------------------------
STORE = """
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from interpose import Capability, Declaration, Provider

STORE = Capability[int]("acme-guard/store", version=1)
"""

PROVIDER = f"""{HEAD}{STORE}

class Guard(Provider):
    provides = (STORE,)

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings, ctx) -> AsyncGenerator[None]:
        ctx.provide(STORE, 1)
        yield
"""


def declaring(field: str) -> str:
    """Write a plugin whose middleware says by its settings that it provides the store."""
    return f"""{HEAD}{STORE}

class GuardSettings(Settings):
    {field}
    '''What is refused.'''

class Guard(Middleware[GuardSettings]):
    @classmethod
    def declare(cls, settings):
        settings.words
        return Declaration(provides=(STORE,))
"""


def test_an_index_of_offers_is_true(tmp_path: Path) -> None:
    sources = {
        "true": PROVIDER,
        "untrue": PROVIDER,
        "silent": PROVIDER,
        "default": declaring("words: str = ''"),
        "open": declaring("words: str"),
    }
    offers = {
        "true": ["store"],
        "untrue": ["store", "stoer"],
        "silent": [],
        "default": [],
        "open": ["store"],
    }
    # One name may be offered by several plugins, so it is no mapping.
    lines = ["[interpose]", *(f"{name} = acme_guard.{name}:Guard" for name in sources)]
    lines += ["[interpose.offers]"]
    for name, given in offers.items():
        lines += [f"capability.acme-guard/{each} = acme_guard.{name}:Guard" for each in given]
    checks = load(
        tmp_path,
        entry_points="\n".join(lines),
        files={f"acme_guard/{name}.py": source for name, source in sources.items()},
    )
    assert list(wrong_in(checks)) == ["offers-true"]
    assert checks["offers-true"].says == "acme-guard/store"
    said = {(each.severity, each.message, each.hint) for each in checks["offers-true"].problems}
    assert said == {
        (
            "error",
            '"acme-guard/stoer" is offered, and no part of the plugin "untrue" provides it.',
            'Did you mean "capability.acme-guard/store"?',
        ),
        (
            "error",
            (
                "The provider silent provides acme-guard/store, and no offer says so: an operator who "
                "lacks it is not told of this plugin."
            ),
            '"capability.acme-guard/store" = "acme_guard.silent:Guard"',
        ),
        (
            "error",
            (
                "The middleware default provides acme-guard/store, and no offer says so: an operator "
                "who lacks it is not told of this plugin."
            ),
            '"capability.acme-guard/store" = "acme_guard.default:Guard"',
        ),
        (
            "note",
            (
                '"acme-guard/store" is offered, and what open provides depends on its settings: this '
                "cannot be checked."
            ),
            "Let a test of yours check it.",
        ),
    }


# Its settings ---------------------------------------------------------------------------------
DESCRIBED = "\n'A word.'"
PYDANTIC = "from pydantic import Field, SecretStr, model_validator\n"
SETTINGS: Mapping[str, str] = {
    "good": settings(f"words: int = 1{DESCRIBED}"),
    "nowhere": settings("elsewhere: int = 3"),
    "not-in-readme": settings(f"elsewhere: int = 3{DESCRIBED}"),
    "not-described": settings("words: int = 3"),
    "secrets": settings(
        f"api_key: str{DESCRIBED}\npassword: str | None = None{DESCRIBED}\n"
        f"more_token: list[str] = []{DESCRIBED}\nsecret: dict[str, str] = {{}}{DESCRIBED}\n"
        f"sort_key: str = ''{DESCRIBED}"
    ),
    "no-secrets": settings(
        f"max_tokens: int = 1{DESCRIBED}\ntoken: SecretStr | None = None{DESCRIBED}\n"
        f"keys: tuple[SecretStr, ...] = (){DESCRIBED}\nsecret: dict[str, int] = {{}}{DESCRIBED}",
        PYDANTIC,
    ),
    "known-secret": settings(f"token: SecretStr = SecretStr('hunter2'){DESCRIBED}", PYDANTIC),
    "nested": settings(
        f"words: tuple[Rule, ...] = (){DESCRIBED}", "class Rule(Settings):\n    token: str = ''\n"
    ),
    "default": settings(f"words: int = Field(-1, ge=0){DESCRIBED}", PYDANTIC),
    "crash": settings(
        f"words: int = 1{DESCRIBED}\n@model_validator(mode='before')\n@classmethod\n"
        "def crash(cls, given):\n    return given['words']",
        PYDANTIC,
    ),
    "choosy": settings(
        f"words: int = 1{DESCRIBED}\n@model_validator(mode='after')\n"
        "def choose(self):\n    raise ValueError('choose something')",
        PYDANTIC,
    ),
    "schema": settings(
        f"words: Odd = None{DESCRIBED}",
        """
        class Odd:
            @classmethod
            def __get_pydantic_core_schema__(cls, source, handler):
                from pydantic_core import core_schema
                return core_schema.any_schema()

            @classmethod
            def __get_pydantic_json_schema__(cls, schema, handler):
                raise RuntimeError("no form")
        """,
    ),
    "variables": settings(
        f"words: int = Field(1, alias='the words'){DESCRIBED}\nper_day: int = 1{DESCRIBED}\n"
        f"other: int = Field(1, alias='per-day'){DESCRIBED}",
        PYDANTIC,
    ),
}
NAMES = "words api_key password more_token secret sort_key max_tokens token keys per_day per-day"


@pytest.fixture(scope="module")
def found_in_settings(
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, Sequence[tuple[str, str, str]]]:
    """What is found in each of the settings above: severity, code and message without the name."""
    modules = {name: name.replace("-", "_") for name in SETTINGS}
    checks = load(
        tmp_path_factory.mktemp("settings"),
        plugins={name: f"acme_guard.{module}:Guard" for name, module in modules.items()},
        files={f"acme_guard/{modules[name]}.py": source for name, source in SETTINGS.items()},
        readme=f"{README}\nNamed here: the words, {NAMES}.\n",
    )
    assert set(wrong_in(checks)) <= {"settings", "plan"}
    assert "hunter2" not in str(checks)
    found: dict[str, list[tuple[str, str, str]]] = {name: [] for name in SETTINGS}
    for problem in checks["settings"].problems:
        name, _, message = problem.message.partition(": ")
        module = f"acme_guard.{modules[name]}"
        assert problem.where[0] in {f"{module}:GuardSettings", f"{module}:Rule"}
        assert problem.hint
        found[name].append((problem.severity, problem.code, message))
    return found


Found = Mapping[str, Sequence[tuple[str, str, str]]]


def test_settings_as_they_should_be_pass(found_in_settings: Found) -> None:
    assert [found_in_settings[name] for name in ("good", "no-secrets", "choosy")] == [[], [], []]


@pytest.mark.parametrize(
    ("name", "severity", "message"),
    [
        ("nowhere", "error", "the setting elsewhere is documented nowhere: neither in the README"),
        ("not-in-readme", "warning", "the setting elsewhere is not in the README."),
        ("not-described", "warning", "the setting words has no description: `interpose schema`"),
    ],
)
def test_a_setting_is_documented_in_the_readme_and_for_editors(
    found_in_settings: Found, name: str, severity: str, message: str
) -> None:
    [(weight, code, said)] = found_in_settings[name]
    assert (weight, code) == (severity, "plugin-undocumented-setting")
    assert said.startswith(message)


def test_a_setting_that_is_named_like_a_secret_is_one(found_in_settings: Found) -> None:
    said = "is named like a secret, and its type is not: `interpose config` shows its value."
    assert found_in_settings["secrets"] == [
        (severity, "plugin-secret", f"the setting {name} {said}")
        for name, severity in {
            "api_key": "error",
            "password": "error",
            "more_token": "error",
            "secret": "error",
            "sort_key": "warning",
        }.items()
    ]


def test_a_secret_has_no_default(found_in_settings: Found) -> None:
    [(severity, code, said)] = found_in_settings["known-secret"]
    assert (severity, code) == ("error", "plugin-secret")
    assert said == "the setting token has a default: a secret that everybody can read is none."


def test_nested_settings_are_looked_at_too(found_in_settings: Found) -> None:
    assert [
        said.partition(" has ")[0].partition(" is ")[0] for *_, said in found_in_settings["nested"]
    ] == [
        "the setting words.token",
        "the setting words.token",
    ]


def test_a_default_is_valid(found_in_settings: Found) -> None:
    [(severity, code, said)] = found_in_settings["default"]
    assert (severity, code) == ("error", "plugin-default")
    assert said.startswith("the default of words is not valid: Input should be")


def test_a_validator_that_crashes_is_told(found_in_settings: Found) -> None:
    [(severity, code, said)] = found_in_settings["crash"]
    assert (severity, code) == ("error", "plugin-default")
    assert said.startswith("validating no settings at all fails with KeyError")


def test_settings_without_a_schema_are_told(found_in_settings: Found) -> None:
    [(severity, code, said)] = found_in_settings["schema"]
    assert (severity, code) == ("error", "plugin-schema")
    assert said.startswith("its settings have no JSON Schema: RuntimeError: no form.")


def test_settings_have_names_that_variables_can_have(found_in_settings: Found) -> None:
    assert found_in_settings["variables"] == [
        (
            "warning",
            "plugin-setting-name",
            'no variable can be named after the setting "the words".',
        ),
        (
            "error",
            "plugin-setting-name",
            'the settings "per_day" and "per-day" have one variable.',
        ),
    ]


# Its plan -------------------------------------------------------------------------------------
NEEDY = settings('words: str\n"""What is refused."""')


def test_a_part_that_needs_settings_is_planned_with_those_that_are_given(tmp_path: Path) -> None:
    checks = load(tmp_path / "a", NEEDY)
    assert checks["plan"].skipped == "guard needs settings, as --set middleware.guard.words=..."
    checks = load(tmp_path / "b", NEEDY, options=["middleware.guard.words=damn"])
    assert checks["plan"].says == "guard"


def test_each_part_is_planned_with_the_settings_that_are_its_own(tmp_path: Path) -> None:
    source = f"""{HEAD}
class Words(Settings):
    words: str


class Guard(Middleware[Words]):
    pass


@hookimpl
def interpose_middlewares():
    return {{"first": Guard, "second": Guard}}
"""
    options = ["middleware.guard-first.words=damn", "middleware.guard-second.words=darn"]
    checks = load(tmp_path / "a", source, plugins={"guard": "acme_guard"}, options=options)
    assert wrong_in(checks).get("plan") is None
    assert checks["plan"].says == "guard.first, guard.second"
    checks = load(tmp_path / "b", source, plugins={"guard": "acme_guard"}, options=options[:1])
    assert checks["plan"].says == (
        "guard.first; guard.second needs settings, as --set middleware.guard-second.words=..."
    )


def test_settings_that_do_not_fit_are_told(tmp_path: Path) -> None:
    checks = load(tmp_path, NEEDY, options=["middleware.guard.wrods=damn"])
    assert {problem.code for problem in checks["plan"].problems} == {
        "missing-setting",
        "unknown-setting",
    }


def test_a_plan_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    source = guard(
        """
        @classmethod
        def declare(cls, settings):
            raise RuntimeError("no")
        """
    )
    assert one(load(tmp_path, source), "plan").code == "failed-declare"


def test_what_others_provide_is_stood_in_for(tmp_path: Path) -> None:
    source = f"""{HEAD}{STORE}
from typing import Protocol

from interpose import PRINCIPAL, Point


class Reader(Protocol):
    def __call__(self) -> str: ...
    def read(self) -> str: ...


READER = Capability[Reader]("other/reader", version=1)


class Guard(Middleware):
    requires = (READER, PRINCIPAL)
    essential = (Point.TOOLS,)
"""
    checks = load(tmp_path, source)
    assert wrong_in(checks) == {}
    assert checks["plan"].says == "guard"


def test_parts_of_every_kind_are_planned(tmp_path: Path) -> None:
    source = f"""{HEAD}
from interpose import AgentFactory, ModelFactory


class Guard(Middleware):
    pass


class Echo(AgentFactory):
    def __call__(self, settings, ctx):
        raise NotImplementedError


class Mind(ModelFactory):
    def __call__(self, settings, ctx):
        raise NotImplementedError


@hookimpl
def interpose_middlewares():
    return {{"guard": Guard, "second": Guard}}


@hookimpl
def interpose_agents():
    return {{"echo": Echo}}


@hookimpl
def interpose_models():
    return {{"mind": Mind}}
"""
    checks = load(tmp_path, source, plugins={"guard": "acme_guard"})
    assert wrong_in(checks) == {}
    assert checks["plan"].says == "guard, guard.second, guard.echo, guard.mind"
