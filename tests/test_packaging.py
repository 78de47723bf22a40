"""The distributions as users get them: built, installed from wheels, tried in clean environments."""

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from packaging.version import Version
from repository import ROOT, Distribution, distributions
from snippets import free_port, until_listening

pytestmark = pytest.mark.packaging
ALL = pytest.mark.parametrize("distribution", distributions(), ids=lambda each: each.name)

# Clean means: nothing of this shell leads an environment or a run astray.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("INTERPOSE", "PYTHON", "VIRTUAL_ENV"))
}


def run(*command: str | Path, cwd: Path) -> str:
    ran = subprocess.run(  # noqa: S603 - tools and environments of this test
        [str(part) for part in command],
        cwd=cwd,
        env=CLEAN,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"{command}:\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Each distribution's folder with its sdist, and the wheel that is built from that sdist."""
    folders: dict[str, Path] = {}
    for distribution in distributions():
        folder = tmp_path_factory.mktemp(distribution.name)
        build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder)
        run(*build, distribution.folder, cwd=ROOT)
        folders[distribution.name] = folder
    return folders


def wheels(built: Mapping[str, Path], *names: str) -> list[Path]:
    return [wheel for name in names for wheel in built[name].glob("*.whl")]


@ALL
def test_a_distribution_builds_as_sdist_and_wheel(
    distribution: Distribution, built: Mapping[str, Path]
) -> None:
    [sdist] = built[distribution.name].glob("*.tar.gz")
    [wheel] = built[distribution.name].glob("*.whl")
    package = distribution.package.name
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", f"src/{package}/py.typed"} <= packed
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    # The wheel has every file of the package, and nothing beside it.
    ours = {
        f"{package}/{path.relative_to(distribution.package).as_posix()}"
        for path in distribution.package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == ours
    assert any(name.endswith("/licenses/LICENSE") for name in names)


HEAVY = {"interpose-mcp", "interpose-models"}
"""What needs newer versions of what core needs, too, so that its lowest are tried apart."""


@pytest.mark.parametrize("dependencies", ["newest", "lowest", "lowest of the heavy ones"])
def test_the_wheels_pass_the_demo(
    dependencies: str, built: Mapping[str, Path], tmp_path: Path
) -> None:
    python = environment(tmp_path / "venv")
    constraints = tmp_path / "constraints.txt"
    wanted = [wheel for name in built if name not in HEAVY for wheel in wheels(built, name)]
    pinned: Mapping[str, Version] = {}
    if dependencies == "lowest":
        pinned = lowest({name for name in built if name not in HEAVY})
    else:
        wanted = wheels(built, *built)
        if dependencies != "newest":
            pinned = lowest(HEAVY)
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in pinned.items()))
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input")
    # Compiling all that is installed takes longer than importing what the demo needs of it.
    install = ("install", "--quiet", "--no-compile", "--constraint", constraints)
    run(*pip, *install, *wanted, cwd=tmp_path)
    run(*pip, "check", cwd=tmp_path)
    installed = json.loads(run(*pip, "list", "--format=json", cwd=tmp_path))
    versions = {each["name"].lower().replace("_", "-"): each["version"] for each in installed}
    assert {name: Version(versions[name]) for name in pinned} == pinned

    shown = run(python.parent / "interpose", "demo", cwd=tmp_path)
    head, _, seen = shown.partition("What the consumer saw")
    plan = head.partition("Plan for agent")[2]
    assert [name for name in ("logging", "tool-filter", "redact") if name not in plan] == []
    assert seen.strip("- \n")
    assert not re.search(r"\w@\w|\d{4}[ -]?\d{4}", seen)
    assert "site-packages" in run(
        python, "-W", "error", "-c", "import interpose; print(interpose.__file__)", cwd=tmp_path
    )
    if "interpose-mcp" in versions:
        call_a_tool_over_http(python, tmp_path)


SHOP = """
import sys
from mcp.server import MCPServer

server = MCPServer("shop")

@server.tool()
def stock(item: str) -> str:
    "Tell how many of an item there are."
    return f"3 {item}"

server.run("streamable-http", port=int(sys.argv[1]))
"""
ASK = """
import asyncio, sys
from ag_ui.core import RunAgentInput, RunFinishedEvent, RunStartedEvent, TextMessageChunkEvent
from ag_ui.core import ToolCallChunkEvent
from interpose import Host, Layer
from interpose_mcp import McpTools

async def agent(run_input: RunAgentInput):
    [tool] = run_input.tools
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    if run_input.messages[-1].role == "user":
        args = '{"item": "chairs"}'
        yield ToolCallChunkEvent(tool_call_id="c", tool_call_name=tool.name, delta=args)
    else:
        text = run_input.messages[-1].content
        yield TextMessageChunkEvent(message_id="m", role="assistant", delta=text)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)

async def main():
    for protocol in ("auto", "legacy"):
        servers = {"shop": {"url": sys.argv[1], "protocol": protocol}}
        async with Host([Layer(McpTools, {"servers": servers})], agent=agent) as host:
            print((await host.run("How many chairs?")).text)

asyncio.run(main())
"""


def call_a_tool_over_http(python: Path, folder: Path) -> None:
    """Let interpose-mcp list and call the tool of a server, with what is installed there."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    (folder / "shop.py").write_text(SHOP)
    (folder / "interpose.toml").write_text(
        '[agent]\nuse = "scripted"\n[middleware.mcp]\nuse = "mcp.tools"\n'
        f'[middleware.mcp.servers.shop]\nurl = "{url}"\n'
    )
    server = subprocess.Popen(  # noqa: S603 - a server of this test
        [python, "shop.py", port],
        cwd=folder,
        env=CLEAN,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        until_listening(int(port), server)
        assert "mcp__shop__stock" in run(python.parent / "interpose", "mcp", "list", cwd=folder)
        assert run(python, "-W", "error", "-c", ASK, url, cwd=folder) == "3 chairs\n3 chairs\n"
    finally:
        server.terminate()
        server.wait(30)


def environment(folder: Path) -> Path:
    """Make an empty virtual environment; return its Python."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin/python"


def lowest(names: Collection[str]) -> Mapping[str, Version]:
    """Return the lowest versions that the declarations of these distributions all allow."""
    ours = {each.name for each in distributions()}
    found: dict[str, Version] = {}
    for distribution in distributions():
        if distribution.name not in names:
            continue
        for need in distribution.requirements:
            if need.name not in ours:
                [bound] = (Version(s.version) for s in need.specifier if s.operator == ">=")
                found[need.name] = max(bound, found.get(need.name, bound))
    return found
