"""``interpose mcp list``: what the servers of the configuration have to offer."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commandline import CommandLine, Outcome
from mcp_parts import odd_server, python_server

from interpose_mcp import McpToolsSettings, server_hash
from interpose_mcp.inspection import address_of
from interpose_mcp.settings import ServerSettings

SECONDS = 60.0
"""How long a test waits for what has to happen."""

AGENT = '[agent]\nuse = "scripted"\n'

SHOP = """
from mcp.server import MCPServer

server = MCPServer("shop", version="1.2")

@server.tool()
def stock(item: str) -> str:
    "How many of an item there are."
    return "3"

@server.tool()
def wipe() -> str:
    "Delete everything."
    return "gone"

@server.tool(meta={"ui": {"resourceUri": "ui://shop/cart.html"}})
def cart() -> str:
    "Show the cart."
    return "empty"

@server.tool(meta={"ui": {"resourceUri": "ui://shop/cart.html", "visibility": ["app"]}})
def add() -> str:
    "Put something into the cart."
    return "added"

other = MCPServer("other")

@other.tool(name="cart")
def also_cart() -> str:
    "Show another cart."
    return "full"
"""

STDIO = """
import os, sys, time
from pathlib import Path

Path("{own}").write_text(str(os.getpid()))
end = time.monotonic() + 60
while not Path("{other}").exists():
    assert time.monotonic() < end, "nobody came"
    time.sleep(0.02)
from mcp.server import MCPServer
server = MCPServer("stdio", version="1.0")

@server.tool()
def there() -> str:
    "Be there."
    return "here"

server.run("stdio")
"""


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    """The command line in a folder with the module ``shop_here``, which is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.upper().startswith("INTERPOSE"):
            monkeypatch.delenv(name)
    line = CommandLine(tmp_path, capsys, monkeypatch)
    line.write(SHOP, "shop_here.py")
    yield line
    sys.modules.pop("shop_here", None)


def configured(cli: CommandLine, *layers: str) -> None:
    cli.write("\n".join([AGENT, *layers]))


def listed(outcome: Outcome) -> dict[str, Any]:
    """Return the servers that were listed as JSON, by layer and id."""
    layers = json.loads(outcome.out)["layers"]
    return {f"{layer['id']}.{each['id']}": each for layer in layers for each in layer["servers"]}


