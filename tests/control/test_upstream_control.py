"""Requests of operators about upstream groups: lists and changes."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.control.request import parse
from amqproxy.control.request_error import RequestError
from amqproxy.control.upstream_control import UpstreamControl
from amqproxy.proxy.client_moves import ClientMoves
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member
from amqproxy.proxy.upstreams.routes import Routes
from amqproxy.proxy.upstreams.upstreams import Upstreams
from amqproxy.taps.metrics import Metrics


class Desk:
    """Two groups that share the address a:1."""

    def __init__(self) -> None:
        self.blue = UpstreamGroup("blue", [Member("a:1", weight=2, zone="z"), Member("b:1")])
        self.green = UpstreamGroup("green", [Member("a:1"), Member("c:1")])
        upstreams = Upstreams(Routes(self.blue, {":1": self.green}), Metrics())
        self.moves = ClientMoves({}, lambda: upstreams.groups)
        self.control = UpstreamControl(upstreams, self.moves)

    def ask(self, line: bytes, now: float = 10.0) -> dict[str, Any]:
        request: Any = parse(line)
        return self.control.change(request, now)

    def states(self, now: float = 10.0) -> list[str]:
        return [f"{each['upstream']} {each['member']} {each['state']}" for each in self.control.entries(now)]


def test_each_member_has_an_entry() -> None:
    desk = Desk()
    member = desk.blue.members[0]
    member.note_connected(0.5)
    member.note_failure("refused", "a:1 refused")
    first, *others = desk.control.entries(10.0)
    assert first == {
        "upstream": "blue",
        "member": "a:1",
        "state": "up",
        "weight": 2,
        "share": 2.0,
        "priority": 0,
        "zone": "z",
        "connections": 1,
        "blocked": 0,
        "clients": 1,
        "failures": 1,
        "retries": 0,
        "ejections": 0,
        "ejected_for": 0.0,
        "connect_seconds": 0.5,
        "tls_handshakes": 0,
        "token_renewals": None,
        "last_failure": "a:1 refused",
        "in_panic": False,
        "login_queue": 0,
    }
    assert [(each["upstream"], each["member"]) for each in others] == [
        ("blue", "b:1"),
        ("green", "a:1"),
        ("green", "c:1"),
    ]
    assert others[0]["connect_seconds"] is None


def test_a_member_is_drained_ejected_restored_and_weighed() -> None:
    desk = Desk()
    assert desk.ask(b'{"request": "upstreams-drain", "member": "b:1", "rate": 5}')["upstream"]["state"] == "draining"
    assert (
        desk.ask(b'{"request": "upstreams-eject", "member": "c:1", "seconds": 60}')["upstream"]["ejected_for"] == 60.0
    )
    assert desk.ask(b'{"request": "upstreams-weight", "member": "b:1", "weight": 7}')["upstream"]["weight"] == 7
    assert desk.states()[1::2] == ["blue b:1 draining", "green c:1 ejected"]
    for name in ("b:1", "c:1"):
        desk.ask(b'{"request": "upstreams-restore", "member": "%s"}' % name.encode())
    assert desk.states()[1::2] == ["blue b:1 up", "green c:1 up"]


def test_a_member_of_several_groups_needs_the_name_of_one() -> None:
    desk = Desk()
    with pytest.raises(RequestError, match="a:1 is a member of blue, green: name one of them as `upstream`"):
        desk.ask(b'{"request": "upstreams-drain", "member": "a:1"}')
    desk.ask(b'{"request": "upstreams-drain", "member": "a:1", "upstream": "green"}')
    assert desk.states()[::2] == ["blue a:1 up", "green a:1 draining"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"request": "upstreams-drain", "member": "x:1"}', "there is no member x:1: `upstreams` lists them"),
        (
            b'{"request": "upstreams-drain", "member": "a:1", "upstream": "red"}',
            "there is no upstream `red`: there are blue",
        ),
        (b'{"request": "upstreams-rebalance", "upstream": "red"}', "there is no upstream `red`"),
    ],
)
def test_what_is_not_there_is_named(line: bytes, text: str) -> None:
    with pytest.raises(RequestError, match=text) as raised:
        Desk().ask(line)
    assert raised.value.name == "no-upstream"


def test_a_rebalance_says_how_many_clients_are_too_many() -> None:
    desk = Desk()
    for _ in range(30):
        desk.blue.members[1].note_connected()
    answer = desk.ask(b'{"request": "upstreams-rebalance", "upstream": "blue", "rate": 5}')
    assert answer == {"upstream": "blue", "surplus": 20}
