"""Upstreams on the command line, of a socket with prepared answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.outcome import Amqproxy
from tests.control.answering import answering

ENTRY: dict[str, Any] = {
    "upstream": "rabbit",
    "member": "rabbit-1:5672",
    "state": "draining",
    "weight": 2,
    "priority": 0,
    "zone": "",
    "connections": 210,
    "blocked": 0,
    "failures": 2,
    "retries": 1,
    "ejections": 0,
    "connect_seconds": 0.0021,
    "tls_handshakes": 211,
    "token_renewals": {"renewed": 48, "failed": 0},
    "last_failure": "",
}


def encoded(answer: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"ok": True} | answer) + b"\n"


def test_members_are_a_table(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, encoded({"upstreams": [ENTRY]})):
        code, out, err = amqproxy("control", "upstreams", "--socket", str(path))
    assert (code, err) == (0, "")
    _, line = out.splitlines()
    expected = "rabbit rabbit-1:5672 draining 2 0 210 0 2 1 0 2.1 ms 211 48"
    assert line.split() == expected.split()


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        (["upstreams-drain", "b:1", "--rate", "50"], {"request": "upstreams-drain", "member": "b:1", "rate": 50.0}),
        (["upstreams-eject", "b:1", "--seconds", "9"], {"request": "upstreams-eject", "member": "b:1", "seconds": 9.0}),
        (
            ["upstreams-restore", "b:1", "--upstream", "g"],
            {"request": "upstreams-restore", "member": "b:1", "upstream": "g"},
        ),
        (["upstreams-weight", "b:1", "2"], {"request": "upstreams-weight", "member": "b:1", "weight": 2}),
    ],
)
def test_a_member_is_changed(words: list[str], request_: dict[str, Any], amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, encoded({"upstream": ENTRY})) as requests:
        code, out, err = amqproxy("control", *words, "--socket", str(path))
    assert (code, out, err) == (0, "", "rabbit-1:5672: draining, weight 2\n")
    assert msgspec.json.decode(requests[0]) == request_


def test_a_rebalance(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, encoded({"upstream": "rabbit", "surplus": 20})) as requests:
        code, _, err = amqproxy("control", "upstreams-rebalance", "rabbit", "--socket", str(path))
    assert (code, err) == (0, "20 clients are more than their members' shares\n")
    assert msgspec.json.decode(requests[0]) == {"request": "upstreams-rebalance", "upstream": "rabbit", "rate": 50.0}
