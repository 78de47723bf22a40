"""The settings of the remote agent: what is refused at startup, and what is never shown."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from raw_server import serving
from relaying import SECRET, TEXT, answers

from interpose import Host, RemoteFailed, RunResult, StartupError, Transient


def refused(**settings: Any) -> list[str]:
    agent = {"use": "remote", "url": "http://127.0.0.1/agent", **settings}
    with pytest.raises(StartupError) as caught:
        Host(overrides={"agent": agent})
    assert "sk-0123456789" not in str(caught.value)
    return [problem.message for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ftp://example.org/", "it must begin with http:// or https://."),
        ("example.org", "it must begin with http:// or https://."),
        ("", "it must begin with http:// or https://."),
        ("http://", "it names no host."),
        ("http://:80/", "it names no host."),
        ("http://example.org:99999/", "it is no URL: its host or port is malformed."),
        ("http://[::1/", "it is no URL: its host or port is malformed."),
        (
            "https://ada:sk-0123456789@example.org/",
            "it holds a user or a password; send an authorization header instead.",
        ),
        ("https://example.org/#top", "it has a fragment (#), which is never sent."),
        (
            "https://example.org/a b",
            "it has a space or a character beyond ASCII; write it percent-encoded.",
        ),
        (
            "https://example.org/\r\nx: y",
            "it has a space or a character beyond ASCII; write it percent-encoded.",
        ),
    ],
)
def test_a_url_that_cannot_be_is_refused_at_startup(url: str, told: str) -> None:
    assert refused(url=url) == [f"agents.default.url: {told}"]


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"x y": "1"}, "'x y' is no name of a header."),
        ({"": "1"}, "'' is no name of a header."),
        ({"Content-Type": "1"}, "Content-Type is set by the agent itself."),
        ({"x-a": "1", "X-A": "2"}, "X-A is given twice; case does not matter."),
        ({"x-a": ""}, "the value of x-a is empty."),
        (
            {"x-a": f"{SECRET}\r\nx-admin: 1"},
            "the value of x-a holds a newline, another control character or one beyond ASCII.",
        ),
        ({"x-a": f"{SECRET}\n"}, "the value of x-a begins or ends with a space or a newline."),
    ],
)
def test_headers_that_cannot_be_are_refused_at_startup(headers: dict[str, str], told: str) -> None:
    assert refused(headers=headers) == [f"agents.default.headers: {told}"]


def test_all_problems_of_the_settings_are_told_together() -> None:
    problems = refused(url="ftp://x", headers={"x y": "1"}, idle_timeout=0, what=1)
    assert len(problems) == 4


def test_a_missing_httpx2_is_a_problem_at_startup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interpose.agents.remote.find_spec", lambda name: None)
    with pytest.raises(StartupError) as caught:
        Host(overrides={"agent": {"use": "remote", "url": "http://127.0.0.1/agent"}})
    [problem] = caught.value.problems
    assert problem.message == (
        'agents.default: a remote agent needs httpx2: pip install "interpose[remote]".'
    )
    assert problem.hint == 'Run pip install "interpose[remote]".'


def test_a_certificate_file_that_cannot_be_read_is_a_problem(tmp_path: Any) -> None:
    async def main(ca_file: str) -> None:
        agent = {"use": "remote", "url": "https://127.0.0.1/", "ca_file": ca_file}
        async with Host(overrides={"agent": agent}):
            pass

    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for name, why in ((tmp_path / "none.pem", "No such file"), (empty, "it holds no certificate")):
        with pytest.raises(StartupError, match=f"ca_file cannot be read: {why}") as caught:
            asyncio.run(main(str(name)))
        assert caught.value.problems[0].where == (str(name),)


def test_secrets_stand_neither_in_the_plan_nor_in_what_is_printed(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from interpose.cli import main
    from interpose.startup.plan_text import plan_json, plan_text

    config = tmp_path / "interpose.toml"
    config.write_text(
        '[agent]\nuse = "remote"\nurl = "http://127.0.0.1/agent"\n'
        'headers = { authorization = { "$env" = "AUTH" }, x-key = "sk-0123456789" }\n'
    )
    monkeypatch.setenv("AUTH", SECRET)
    host = Host.from_config(config)
    shown = [plan_text(host.plan()), plan_json(host.plan()), repr(host)]
    for command in (["config"], ["config", "--json"], ["plan"], ["check"]):
        assert main([*command, "--config", str(config)]) == 0
    out, err = capsys.readouterr()
    assert "sk-0123456789" not in "".join([*shown, out, err])
    assert "headers" in out


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of 127.0.0.1 that signs itself; its key lies beside it."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("makes a certificate with the program openssl, which is not here")
    certificate = tmp_path / "cert.pem"
    options = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(certificate)]
    subprocess.run([openssl, *options, *names, *files], check=True, capture_output=True)  # noqa: S603
    return certificate


def test_a_certificate_is_verified_by_the_authorities_of_the_file(certificate: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))

    async def main(**more: str) -> RunResult:
        async with serving(answers, context) as server:
            agent = {"use": "remote", "url": server.url, **more}
            async with Host(overrides={"agent": agent}) as host:
                return await host.run("hi")

    error = asyncio.run(main()).error
    assert isinstance(error, RemoteFailed)
    assert not isinstance(error, Transient)
    assert error.message == "The certificate of the remote agent could not be verified."
    assert asyncio.run(main(ca_file=str(certificate))).text == TEXT
