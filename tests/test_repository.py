"""The repository holds together: what its files say of each other is true."""

import ast
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import importlib_metadata
import pytest
from repository import (
    ROOT,
    Distribution,
    canonical,
    distributions,
    files,
    is_standard,
    root_table,
    runtime_imports,
)

ALL = pytest.mark.parametrize("distribution", distributions(), ids=lambda each: each.name)
PLUGINS = tuple(each for each in distributions() if each.name != "interpose")
EACH_PLUGIN = pytest.mark.parametrize("plugin", PLUGINS, ids=lambda each: each.name)
LOADED_BY_CORE = {"regex"}  # by PatternTransform, for the plugins that use it
DOORS = {
    "interpose",
    "interpose.agui",
    "interpose.commands",
    "interpose.loop",
    "interpose.server",
    "interpose.testing",
}


def lines(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in text if line and not line.startswith("#")]


def test_the_requirements_list_every_distribution_and_nothing_else() -> None:
    folders = [each.folder.relative_to(ROOT).as_posix() for each in distributions()]
    listed = [re.sub(r"\[[a-z,-]+\]$", "", line) for line in lines("requirements.txt")]
    assert listed == [f"-e ./{folder}" for folder in folders]


def test_the_requirements_for_development_begin_with_the_product() -> None:
    first, *tools = lines("requirements-dev.txt")
    assert first == "-r requirements.txt"
    assert [line for line in tools if not re.search(r">=[\d.]+,<[\d.]+$", line)] == []


def test_layers_types_and_workspace_know_every_distribution() -> None:
    packages = sorted(each.package.name for each in distributions())
    sources = [each.package.parent.relative_to(ROOT).as_posix() for each in distributions()]
    mypy_path = [path.removeprefix("$MYPY_CONFIG_FILE_DIR/") for path in mypy("mypy_path")]
    names = {each.name for each in distributions()}
    assert sorted(root_table("tool", "importlinter", "root_packages")) == packages
    assert set(sources) <= set(mypy_path)
    assert set(root_table("tool", "uv", "sources")) == names
    assert set(root_table("dependency-groups", "dev")) >= names


def mypy(key: str) -> list[str]:
    return list(root_table("tool", "mypy", key))


def test_the_plugins_are_named_in_each_contract_about_plugins() -> None:
    packages = {each.package.name for each in PLUGINS}
    contracts = root_table("tool", "importlinter", "contracts")
    about = {each["name"]: each for each in contracts if each["name"].startswith("Plugins")}
    listed = [set(each.get("source_modules", each.get("modules"))) for each in about.values()]
    assert listed == [packages, packages]


def test_the_root_is_virtual() -> None:
    assert "project" not in tomllib.loads((ROOT / "pyproject.toml").read_text())


@ALL
@pytest.mark.parametrize("name", ["README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml"])
def test_each_distribution_has_its_papers(distribution: Distribution, name: str) -> None:
    assert (distribution.folder / name).read_text(encoding="utf-8").strip()


