"""Requests of operators about switches: lists and changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.control.request import parse
from amqproxy.control.request_error import RequestError
from amqproxy.control.switch_control import SwitchControl
from amqproxy.moving.move_job import JobReport, MoveEnd, QueueReport
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member
from amqproxy.switching.switch_file import SwitchFile
from amqproxy.switching.switches import Switches, SwitchProgress

BEGIN = b'{"request": "switches-begin", "source": "blue", "target": "green"}'


class Desk:
    """Two upstreams, of which `red` has no login."""

    def __init__(self, path: Path) -> None:
        groups = [UpstreamGroup(name, [Member(f"{name}:1")]) for name in ("blue", "green", "red")]
        file = SwitchFile(path / "switches.json")
        self.switches = Switches(file, lambda: groups, {}, _end_of, lambda vhost: (), self)
        self.control = SwitchControl(self.switches, lambda: ["0.0.0.0:5672"])

    def insert(self, rule: Any) -> None:
        pass

    def withdraw(self, name: str) -> None:
        pass

    async def ask(self, line: bytes) -> dict[str, Any]:
        request: Any = parse(line)
        return await self.control.change(request)


def _end_of(name: str) -> MoveEnd:
    if name == "red":
        raise ValueError("[upstreams.red] has no login")
    return MoveEnd(upstream=UpstreamConfig(address=f"{name}:1"), user="u", password="p")


@pytest.fixture
def desk(tmp_path: Path) -> Callable[[], Desk]:
    return lambda: Desk(tmp_path)


async def test_a_switch_there_and_back(desk: Callable[[], Desk]) -> None:
    d = desk()
    queues = b'"queues": [{"vhost": "/", "name": "q"}, {"vhost": "/", "name": "r", "type": "quorum"}]'
    begun = await d.ask(BEGIN[:-1] + b', "strict": true, "when": "client.port > 5", ' + queues + b"}")
    assert begun["switch"] == {
        "switch": "blue-green",
        "source": "blue",
        "target": "green",
        "vhost": None,
        "when": "client.port > 5",
        "strict": True,
        "state": "moving to green",
        "phase": "clients to target",
        "clients": 0,
        "queues": 2,
        "empty": 0,
        "moved": 0,
        "left": 0,
        "waits": "",
    }
    back = await d.ask(b'{"request": "switches-back", "switch": "blue-green"}')
    assert back["switch"]["state"] == "moving to blue"
    forth = await d.ask(b'{"request": "switches-forth", "switch": "blue-green"}')
    assert forth["switch"] == begun["switch"] == next(d.control.entries())


async def test_the_progress_of_each_queue(desk: Callable[[], Desk]) -> None:
    d = desk()
    names = b"abc"
    queues = b", ".join(b'{"vhost": "/", "name": "%c"}' % name for name in names)
    await d.ask(BEGIN[:-1] + b', "queues": [' + queues + b"]}")
    progress = d.switches._progress["blue-green"] = SwitchProgress()
    progress.note(QueueReport(0, "empty", 7))
    progress.note(QueueReport(1, "waits", 2, 5, "the target has no such queue"))
    assert [(each["queue"], each["state"], each["moved"], each["left"]) for each in d.control.queues("blue-green")] == [
        ("a", "empty", 7, 0),
        ("b", "waits", 2, 5),
        ("c", "", 0, None),
    ]
    entry = next(d.control.entries())
    assert (entry["empty"], entry["moved"], entry["left"]) == (1, 9, 5)
    assert entry["waits"] == "b: the target has no such queue"
    progress.note(JobReport(text="green refused the connection"))
    assert next(d.control.entries())["waits"] == "green refused the connection"


@pytest.mark.parametrize(
    ("lines", "name", "text"),
    [
        ([b'{"request": "switches-back", "switch": "x"}'], "no-switch", "there is no switch `x`: there are none"),
        (
            [BEGIN, b'{"request": "switches-forget", "switch": "x"}'],
            "no-switch",
            "there is no switch `x`: there are blue-green",
        ),
        ([BEGIN, BEGIN], "not-switched", "there is a switch `blue-green` already: it is moving to green"),
        (
            [BEGIN, b'{"request": "switches-forget", "switch": "blue-green"}'],
            "not-switched",
            "it can be forgotten when it is settled",
        ),
        (
            [BEGIN, b'{"request": "switches-settle", "switch": "blue-green"}'],
            "not-switched",
            "no messages are on their way: the switch is moving to green",
        ),
        ([BEGIN.replace(b"green", b"red")], "not-switched", r"\[upstreams.red\] has no login"),
        ([BEGIN.replace(b"green", b"grey")], "not-switched", "there is no upstream `grey`: there are blue, green, red"),
        (
            [BEGIN[:-1] + b', "when": "queue.size() > 1"}'],
            "not-switched",
            "`queue` is not known when a client is routed",
        ),
        (
            [BEGIN[:-1] + b', "vhost": "shop"}'],
            "not-switched",
            "known only of clients that log in at the proxy: give the listener 0.0.0.0:5672 a `login`",
        ),
        ([BEGIN[:-1] + b', "when": "user == \\"a\\""}'], "not-switched", "known only of clients that log in"),
        ([BEGIN[:-1] + b', "when": "1 +"}'], "not-switched", "the expression is incomplete"),
    ],
)
async def test_what_cannot_be_done_is_explained(
    lines: list[bytes], name: str, text: str, desk: Callable[[], Desk]
) -> None:
    d = desk()
    for line in lines[:-1]:
        await d.ask(line)
    with pytest.raises(RequestError, match=text) as raised:
        await d.ask(lines[-1])
    assert raised.value.name == name
