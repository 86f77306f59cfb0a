"""Switches on the command line, of a socket with prepared answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.outcome import Amqproxy
from tests.control.answering import answering

ENTRY: dict[str, Any] = {
    "switch": "blue-green",
    "state": "moving to green",
    "clients": 3,
    "queues": 2,
    "empty": 1,
    "moved": 70,
    "left": 5,
    "strict": True,
    "waits": "",
}


def encoded(answer: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"ok": True} | answer) + b"\n"


def asked(amqproxy: Amqproxy, tmp_path: Path, *words: str) -> dict[str, Any]:
    """The request of a command that succeeds."""
    path = tmp_path / "control"
    with answering(path, encoded({"switch": ENTRY})) as requests:
        code, out, err = amqproxy("control", *words, "--socket", str(path))
    assert (code, out, err) == (0, "", "blue-green: moving to green, 3 clients to move\n")
    return msgspec.json.decode(requests[0])  # type: ignore[no-any-return]


def test_switches_are_a_table(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, encoded({"switches": [ENTRY]})):
        code, out, err = amqproxy("control", "switches", "--socket", str(path))
    assert (code, err) == (0, "")
    _, line = out.splitlines()
    assert line.split() == ["blue-green", "moving", "to", "green", "3", "2", "1", "70", "5", "strict"]


def test_queues_of_a_switch_are_a_table(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    entry = {"vhost": "/", "queue": "q", "state": "left", "moved": 0, "left": None, "text": "it is a stream"}
    with answering(path, encoded({"queues": [entry]})):
        code, out, err = amqproxy("control", "switches-queues", "blue-green", "--socket", str(path))
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split() == ["/", "q", "left", "0", "it", "is", "a", "stream"]


@pytest.mark.parametrize("what", ["back", "forth", "settle", "forget"])
def test_a_switch_is_changed(what: str, amqproxy: Amqproxy, tmp_path: Path) -> None:
    request = {"request": f"switches-{what}", "switch": "blue-green"}
    assert asked(amqproxy, tmp_path, f"switches-{what}", "blue-green") == request


def test_a_switch_of_all_queues_in_the_definitions(amqproxy: Amqproxy, tmp_path: Path) -> None:
    definitions = tmp_path / "blue.json"
    definitions.write_text(
        '{"queues": [{"name": "a", "vhost": "/", "type": "quorum"}, {"name": "b", "vhost": "v", "arguments": []},'
        '{"name": "c", "arguments": {"x-queue-type": "stream"}}]}'
    )
    found = asked(amqproxy, tmp_path, "switches-begin", "blue", "green", "--definitions", str(definitions))
    assert found == {
        "request": "switches-begin",
        "source": "blue",
        "target": "green",
        "strict": False,
        "rate": 50.0,
        "queues": [
            {"vhost": "/", "name": "a", "type": "quorum"},
            {"vhost": "v", "name": "b", "type": ""},
            {"vhost": "/", "name": "c", "type": "stream"},
        ],
        "finds_queues": True,
    }


def test_a_switch_of_some_queues(amqproxy: Amqproxy, tmp_path: Path) -> None:
    words = ["--strict", "--rate", "5", "--name", "n", "--queue", "orders", "--queue", "shop:returns"]
    found = asked(amqproxy, tmp_path, "switches-begin", "blue", "green", *words)
    assert (found["strict"], found["rate"], found["switch"], found["finds_queues"]) == (True, 5.0, "n", False)
    assert found["queues"] == [{"vhost": "/", "name": "orders"}, {"vhost": "shop", "name": "returns"}]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"queues": [1]}', '{"queues": [{}]}'])
def test_wrong_definitions(text: str, amqproxy: Amqproxy, tmp_path: Path) -> None:
    definitions = tmp_path / "blue.json"
    definitions.write_text(text)
    code, _, err = amqproxy("control", "switches-begin", "blue", "green", "--definitions", str(definitions))
    assert code == 2
    assert "blue.json is not an export of definitions" in err
