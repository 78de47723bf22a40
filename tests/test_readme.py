"""The README is true: each command and each file of it is tried, section by section.

* ```` ```toml interpose.toml ```` is a file; it is written under that name.
* ```` ```console ```` has commands after ``$`` and what they print; ``...`` is anything.
* ```` ```sh ```` sets up an environment from an index, so it is a packaging test.
"""

import contextlib
import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from repository import ROOT, fenced, files

README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTIONS: Mapping[str, str] = {
    part.partition("\n")[0]: part for part in re.split(r"^## ", README, flags=re.MULTILINE)[1:]
}
WORKED = (
    "Switch middleware on, in a file",
    "Write a plugin",
    "Embed it in an application",
    "Give it a model and tools",
    "Put a gateway in front of an agent",
    "Mount it in FastAPI with your own login",
)
PORTS = ("8000", "8001")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The variables of an active environment that has what this one has, and takes more."""
    folder = tmp_path_factory.mktemp("readme") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)  # noqa: S603
    python = folder / "bin/python"
    [site] = folder.glob("lib/python*/site-packages")
    here = sysconfig.get_path("purelib")
    (site / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    for name, code in {
        "pip": "from pip._internal.cli.main import main",
        "interpose": "from interpose.cli import main",
        "uvicorn": "from uvicorn.main import main",
    }.items():
        script = folder / "bin" / name
        script.write_text(f"#!{python}\nimport sys\n{code}\nsys.exit(main())\n")
        script.chmod(0o755)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("INTERPOSE", "PYTHON"))}
    # Offline: what would be downloaded for a build or as a dependency is here already.
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**inherited, **offline, "PIP_ROOT_USER_ACTION": "ignore", "PATH": path}


def shell(command: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    ran = subprocess.run(  # noqa: S603 - the commands of our own README
        ["bash", "-c", command],  # noqa: S607
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Yield (command, what it prints) of a console block."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def prints(printed: str) -> re.Pattern[str]:
    """Return the pattern of an output in which ``...`` stands for anything."""
    return re.compile(re.escape(printed.strip()).replace(re.escape("..."), ".*"), re.DOTALL)


class Following:
    """Somebody who follows a page in a folder, command by command.

    A command that ends with ``&`` is a server: it is waited for, and stopped at the end. The ports
    of the page are others here, which are free.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._ports = {port: free_port() for port in PORTS}
        self._servers: list[tuple[str, str, subprocess.Popen[str]]] = []

    def move_ports(self, files: Iterable[str]) -> None:
        """Let files of the folder name the free ports, too."""
        for file in map(self._folder.joinpath, files):
            if file.exists():
                file.write_text(self._here(file.read_text("utf-8")), "utf-8")

    def follow(self, blocks: Iterable[tuple[str, str]]) -> None:
        """Write the files and try the commands; servers are stopped, whatever happens."""
        try:
            for info, block in blocks:
                language, _, name = info.partition(" ")
                if name:
                    file = self._folder / name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(self._here(block), encoding="utf-8")
                    continue
                assert language == "console", f"a block that this test cannot try: {info}"
                for command, printed in commands(self._here(block)):
                    self._try(command, printed)
        finally:
            self._stop()

    def _here(self, text: str) -> str:
        for port, free in self._ports.items():
            text = text.replace(port, free)
        return text

    def _try(self, command: str, printed: str) -> None:
        if command.endswith(" &"):
            self._start(command.removesuffix(" &"), printed)
            return
        status, output, errors = shell(command, self._folder, self._environment)
        assert prints(printed).fullmatch(output.strip()), f"{command}\n{output}\n{errors}"
        assert status == (1 if printed.startswith("error[") else 0), f"{command}\n{errors}"

    def _start(self, command: str, printed: str) -> None:
        server = subprocess.Popen(  # noqa: S603 - the commands of our own README
            ["bash", "-c", command],  # noqa: S607
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._servers.append((command, printed, server))
        taken = {str(found) for found in re.findall(r"\d{4,5}", command + printed)}
        ports = {*self._ports.values()} & taken
        assert ports, f"a server whose port nobody says: {command}"
        until_listening(int(ports.pop()), server)

    def _stop(self) -> None:
        for _, _, server in self._servers:
            server.terminate()
        said = [
            (command, printed, *server.communicate(timeout=30))
            for command, printed, server in reversed(self._servers)
        ]
        for command, printed, output, errors in said:
            if printed.strip():
                assert prints(printed).fullmatch(output.strip()), f"{command}\n{output}\n{errors}"


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return str(found.getsockname()[1])


def until_listening(port: int, server: subprocess.Popen[str]) -> None:
    """Wait for an HTTP answer: a mere connection to a free port may be one to itself."""
    for _ in range(300):
        with (
            contextlib.suppress(OSError, http.client.HTTPException),
            contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as asked,
        ):
            asked.request("GET", "/")
            asked.getresponse().read()
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    server.kill()
    raise AssertionError(f"no server came up at port {port}")


@pytest.mark.parametrize("section", WORKED)
def test_a_section_can_be_followed(
    section: str, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    Following(tmp_path, environment).follow(fenced(SECTIONS[section]))


def test_the_demo_ends_as_the_readme_says(tmp_path: Path, environment: Mapping[str, str]) -> None:
    [(_, said)] = [block for block in fenced(SECTIONS["See it work"]) if block[0] == "text"]
    _, output, _ = shell("interpose demo", tmp_path, environment)
    assert output.partition("What the consumer saw")[2].strip("- \n") == said.strip()


def test_every_block_of_the_readme_is_tried() -> None:
    tried = {"See it work": {"sh", "text"}, "Tests": {"sh"}}
    for title, text in SECTIONS.items():
        if title not in WORKED:
            kinds = {info for info, _ in fenced(text)}
            assert kinds == tried.get(title, set()), title


@pytest.mark.parametrize(
    ("section", "name", "example"),
    [
        (WORKED[0], "interpose.toml", "config/interpose.toml"),
        (WORKED[0], "production.toml", "config/production.toml"),
        (WORKED[0], "capture.jsonl", "config/capture.jsonl"),
        (WORKED[1], "acme-signature/pyproject.toml", "plugin/pyproject.toml"),
        (
            WORKED[1],
            "acme-signature/src/acme_signature/__init__.py",
            "plugin/src/acme_signature/__init__.py",
        ),
        (WORKED[2], "app.py", "embed/app.py"),
        *(
            (WORKED[3], name, f"loop/{name}")
            for name in ("tools.py", "layers.py", "app.py", "interpose.toml", "provider.toml")
        ),
        (WORKED[4], "upstream.toml", "gateway/upstream.toml"),
        (WORKED[4], "interpose.toml", "gateway/interpose.toml"),
        (WORKED[5], "server.py", "fastapi/server.py"),
    ],
)
def test_the_files_of_the_readme_are_the_examples(section: str, name: str, example: str) -> None:
    [block] = (code for info, code in fenced(SECTIONS[section]) if info.endswith(f" {name}"))
    assert block == (ROOT / "examples" / example).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "example", ["config", "embed", "fastapi", "gateway", "langgraph", "loop", "pydantic-ai"]
)
def test_the_commands_of_an_example_run(
    example: str, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    folder = shutil.copytree(ROOT / "examples" / example, tmp_path / example)
    following = Following(folder, environment)
    following.move_ports(["interpose.toml", "upstream.toml"])
    page = (folder / "README.md").read_text(encoding="utf-8")
    following.follow(fenced(page))


@pytest.mark.packaging
def test_the_first_command_shows_the_demo_in_a_fresh_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    for file in files():
        copy = clone / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    [(_, command)] = [block for block in fenced(SECTIONS["See it work"]) if block[0] == "sh"]
    python = Path(sys.executable)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(python)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("INTERPOSE", "PYTHON"))}
    path = f"{tmp_path / 'bin'}{os.pathsep}{clean.get('PATH', '')}"
    status, output, errors = shell(command, clone, {**clean, "PATH": path})
    assert status == 0, errors
    assert "What the consumer saw" in output
