"""Follow a page of the documentation as a reader would: write its files, try its commands.

A page is followed from its top to its end in one empty folder, with an active environment of its
own that has all that this one has and takes more (``pip install -e ./plugin``; nothing is
downloaded). The info string of a fenced block says what becomes of it:

* ```` ```toml interpose.toml ````, ```` ```python app.py ````: a file of this name, in any
  language, also in folders; a later block of the same name replaces it;
* ```` ```console ````: commands after ``$ ``, each with what it prints on standard output below
  it. A command may go on in the next line after a ``\\``. ``...`` in an output stands for
  anything, also for several lines; two spaces and more stand for each other. A command that
  prints a line that begins with ``error[`` has to end with the status 1, any other with 0; where
  another status is due, show it: ``$ cmd; echo $?``. Write ``2>&1`` to show standard error. A command
  that ends with `` &`` is a server: it is waited for, and stopped at the end of the page; say one
  of the ports 8000, 8001, 8002 in it, or in what it prints, which become free ones;
* ```` ```python ```` without a name: a program; it has to end well, and if the next block is
  ```` ```text ````, that is what it prints;
* ```` ```sh not run: the reason ````: shown, and not tried; the reason is for the reader of
  tests/test_docs_pages.py, which lists each such block.

Directives of Sphinx (```` ```{toctree} ````) are left alone, any other block is refused.
``<!-- a new folder -->`` on a line of its own begins anew, in an empty folder and a fresh
environment.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from repository import fenced

Block: TypeAlias = tuple[str, str]
"""The info string of a fenced block, and its text."""
PORTS = ("8000", "8001", "8002")
NOT_RUN = "not run:"
_ANEW = re.compile(r"^<!-- a new folder -->$", re.MULTILINE)
_SCRIPTS = {
    "pip": "from pip._internal.cli.main import main",
    "interpose": "from interpose.cli import main",
    "uvicorn": "from uvicorn.main import main",
    "pytest": "from pytest import main",
}


def follow_page(text: str, folder: Path) -> None:
    """Follow a page: everything in it is true, or an AssertionError tells what is not."""
    for number, part in enumerate(_ANEW.split(text)):
        place = folder / f"folder-{number}"
        place.mkdir()
        Following(place, environment(folder / f"environment-{number}")).follow(fenced(part))


def not_run(text: str) -> Iterator[str]:
    """Yield the reason of each block that is shown and not tried."""
    for info, _ in fenced(text):
        _, marked, reason = info.partition(NOT_RUN)
        if marked:
            yield reason.strip()


def environment(folder: Path) -> Mapping[str, str]:
    """Make an environment; return the variables of a shell in which it is active."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)  # noqa: S603
    python = folder / "bin/python"
    [site] = folder.glob("lib/python*/site-packages")
    here = sysconfig.get_path("purelib")
    (site / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    for name, code in _SCRIPTS.items():
        script = folder / "bin" / name
        script.write_text(f"#!{python}\nimport sys\n{code}\nsys.exit(main())\n")
        script.chmod(0o755)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("INTERPOSE", "PYTHON"))}
    # Offline: what would be downloaded for a build or as a dependency is here already.
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    quiet = {"PIP_ROOT_USER_ACTION": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**inherited, **offline, **quiet, "PATH": path}


def shell(command: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """Run a command; return its status and what it wrote to standard output and error."""
    ran = subprocess.run(  # noqa: S603 - the commands of our own pages
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
        while command.endswith("\\"):
            more, _, printed = printed.partition("\n")
            command = f"{command}\n{more}"
        yield command, printed


def prints(printed: str) -> re.Pattern[str]:
    """Return the pattern of an output in which ``...`` stands for anything.

    How many spaces there are between columns depends on what else is installed or set.
    """
    pattern = re.sub(r"(?:\\ ){2,}", " {2,}", re.escape(_tidy(printed)))
    return re.compile(pattern.replace(re.escape("..."), ".*"), re.DOTALL)


def _tidy(output: str) -> str:
    """Leave out the spaces at the ends of lines, which no page shows."""
    return "\n".join(line.rstrip() for line in output.strip().splitlines())


class Following:
    """Somebody who follows a page in a folder, command by command.

    The ports of the page are others here, which are free.
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

    def follow(self, blocks: Iterable[Block]) -> None:
        """Write the files and try the commands; servers are stopped, whatever happens."""
        all_blocks = list(blocks)
        try:
            for block, after in zip(all_blocks, [*all_blocks[1:], ("", "")], strict=True):
                self._follow(block, after)
            self._no_output_alone(all_blocks)
        finally:
            self._stop()

    def _follow(self, block: Block, after: Block) -> None:
        info, text = block
        language, _, name = info.partition(" ")
        if name.startswith(NOT_RUN) or info == "text" or info.startswith("{"):
            return
        if name:
            file = self._folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._here(text), encoding="utf-8")
        elif language == "python":
            program = self._folder / ".program.py"
            program.write_text(self._here(text), encoding="utf-8")
            self._try("python .program.py", after[1] if after[0] == "text" else "...")
        else:
            assert language == "console", f"a block that cannot be tried: {info or text}"
            for command, printed in commands(self._here(text)):
                self._try(command, printed)

    @staticmethod
    def _no_output_alone(blocks: Sequence[Block]) -> None:
        for before, (info, text) in zip([("", ""), *blocks], blocks, strict=False):
            assert info != "text" or before[0] == "python", f"an output of no program: {text}"

    def _here(self, text: str) -> str:
        for port, free in self._ports.items():
            text = text.replace(port, free)
        return text

    def _try(self, command: str, printed: str) -> None:
        if command.endswith(" &"):
            self._start(command.removesuffix(" &"), printed)
            return
        status, output, errors = shell(command, self._folder, self._environment)
        said = f"{command}\n--- it printed:\n{output}\n--- standard error:\n{errors}"
        assert prints(printed).fullmatch(_tidy(output)), f"{said}\n--- the page:\n{printed}"
        shown = "$?" in command
        fails = re.search(r"^error\[", printed, re.MULTILINE) and not shown
        assert status == (1 if fails else 0), f"status {status}: {said}"

    def _start(self, command: str, printed: str) -> None:
        server = subprocess.Popen(  # noqa: S603 - the commands of our own pages
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
                assert prints(printed).fullmatch(_tidy(output)), f"{command}\n{output}\n{errors}"


def free_port() -> str:
    """Return a port that nobody listens on."""
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
