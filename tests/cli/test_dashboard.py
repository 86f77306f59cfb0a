"""`amqproxy dashboard`: how it begins."""

import socket
from pathlib import Path

import pytest

from amqproxy.app import preflight
from amqproxy.cli.failure import FAILED, MISUSED
from tests.cli.outcome import Amqproxy


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "name a proxy's socket with --connect"),
        (("--capture", "x", "--listen", "0.0.0.0:1"), "--listen 0.0.0.0:1: other machines can reach this address"),
        (("--capture", "x", "--listen", "0"), "--listen 0: not of the form HOST:PORT"),
        (("--capture", "x", "--key", "k"), "a --certificate needs its --key"),
        (("--capture", "x", "--ring", "much"), "--ring much: "),
        (("--capture", "x", "--token-file", "a", "--password-file", "b"), "--token-file a: password_file is given too"),
        (("--capture", "x", "--token-file", "/no/such/file"), "cannot be read"),
        (("--capture", "nope"), "dashboard: --capture nope: no such file or directory"),
    ],
)
def test_misuse(options: tuple[str, ...], text: str, amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("dashboard", *options)
    assert (code, out) == (MISUSED, "")
    assert text in err


def test_its_packages_are_an_extra(amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(preflight, "DASHBOARD", ("no_such_package",))
    text = 'needs no_such_package, which is not installed: run `pip install "amqproxy[dashboard]"`'
    assert amqproxy("dashboard", "--capture", "x") == (FAILED, "", f"amqproxy: dashboard: {text}\n")
    assert amqproxy("run", "--dashboard") == (MISUSED, "", f"amqproxy: dashboard: {text}\n")
    file = tmp_path / "amqproxy.toml"
    file.write_text("\n[dashboard]\n")
    assert amqproxy("config", "check", str(file)) == (MISUSED, "", f"amqproxy: {file}:2: dashboard: {text}\n")


def test_an_address_that_is_taken(amqproxy: Amqproxy, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        for command in (("dashboard", "--capture", str(tmp_path), "--listen"), ("run", "--dashboard")):
            code, out, err = amqproxy(*command, address)
            assert (code, out) == (FAILED, "")
            assert address in err
            assert "Address already in use" in err