def rows(server: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    return [(tool["tool"], tool["name"], tool["leftOut"]) for tool in server["tools"]]


def closed_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


# What is listed ---------------------------------------------------------------------------------


def test_servers_and_tools_are_listed_for_people(cli: CommandLine) -> None:
    configured(
        cli,
        '[middleware.mcp]\nuse = "mcp.tools"',
        '[middleware.mcp.servers.shop]\npython = "shop_here:server"\ndeny = ["wipe"]',
    )
    outcome = cli("mcp", "list")
    assert outcome.out == (
        "mcp  mcp.tools, agent default\n"
        "\n"
        "  shop  python shop_here:server\n"
        f"    hash {server_hash('python', 'shop')}\n"
        "    protocol 2026-07-28, shop 1.2\n"
        "    mcp__shop__stock  stock  model, app\n"
        "    -                 wipe   model, app  left out: it is in `deny`\n"
        "    mcp__shop__cart   cart   model, app  ui://shop/cart.html\n"
        "    -                 add    app         ui://shop/cart.html  "
        "left out: it is not for models\n"
    )
    assert (outcome.code, outcome.err) == (0, "")


def test_servers_and_tools_are_listed_as_json(cli: CommandLine) -> None:
    configured(
        cli,
        '[middleware.frames]\nuse = "mcp.apps"',
        '[middleware.frames.servers.shop]\npython = "shop_here:server"\nallow = ["cart", "add"]',
    )
    outcome = cli("mcp", "list", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    told = json.loads(outcome.out)
    [layer] = told.pop("layers")
    assert told == {}
    [server] = layer.pop("servers")
    assert layer == {"id": "frames", "use": "mcp.apps", "agents": ["default"], "problems": []}
    tools = server.pop("tools")
    assert server == {
        "id": "shop",
        "transport": "python",
        "address": "shop_here:server",
        "hash": server_hash("python", "shop"),
        "protocol": "2026-07-28",
        "server": "shop 1.2",
        "problem": None,
    }
    assert [(tool["tool"], tool["name"], tool["leftOut"]) for tool in tools] == [
        ("stock", None, "it is not in `allow`"),
        ("wipe", None, "it is not in `allow`"),
        ("cart", "cart", None),
        ("add", None, "it is not for models"),
    ]
    assert [(tool["visibility"], tool["resourceUri"]) for tool in tools[2:]] == [
        (["model", "app"], "ui://shop/cart.html"),
        (["app"], "ui://shop/cart.html"),
    ]


def test_a_tool_that_cannot_be_offered_is_listed_with_the_reason(cli: CommandLine) -> None:
    cli.write(
        """
        from mcp.server.lowlevel import Server
        from mcp.types import ListToolsResult, Tool

        async def tools(ctx, params):
            fine = {"type": "object"}
            return ListToolsResult(tools=[
                Tool(name="twice", input_schema=fine),
                Tool(name="twice", input_schema=fine),
                Tool(name="broken", input_schema={"type": "object", "required": 7}),
                Tool(name="not\\x1ba name", input_schema=fine),
            ])

        server = Server("odd", on_list_tools=tools)
        """,
        "odd_here.py",
    )
    configured(
        cli,
        '[middleware.frames]\nuse = "mcp.apps"',
        '[middleware.frames.servers.odd]\npython = "odd_here:server"',
        '[middleware.mcp]\nuse = "mcp.tools"',
        '[middleware.mcp.servers.odd]\npython = "odd_here:server"',
    )
    outcome = cli("mcp", "list", "--json")
    sys.modules.pop("odd_here", None)
    servers = listed(outcome)
    assert rows(servers["frames.odd"]) == [
        ("twice", "twice", None),
        ("twice", None, "the server lists it twice"),
        ("broken", None, "its input schema is none: 7 is not of type 'array'"),
        ("not\x1ba name", None, "no model may call a tool by this name"),
    ]
    assert rows(servers["mcp.odd"])[-1] == ("not\x1ba name", "mcp__odd__not_a_name", None)
    assert outcome.code == 0
    shown = cli("mcp", "list").out
    assert "\x1b" not in shown
    assert "not\\x1ba name" in shown


def test_what_differs_for_an_agent_is_listed_apart(cli: CommandLine) -> None:
    cli.write(
        """
        [agents.one]
        use = "scripted"
        [agents.two]
        use = "scripted"
        [middleware.mcp]
        use = "mcp.tools"
        [middleware.mcp.servers.shop]
        python = "shop_here:server"
        [agents.two.middleware.mcp.servers.shop]
        allow = ["stock"]
        """
    )
    outcome = cli("mcp", "list", "--json")
    told = [
        (layer["agents"], [name for _, name, _ in rows(layer["servers"][0]) if name])
        for layer in json.loads(outcome.out)["layers"]
    ]
    assert told == [
        (["one"], ["mcp__shop__stock", "mcp__shop__wipe", "mcp__shop__cart"]),
        (["two"], ["mcp__shop__stock"]),
    ]


def test_one_server_can_be_asked_for(cli: CommandLine) -> None:
    configured(
        cli,
        '[middleware.mcp]\nuse = "mcp.tools"',
        '[middleware.mcp.servers.shop]\npython = "shop_here:server"',
        f'[middleware.mcp.servers.gone]\nurl = "http://127.0.0.1:{closed_port()}/mcp"',
        '[middleware.frames]\nuse = "mcp.apps"',
        '[middleware.frames.servers.other]\npython = "shop_here:other"',
    )
    outcome = cli("mcp", "list", "--json", "--server", "shop")
    assert (outcome.code, list(listed(outcome))) == (0, ["mcp.shop"])
    outcome = cli("mcp", "list", "--server", "shap")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "error[usage]: There is no MCP server 'shap'.\n"
        "  at --server\n"
        "  fix: The servers are gone, other, shop.\n"
    )


def test_a_configuration_without_servers_is_told_how_to_begin(cli: CommandLine) -> None:
    configured(cli)
    outcome = cli("mcp", "list")
    assert (outcome.code, outcome.err) == (0, "")
    said, _, toml = outcome.out.partition("\n\n")
    assert said.startswith("No layer uses mcp.tools or mcp.apps.")
    layer = tomllib.loads(toml)["middleware"]["mcp"]
    assert layer.pop("use") == "mcp.tools"
    assert list(McpToolsSettings.model_validate(layer).servers) == ["docs"]
    assert json.loads(cli("mcp", "list", "--json").out) == {"layers": []}


def test_nothing_else_of_the_configuration_is_started(cli: CommandLine) -> None:
    cli.write(
        """
        from contextlib import asynccontextmanager
        from interpose import Middleware

        class Loud(Middleware):
            @classmethod
            @asynccontextmanager
            async def lifespan(cls, settings, ctx):
                print("started")
                yield None
        """,
        "loud_here.py",
    )
    configured(
        cli,
        '[middleware.loud]\nuse = "loud_here:Loud"',
        '[middleware.mcp]\nuse = "mcp.tools"',
        '[middleware.mcp.servers.shop]\npython = "shop_here:server"',
    )
    outcome = cli("mcp", "list")
    sys.modules.pop("loud_here", None)
    assert outcome.code == 0
    assert "started" not in outcome.out


# What is wrong ----------------------------------------------------------------------------------


def test_a_name_that_two_servers_of_mcp_apps_have_is_a_problem(cli: CommandLine) -> None:
    configured(
        cli,
        '[middleware.frames]\nuse = "mcp.apps"',
        '[middleware.frames.servers.one]\npython = "shop_here:server"',
        '[middleware.frames.servers.two]\npython = "shop_here:other"',
        '[middleware.mcp]\nuse = "mcp.tools"',
        '[middleware.mcp.servers.one]\npython = "shop_here:server"',
        '[middleware.mcp.servers.two]\npython = "shop_here:other"',
    )
    outcome = cli("mcp", "list", "--json")
    frames, mcp = json.loads(outcome.out)["layers"]
    assert outcome.code == 1
    [problem] = frames["problems"]
    assert problem == (
        "the servers one and two have a tool 'cart' each: every run fails; "
        "add 'cart' to `deny` of all but one"
    )
    servers = listed(outcome)
    assert rows(servers["frames.two"]) == [("cart", None, "its name is taken")]
    assert mcp["problems"] == []
    assert rows(servers["mcp.two"]) == [("cart", "mcp__two__cart", None)]
    assert "  problem: the servers one and two have a tool 'cart' each" in cli("mcp", "list").out


def test_a_server_that_cannot_be_listed_is_told_beside_the_others(cli: CommandLine) -> None:
    configured(
        cli,
        '[middleware.mcp]\nuse = "mcp.tools"',
        f'[middleware.mcp.servers.gone]\nurl = "http://127.0.0.1:{closed_port()}/mcp"',
        '[middleware.mcp.servers.program]\ncommand = "no-such-program-here"\nargs = ["a", "b"]',
        '[middleware.mcp.servers.nothing]\npython = "shop_here:nothing"',
        '[middleware.mcp.servers.function]\npython = "shop_here:stock"',
        '[middleware.mcp.servers.shop]\npython = "shop_here:server"',
    )
    outcome = cli("mcp", "list", "--json")
    assert (outcome.code, outcome.err) == (1, "")
    servers = listed(outcome)
    problems = {id_.removeprefix("mcp."): each["problem"] for id_, each in servers.items()}
    assert problems.pop("shop") is None
    assert [tool[1] for tool in rows(servers["mcp.shop"])][:2] == [
        "mcp__shop__stock",
        "mcp__shop__wipe",
    ]
    assert problems["gone"].startswith("The MCP server 'gone' could not be reached")
    assert "ConnectError" in problems["gone"]
    assert "FileNotFoundError" in problems["program"]
    assert servers["mcp.program"]["address"] == "no-such-program-here (2 arguments)"
    assert problems["nothing"].startswith("shop_here:nothing could not be imported: ")
    assert problems["function"] == "shop_here:stock is a function, not an MCP server"
    assert "problem: The MCP server 'gone' could not be reached" in cli("mcp", "list").out


def test_a_server_that_never_answers_is_given_up_and_ended(cli: CommandLine) -> None:
    cli.write(
        "import os, sys\nopen('pid', 'w').write(str(os.getpid()))\nsys.stdin.read()\n", "s.py"
    )
    configured(
        cli,
        '[middleware.mcp]\nuse = "mcp.tools"',
        f"[middleware.mcp.servers.silent]\ncommand = {json.dumps(sys.executable)}\n"
        'args = ["s.py"]\nconnect_timeout = 3',
    )
    outcome = cli("mcp", "list", "--json")
    assert outcome.code == 1
    problem = listed(outcome)["mcp.silent"]["problem"]
    assert problem.startswith("The MCP server 'silent' could not be reached within 3 s.")
    assert not is_running(int((cli.folder / "pid").read_text()))


def test_a_server_that_ignores_its_end_is_ended_and_the_list_with_it(cli: CommandLine) -> None:
    cli.write(
        """
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("pid", "w").write(str(os.getpid()))
        end = time.monotonic() + 60
        while time.monotonic() < end:
            time.sleep(0.1)
        """,
        "s.py",
    )
    configured(
        cli,
        '[middleware.mcp]\nuse = "mcp.tools"',
        f"[middleware.mcp.servers.silent]\ncommand = {json.dumps(sys.executable)}\n"
        'args = ["s.py"]\nconnect_timeout = 3',
    )
    outcome = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-m", "interpose", "mcp", "list"],
        cwd=cli.folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (outcome.returncode, outcome.stderr) == (1, "")
    assert "The MCP server 'silent' could not be reached within 3 s." in outcome.stdout
    assert not is_running(int((cli.folder / "pid").read_text()))


def test_a_listing_that_takes_too_long_as_a_whole_is_given_up(cli: CommandLine) -> None:
    cli.write(
        """
        import asyncio
        from mcp.server.lowlevel import Server
        from mcp.types import ListToolsResult, Tool

        async def tools(ctx, params):
            await asyncio.sleep(0.2)  # each page comes in time, and there is another one always
            page = int((params and params.cursor) or 0)
            tool = Tool(name=f"tool_{page}", input_schema={"type": "object"})
            return ListToolsResult(tools=[tool], next_cursor=str(page + 1))

        server = Server("slow", on_list_tools=tools)
        """,
        "slow_here.py",
    )
    configured(
        cli,
        '[middleware.mcp]\nuse = "mcp.tools"',
        "[middleware.mcp.servers.slow]\n"
        'python = "slow_here:server"\nconnect_timeout = 3\ntimeout = 1',
    )
    outcome = cli("mcp", "list", "--json")
    sys.modules.pop("slow_here", None)
    [server] = listed(outcome).values()
    assert (outcome.code, server["server"]) == (1, "slow")
    assert "took longer than 4 s" in server["problem"]


# Secrets ----------------------------------------------------------------------------------------


def test_no_secret_is_shown_even_if_a_server_says_it(cli: CommandLine) -> None:
    with odd_server("private-errors", where="tools/list") as odd:
        configured(
            cli,
            '[middleware.mcp]\nuse = "mcp.tools"',
            f'[middleware.mcp.servers.odd]\nurl = "{odd.url}?key=hush-hush&plain"',
            '[middleware.mcp.servers.odd.headers]\nauthorization = "Bearer s3cret"',
            '[middleware.mcp.servers.program]\ncommand = "no-such-program-here"',
            '[middleware.mcp.servers.program.env]\nTOKEN = "no-such-program-here"',
        )
        for words in (("list",), ("list", "--json"), ("list", "--debug")):
            outcome = cli("mcp", *words)
            assert outcome.code == 1
            said = outcome.out + outcome.err
            assert "private: ***" in said
            assert [secret for secret in ("s3cret", "hush-hush", "plain") if secret in said] == []
            assert f"{odd.url}?key=***&***" in said
            assert server_hash("http", f"{odd.url}?key=hush-hush&plain") in said
        assert odd.requests("tools/list")[0]["headers"]["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({"url": "https://example.org/mcp"}, "https://example.org/mcp"),
        ({"url": "https://example.org/mcp?a=1&b=&c"}, "https://example.org/mcp?a=***&b=***&***"),
        ({"command": "docs-mcp"}, "docs-mcp"),
        ({"command": "docs-mcp", "args": ["--fast"]}, "docs-mcp (1 argument)"),
        ({"python": "docs:server"}, "docs:server"),
    ],
)
def test_an_address_has_nothing_secret_in_it(settings: dict[str, Any], address: str) -> None:
    assert address_of(ServerSettings.model_validate(settings)) == address


