"""What ``interpose check-plugin`` finds in a wheel without running anything of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from publishing import README, wheel

from interpose.cli.plugin_check.checking import file_checks
from interpose.cli.plugin_check.results import Check
from interpose.cli.plugin_check.subject import Subject, unpacked
from interpose.errors import Problem


def read(path: Path, folder: Path) -> Mapping[str, Check]:
    subject = unpacked(path, folder / "unpacked")
    assert isinstance(subject, Subject)
    return {check.name: check for check in file_checks(subject)}


def found(tmp_path: Path, check: str, **wrong: Any) -> Sequence[Problem]:
    """Return what one check says of a wheel in which this is wrong; no other finds anything."""
    checks = read(wheel(tmp_path / "dist", **wrong), tmp_path)
    beside = {name: each.problems for name, each in checks.items() if name != check}
    assert {name for name, problems in beside.items() if problems} == set()
    return checks[check].problems


def one(tmp_path: Path, check: str, **wrong: Any) -> tuple[str, str, str]:
    [problem] = found(tmp_path, check, **wrong)
    assert problem.code.startswith("plugin-")
    assert problem.where
    assert problem.hint
    return problem.severity, problem.message, problem.hint


def test_a_good_wheel_passes(tmp_path: Path) -> None:
    checks = read(wheel(tmp_path), tmp_path)
    assert [check.name for check in checks.values() if check.outcome != "ok"] == []
    assert {name: check.says for name, check in checks.items()} == {
        "name": "acme-guard 1.0",
        "range": "interpose<1,>=0.1",
        "python": ">=3.11",
        "readme": f"{len(README.strip())} characters",
        "licence": "MIT",
        "entry-points": "guard = acme_guard:Guard",
        "offers": "none",
        "package": "acme_guard",
        "typed": "py.typed",
        "public-names": "interpose",
    }


@pytest.mark.parametrize(
    ("requires", "message"),
    [
        ((), "It does not depend on interpose, so it may meet any version of it."),
        (
            ("interpose<1,>=0.1; python_version < '4'",),
            "It does not depend on interpose, so it may meet any version of it: the requirement",
        ),
        (("interpose>=0.1",), "interpose>=0.1 has no upper bound"),
        (("interpose<1",), "interpose<1 has no lower bound"),
        (("interpose",), "interpose has no lower and no upper bound"),
        (("interpose==0.1.0",), "It pins interpose==0.1.0"),
        (
            ("interpose<3,>=2.0",),
            "It is for another version of Interpose: required <3,>=2.0, running",
        ),
    ],
    ids=str,
)
def test_a_range_on_interpose_has_two_bounds_and_this_version_in_it(
    tmp_path: Path, requires: Sequence[str], message: str
) -> None:
    severity, said, hint = one(tmp_path, "range", fields={"Requires-Dist": requires})
    assert severity == "error"
    assert said.startswith(message)
    assert '"interpose>=0.1,<1"' in hint


def test_a_compatible_release_and_several_requirements_are_a_range_too(tmp_path: Path) -> None:
    assert not found(tmp_path / "a", "range", fields={"Requires-Dist": ["interpose~=0.1"]})
    assert not found(
        tmp_path / "b", "range", fields={"Requires-Dist": ["interpose>=0.1", "interpose[loop]<1"]}
    )


def test_a_name_is_canonical_valid_and_its_own(tmp_path: Path) -> None:
    severity, message, hint = one(tmp_path / "a", "name", fields={"Name": "Acme_Guard"})
    assert (severity, hint) == ("warning", 'name = "acme-guard"')
    assert message.startswith("The name Acme_Guard is not in its canonical form")
    [message, *_] = [p.message for p in everything(tmp_path / "b", fields={"Name": "interpose"})]
    assert message == "The name interpose is taken."
    [message, *_] = [p.message for p in everything(tmp_path / "c", fields={"Name": "acme guard"})]
    assert message == "'acme guard' is no name of a distribution."
    _, message, _ = one(tmp_path / "d", "name", fields={"Version": "one"})
    assert message == "The version 'one' is none that pip understands."


def everything(tmp_path: Path, **wrong: Any) -> Sequence[Problem]:
    checks = read(wheel(tmp_path / "dist", **wrong), tmp_path)
    return [problem for check in checks.values() for problem in check.problems]


def test_metadata_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    requires = ["interpose<1,>=0.1", "what is this"]
    _, message, _ = one(tmp_path / "a", "name", fields={"Requires-Dist": requires})
    assert message == "In the metadata, the requirement 'what is this' cannot be read."
    messages = [p.message for p in everything(tmp_path / "b", entry_points="guard = acme\n")]
    assert messages[0] == "In the metadata, line 1 of entry_points.txt is no entry point."


def test_the_pythons_are_declared_and_this_one_is_among_them(tmp_path: Path) -> None:
    _, message, _ = one(tmp_path / "a", "python", fields={"Requires-Python": None})
    assert message == "It does not say which Pythons it runs on, so pip installs it on any."
    _, message, _ = one(tmp_path / "b", "python", fields={"Requires-Python": ">=4"})
    running = ".".join(map(str, sys.version_info[:3]))
    assert message == f"It is not for this Python: required >=4, running {running}."


def test_a_readme_is_there_says_something_and_has_a_type(tmp_path: Path) -> None:
    _, message, hint = one(tmp_path / "a", "readme", readme="")
    assert message.startswith("It has no README in its metadata")
    assert hint == 'readme = "README.md"'
    severity, message, _ = one(tmp_path / "b", "readme", readme="# acme-guard\n\nTODO\n")
    assert severity == "error"
    assert message.startswith("Its README has 18 characters: it cannot say what the plugin does")
    severity, message, _ = one(tmp_path / "c", "readme", fields={"Description-Content-Type": None})
    assert (severity, message[:31]) == ("warning", "Its README has no content type,")


def test_a_licence_is_named_and_in_the_wheel(tmp_path: Path) -> None:
    nothing = {"License-Expression": None, "License-File": None}
    severity, message, _ = one(tmp_path / "a", "licence", fields=nothing)
    assert (severity, message) == ("error", "It has no licence, so nobody may use it.")
    severity, message, _ = one(tmp_path / "b", "licence", fields={"License-File": None})
    assert severity == "warning"
    assert message == "Its licence has a name, and its text is not in the wheel."
    lost = ["acme_guard-1.0.dist-info/licenses/LICENSE"]
    severity, message, _ = one(tmp_path / "c", "licence", without=lost)
    assert (severity, message) == ("error", "The licence file LICENSE is not in the wheel.")


def test_a_licence_may_be_a_classifier(tmp_path: Path) -> None:
    fields = {
        "License-Expression": None,
        "Classifier": ["License :: OSI Approved :: BSD License", "Topic :: Utilities"],
    }
    checks = read(wheel(tmp_path / "dist", fields=fields), tmp_path)
    assert (checks["licence"].outcome, checks["licence"].says) == ("ok", "BSD License")


@pytest.mark.parametrize(
    ("plugins", "message", "hint"),
    [
        (
            {},
            'It has no entry point of the group "interpose", so there is no plugin in it.',
            '[project.entry-points.interpose]\nmy-plugin = "my_package:MyMiddleware"',
        ),
        (
            {"my_Guard": "acme_guard:Guard"},
            '"my_Guard" is no id: it is looked up in files and variables.',
            'Use lower-case words, digits and single hyphens, as in "my-guard".',
        ),
        (
            {"guard.v2": "acme_guard:Guard"},
            '"guard.v2" is no id: it is looked up in files and variables.',
            'Use lower-case words, digits and single hyphens, as in "guard-v2".',
        ),
        ({"loop": "acme_guard:Guard"}, 'The id "loop" means something of Interpose itself.', ""),
        (
            {"guard": "acme_gaurd:Guard"},
            'The plugin "guard" names the module acme_gaurd, which is not in the wheel.',
            "Did you mean acme_guard?",
        ),
        (
            {"guard": "acme_guard.layer:Guard"},
            'The plugin "guard" names the module acme_guard.layer, which is not in the wheel.',
            "Did you mean acme_guard?",
        ),
        (
            {"guard": "json:dumps"},
            'The plugin "guard" names the module json, which is not in the wheel.',
            "Add the module to the wheel, or correct the name.",
        ),
        (
            {"guard": "acme_guard/layer.py"},
            "The plugin \"guard\" names 'acme_guard/layer.py', which is no module and no object.",
            'Write "package.module" or "package.module:object".',
        ),
    ],
    ids=str,
)
def test_an_entry_point_has_an_id_and_a_module_of_the_wheel(
    tmp_path: Path, plugins: Mapping[str, str], message: str, hint: str
) -> None:
    severity, said, advice = one(tmp_path, "entry-points", plugins=plugins)
    assert (severity, said) == ("error", message)
    assert advice == (hint or advice)


def test_a_plugin_is_declared_once(tmp_path: Path) -> None:
    twice = "[interpose]\nguard = acme_guard:Guard\nguard = acme_guard\n"
    _, message, _ = one(tmp_path, "entry-points", entry_points=twice)
    assert message == 'The plugin "guard" is declared twice.'


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ({"Guard": "acme_guard"}, '"Guard" is no name of a command.'),
        ({"run": "acme_guard"}, 'The command "run" is one of Interpose itself, which is'),
        (
            {"guard": "acme_guard.command"},
            'The command "guard" names the module acme_guard.command, which is not in the wheel.',
        ),
    ],
    ids=str,
)
def test_a_command_has_a_name_of_its_own_and_a_module_of_the_wheel(
    tmp_path: Path, commands: Mapping[str, str], message: str
) -> None:
    severity, said, _ = one(tmp_path, "entry-points", commands=commands)
    assert (severity, said[: len(message)]) == ("error", message)


def test_a_command_is_declared_once(tmp_path: Path) -> None:
    commands = "[interpose.commands]\nx = acme_guard\nx = acme_guard:Guard\n"
    twice = f"[interpose]\nguard = acme_guard:Guard\n{commands}"
    _, message, _ = one(tmp_path, "entry-points", entry_points=twice)
    assert message == 'The command "x" is declared twice.'


def test_a_command_as_it_should_be_passes(tmp_path: Path) -> None:
    checks = read(wheel(tmp_path, commands={"guard": "acme_guard"}), tmp_path)
    assert checks["entry-points"].outcome == "ok"
    assert checks["entry-points"].says == "guard = acme_guard:Guard, guard = acme_guard"


def test_the_id_of_a_plugin_of_interpose_is_taken(tmp_path: Path) -> None:
    severity, message, _ = one(tmp_path, "entry-points", plugins={"redact": "acme_guard:Guard"})
    assert (severity, message[:36]) == ("warning", 'The id "redact" is that of interpose')


@pytest.mark.parametrize(
    ("offers", "message"),
    [
        (
            {"acme-guard/verdicts": "acme_guard:Guard"},
            '"acme-guard/verdicts" offers nothing: the name of an offer is capability.<name>',
        ),
        (
            {"capability.acme_guard/verdicts": "acme_guard:Guard"},
            '"capability.acme_guard/verdicts" offers nothing: the name of an offer',
        ),
        (
            {"capability.verdicts": "acme_guard:Guard"},
            'The capability "verdicts" has a name that belongs to Interpose.',
        ),
        (
            {"capability.acme-guard/verdicts": "acme_guard"},
            '"capability.acme-guard/verdicts" is offered by acme_guard, and no plugin has',
        ),
    ],
    ids=str,
)
def test_an_offer_names_a_capability_and_a_plugin(
    tmp_path: Path, offers: Mapping[str, str], message: str
) -> None:
    severity, said, _ = one(tmp_path, "offers", offers=offers)
    assert severity == "error"
    assert said.startswith(message)


@pytest.mark.parametrize("top", ["tests", "src", "utils", "plugin"])
def test_a_generic_top_level_name_is_refused(tmp_path: Path, top: str) -> None:
    severity, message, hint = one(tmp_path, "package", files={f"{top}/__init__.py": ""})
    assert severity == "error"
    assert message.startswith(
        f"It brings a top-level {top}, a name that other distributions choose"
    )
    assert hint == "Leave it out of the wheel, or move it into acme_guard."


def test_a_plugin_has_one_package_with_a_name_that_is_free(tmp_path: Path) -> None:
    _, message, _ = one(
        tmp_path / "a", "package", files={"acme_more/__init__.py": "", "acme_more/py.typed": ""}
    )
    assert message == "It has 2 top-level packages (acme_guard, acme_more), and a plugin has one."
    _, message, _ = one(tmp_path / "b", "package", files={"interpose/guard.py": ""})
    assert message == "It has files in the package interpose, which is not its own."
    [other] = found(tmp_path / "c", "package", fields={"Name": "acme-wall"})
    assert other.severity == "warning"
    assert other.message.startswith("Its package is acme_guard: only a name like the distribution")
    messages = [p.message for p in everything(tmp_path / "d", files={"calendar.py": ""})]
    assert "Its package calendar hides that of Python." in messages


def test_a_namespace_package_is_refused(tmp_path: Path) -> None:
    messages = [
        problem.message
        for problem in everything(
            tmp_path,
            plugins={"guard": "acme_guard.layer:Guard"},
            files={"acme_guard/layer.py": ""},
            without=["acme_guard/__init__.py"],
        )
    ]
    assert messages == [
        "acme_guard has no __init__.py: it is a namespace package, which others may add to."
    ]


def test_a_wheel_without_modules_is_told(tmp_path: Path) -> None:
    nothing = ["acme_guard/__init__.py", "acme_guard/py.typed"]
    messages = [p.message for p in everything(tmp_path, without=nothing)]
    assert "There is no module in it." in messages


def test_a_package_without_its_types_is_a_warning(tmp_path: Path) -> None:
    severity, message, _ = one(tmp_path, "typed", without=["acme_guard/py.typed"])
    assert severity == "warning"
    assert message == "acme_guard has no py.typed, so type checkers take all of it for Any."


@pytest.mark.parametrize(
    ("line", "severity", "message", "hint"),
    [
        (
            "from interpose.runtime.run import Run",
            "error",
            "It imports interpose.runtime.run.Run, which is private: it may change in any release.",
            "from interpose import Run",
        ),
        (
            "import interpose.startup.discovery",
            "error",
            "It imports interpose.startup.discovery, which is private: it may change in any release.",
            "",
        ),
        (
            "from interpose import Middlewares",
            "error",
            "interpose has no public name Middlewares.",
            "Did you mean Middleware?",
        ),
        (
            "from interpose.agui import Middleware",
            "error",
            "interpose.agui has no public name Middleware.",
            "from interpose import Middleware",
        ),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from interpose.host import Host",
            "warning",
            "It imports interpose.host.Host, which is private: it may change in any release.",
            "from interpose import Host",
        ),
        (
            "def later():\n    try:\n        pass\n    except ImportError:\n        from interpose.host import Host",
            "error",
            "It imports interpose.host.Host, which is private: it may change in any release.",
            "from interpose import Host",
        ),
    ],
    ids=str,
)
def test_private_names_of_interpose_are_found(
    tmp_path: Path, line: str, severity: str, message: str, hint: str
) -> None:
    said = one(tmp_path, "public-names", files={"acme_guard/more.py": line})
    assert said[:2] == (severity, message)
    assert said[2] == (hint or said[2])


def test_public_names_in_every_form_are_fine(tmp_path: Path) -> None:
    lines = """
    import interpose
    from interpose import agui, __version__
    from interpose.agui import *
    from interpose.loop import tool
    """
    assert not found(tmp_path, "public-names", files={"acme_guard/more.py": lines})


def test_a_file_that_is_no_python_is_told(tmp_path: Path) -> None:
    [problem] = found(tmp_path, "public-names", files={"acme_guard/more.py": "def (:\n"})
    assert problem.code == "plugin-source"
    assert problem.message.startswith("acme_guard/more.py is no Python: ")
    assert problem.where == ("acme_guard/more.py:1",)


def test_a_module_alone_cannot_say_that_it_is_typed(tmp_path: Path) -> None:
    severity, message, _ = one(
        tmp_path,
        "typed",
        plugins={"guard": "acme_guard:Guard"},
        files={"acme_guard.py": "Guard = None"},
        without=["acme_guard/__init__.py", "acme_guard/py.typed"],
    )
    assert severity == "warning"
    assert message == "acme_guard.py stands alone, and only a package can say that it is typed."


def test_what_is_no_wheel_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.whl"
    broken.write_text("no zip")
    problem = unpacked(broken, tmp_path / "a")
    assert isinstance(problem, Problem)
    assert problem.message.startswith("broken.whl is no sound wheel: it cannot be unpacked")
    without = [f"acme_guard-1.0.dist-info/{name}" for name in ("METADATA",)]
    problem = unpacked(wheel(tmp_path / "dist", without=without), tmp_path / "b")
    assert isinstance(problem, Problem)
    assert "has no METADATA that can be read" in problem.message
    problem = unpacked(wheel(tmp_path / "dist", fields={"Version": None}), tmp_path / "c")
    assert isinstance(problem, Problem)
    assert "METADATA has no Version" in problem.message


def test_a_wheel_that_writes_outside_is_not_unpacked(tmp_path: Path) -> None:
    path = wheel(tmp_path / "dist", files={"../../stolen.py": "x = 1"})
    problem = unpacked(path, tmp_path / "unpacked")
    assert isinstance(problem, Problem)
    assert "it has a file outside of itself: ../../stolen.py" in problem.message
    assert not (tmp_path / "stolen.py").exists()
