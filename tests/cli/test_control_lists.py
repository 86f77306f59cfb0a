"""What `amqproxy control` lists as tables, of a socket with prepared answers."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.outcome import Amqproxy
from tests.control.answering import answering

CONNECTION = {
    "session": 3,
    "connection": "10.0.0.7:4711-10.0.0.1:5673",
    "connected_at": 0.0,
    "state": "open",
    "user": "guest",
    "vhost": "/",
    "blocked": False,
    "bytes": {"client": 1234, "server": 12},
}
SAMPLE = {"name": "amqproxy_channels", "type": "gauge", "labels": {}, "value": 2.0}
PROCESS = {"version": "1.2", "pid": 7, "uptime": 7201.0, "lag": {"now": 0.0002, "most": 0.012}}


def encoded(answer: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"ok": True} | answer) + b"\n"


@pytest.mark.parametrize("name", ["connections", "channels", "consumers", "topology"])
def test_a_list_as_json(name: str, amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    entries = [{"a": 1}, {"a": 2}]
    with answering(path, encoded({name: entries, "left_out": 5})) as requests:
        code, out, err = amqproxy("control", name, "--json", "--socket", str(path))
    assert (code, out) == (0, '{"a":1}\n{"a":2}\n')
    assert err == "amqproxy: 5 more are not shown\n"
    assert msgspec.json.decode(requests[0]) == {"request": name}


def test_connections(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, encoded({"connections": [CONNECTION]})):
        code, out, err = amqproxy("control", "connections", "--socket", str(path))
    assert (code, err) == (0, "")
    heading, line = out.splitlines()
    assert heading.split()[:4] == ["SESSION", "CLIENT", "USER", "VHOST"]
    assert line.split()[:4] == ["3", "10.0.0.7:4711", "guest", "/"]


def test_transactions(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    branch = {"vhost": "/", "format": 1, "global_id": "67", "branch_id": "62", "state": "prepared", "timeout": 0}
    branch |= {"sessions": 0, "published": 3, "accepted": 2, "bytes": 2048}
    with answering(path, encoded({"transactions": [branch]})) as requests:
        code, out, err = amqproxy("control", "transactions", "--vhost", "/", "--socket", str(path))
    assert (code, err) == (0, "")
    assert msgspec.json.decode(requests[0]) == {"request": "broker-transactions", "vhost": "/"}
    _, line = out.splitlines()
    assert line.split() == ["/", "1", "67", "62", "prepared", "0", "0", "3", "2", "2.05", "kB"]


def test_stats(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, encoded({"stats": PROCESS, "metrics": [SAMPLE]})):
        code, out, err = amqproxy("control", "stats", "--socket", str(path))
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "amqproxy 1.2, process 7, up for 2 h",
        "late by 200 µs, at most 12 ms within a minute",
        "METRIC             LABELS  VALUE",
        "amqproxy_channels              2",
    ]
    with answering(tmp_path / "other", encoded({"stats": PROCESS, "metrics": [SAMPLE]})):
        _, out, _ = amqproxy("control", "stats", "--json", "--socket", str(tmp_path / "other"))
    assert [msgspec.json.decode(line) for line in out.splitlines()] == [PROCESS, SAMPLE]