# Sessions ---------------------------------------------------------------------------------------


def test_a_session_over_http_is_ended(cli: CommandLine) -> None:
    with python_server() as server:
        configured(
            cli,
            '[middleware.frames]\nuse = "mcp.apps"',
            f'[middleware.frames.servers.apps]\nurl = "{server.url}"\nprotocol = "legacy"',
        )
        outcome = cli("mcp", "list", "--json")
        assert (outcome.code, outcome.err) == (0, "")
        [told] = listed(outcome).values()
        assert (told["protocol"], told["server"]) == ("2025-11-25", "apps 1.0")
        assert told["hash"] == server_hash("http", server.url)
        clock = next(tool for tool in told["tools"] if tool["tool"] == "clock")
        assert (clock["name"], clock["resourceUri"]) == ("clock", "ui://clock/app.html")
        assert [each["status"] for each in server.requests(method="DELETE")] == [200]


def test_servers_are_asked_side_by_side(cli: CommandLine) -> None:
    cli.write(STDIO.format(own="one.pid", other="two.pid"), "one.py")
    cli.write(STDIO.format(own="two.pid", other="one.pid"), "two.py")
    table = (
        "[middleware.{layer}.servers.{name}]\n"
        f"command = {json.dumps(sys.executable)}\n"
        'args = ["{name}.py"]\nconnect_timeout = 60'
    )
    configured(
        cli,
        '[middleware.mcp]\nuse = "mcp.tools"',
        table.format(layer="mcp", name="one"),
        '[middleware.frames]\nuse = "mcp.apps"',
        table.format(layer="frames", name="two"),
    )
    outcome = cli("mcp", "list", "--json")
    assert outcome.code == 0, outcome.out
    servers = listed(outcome)
    assert rows(servers["mcp.one"]) == [("there", "mcp__one__there", None)]
    assert rows(servers["frames.two"]) == [("there", "there", None)]
    for name in ("one.pid", "two.pid"):
        assert not is_running(int((cli.folder / name).read_text()))


# A job in the background is started with Ctrl-C ignored, and its children inherit that.
WITH_CTRL_C = """\
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from interpose.cli import main
sys.exit(main())
"""


def test_ctrl_c_ends_it_and_its_servers_without_a_traceback(cli: CommandLine) -> None:
    cli.write(
        "import os, sys\nopen('pid', 'w').write(str(os.getpid()))\nsys.stdin.read()\n", "s.py"
    )
    configured(
        cli,
        '[middleware.mcp]\nuse = "mcp.tools"',
        f"[middleware.mcp.servers.silent]\ncommand = {json.dumps(sys.executable)}\n"
        'args = ["s.py"]\nconnect_timeout = 600',
    )
    program = subprocess.Popen(  # noqa: S603 - this Python, with the program above
        [sys.executable, "-c", WITH_CTRL_C, "mcp", "list"],
        cwd=cli.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pid = cli.folder / "pid"
    try:
        until(lambda: pid.exists() and bool(pid.read_text()))
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=SECONDS)
    finally:
        program.kill()
        program.wait()
    assert (program.returncode, out, err) == (130, "", "")
    until(lambda: not is_running(int(pid.read_text())))