@ALL
def test_each_distribution_has_the_licence_of_the_repository(distribution: Distribution) -> None:
    assert (distribution.folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert distribution.project["license"] == "MIT"


@ALL
def test_each_package_is_typed(distribution: Distribution) -> None:
    assert (distribution.package / "py.typed").is_file()


@ALL
def test_each_changelog_begins_with_the_version(distribution: Distribution) -> None:
    text = (distribution.folder / "CHANGELOG.md").read_text(encoding="utf-8")
    [newest, *_] = re.findall(r"^## (\S+)", text, re.MULTILINE)
    assert newest == importlib_metadata.version(distribution.name)


@ALL
def test_a_version_is_stated_in_one_place(distribution: Distribution) -> None:
    version = importlib_metadata.version(distribution.name)
    metadata = (distribution.folder / "pyproject.toml").read_text()
    places = [metadata, *(path.read_text() for path, _ in distribution.modules())]
    stated = [
        text for text in places if re.search(rf'version\w* = "{version}"', text, re.IGNORECASE)
    ]
    stated += [
        text for text in places if f'__version__ = "{version}"' in text and text not in stated
    ]
    assert len(stated) == 1


@ALL
def test_each_distribution_supports_the_same_pythons(distribution: Distribution) -> None:
    ours = [each for each in distribution.project["classifiers"] if "Python :: 3." in each]
    assert [each.rpartition(" ")[2] for each in ours] == ["3.11", "3.12", "3.13"]
    assert distribution.project["requires-python"] == ">=3.11"
    assert root_table("tool", "mypy", "python_version") == "3.11"


@EACH_PLUGIN
def test_a_plugin_is_known_by_the_name_of_its_distribution(plugin: Distribution) -> None:
    assert list(plugin.plugins) == [plugin.name.removeprefix("interpose-")]
    assert plugin.package.name == plugin.name.replace("-", "_")


@EACH_PLUGIN
def test_the_id_of_a_plugin_is_the_id_of_what_it_brings(plugin: Distribution) -> None:
    from interpose.authoring import middleware_id

    for name, value in plugin.plugins.items():
        module, _, attribute = value.partition(":")
        found = __import__(module, fromlist=["*"])
        if attribute:
            assert middleware_id(getattr(found, attribute)) == name
        else:  # a module of hooks
            hooks = [getattr(found, hook) for hook in vars(found) if hook.startswith("interpose_")]
            brought = [hook() for hook in hooks]
            assert [parts for parts in brought if name in parts or len(parts) > 1] != []


@EACH_PLUGIN
def test_a_plugin_asks_for_a_range_of_core_and_pins_nothing(plugin: Distribution) -> None:
    [core] = (each for each in plugin.requirements if each.name == "interpose")
    assert {each.operator for each in core.specifier} == {">=", "<"}
    assert "==" not in {each.operator for need in plugin.requirements for each in need.specifier}


@ALL
def test_a_distribution_declares_what_it_imports(distribution: Distribution) -> None:
    needs = (*distribution.requirements, *distribution.extras)
    declared = {canonical(each.name) for each in needs}
    assert imported_distributions(distribution) - declared == set()


@ALL
def test_a_distribution_imports_what_it_declares(distribution: Distribution) -> None:
    declared = {canonical(each.name) for each in distribution.requirements}
    used = imported_distributions(distribution, for_types_too=True) | LOADED_BY_CORE
    assert declared - used == set()


@cache
def installed_modules() -> Mapping[str, list[str]]:
    """Return which distributions have each top-level module; reading them all takes a second."""
    return importlib_metadata.packages_distributions()


def imported_distributions(distribution: Distribution, *, for_types_too: bool = False) -> set[str]:
    """Return the distributions whose modules it imports, found by what is installed here."""
    owners = {
        **installed_modules(),
        **{each.package.name: [each.name] for each in distributions()},
        "pydantic_core": ["pydantic"],  # which pins it, as one product in two parts
    }
    found: set[str] = set()
    for path, tree in distribution.modules():
        for module in runtime_imports(tree, for_types_too=for_types_too):
            top = module.partition(".")[0]
            if not is_standard(top) and top != distribution.package.name:
                owner = owners.get(top)
                assert owner, f"{path} imports {module}, which no installed distribution has"
                found.add(canonical(owner[0]))
    return found


@EACH_PLUGIN
def test_a_plugin_imports_the_public_modules_of_core_alone(plugin: Distribution) -> None:
    imported = {module for _, tree in plugin.modules() for module in runtime_imports(tree)}
    assert {each for each in imported if each.partition(".")[0] == "interpose"} <= DOORS


@EACH_PLUGIN
def test_the_names_that_a_plugin_imports_from_core_are_public(plugin: Distribution) -> None:
    import interpose

    for path, tree in plugin.modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "interpose":
                names = {alias.name for alias in node.names}
                assert names <= {*interpose.__all__, "agui"}, path


def test_the_public_names_of_core_are_no_modules() -> None:
    import interpose

    package = Path(interpose.__file__).parent
    modules = {path.stem for path in package.glob("*.py")} | {
        path.name for path in package.iterdir() if path.is_dir()
    }
    assert modules & set(interpose.__all__) == set()


def test_test_files_have_names_of_their_own() -> None:
    names = [path.name for path in files() if path.match("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_test_folders_are_no_packages() -> None:
    inside = [path for path in files() if "tests" in path.parts and path.name == "__init__.py"]
    assert inside == []


def test_no_file_names_this_machine_or_a_registry() -> None:
    # Written in pieces, so that this file does not name them either.
    homes = "|".join(("/ro" + "ot/", "/ho" + "me/", "/wo" + "rk/", "/Us" + "ers/", "/op" + "t/"))
    hosts = "|".join(("py" + r"pi\.org", "pythonho" + "sted", "npm" + r"js\.", "file:/" + "//"))
    forbidden = re.compile(rf"(?<![\w.]){homes}|{hosts}|shared/(?:design|reference)")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if forbidden.search(line)
    ]
    assert found == []


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_the_build_runs_the_test_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "-m venv .venv && .venv/bin/pip install -r requirements-dev.txt" in readme
    assert ".venv/bin/python -m pytest\n" in readme
    assert "pip install --quiet -r requirements-dev.txt" in script
    assert '/bin/python" -m pytest' in script


def without_code(markdown: str) -> str:
    return re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    """Return a page without its code, in which no link is one."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def test_links_between_the_pages_lead_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in files()
        if path.suffix == ".md"
        for target in re.findall(
            r"\]\(([^)#\s]+)(?:#[^)]*)?\)", without_code(path.read_text("utf-8"))
        )
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert broken == []
