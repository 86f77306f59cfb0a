"""Legs of AMQP 0-10 that are packed and made again: nothing that counts is lost, and what cannot be packed is not."""

from __future__ import annotations

import msgspec
import pytest

from amqproxy.amqp010.controls import (
    ConnectionStartOk,
    SessionAttach,
    SessionAttached,
    SessionDetach,
    SessionDetached,
    SessionFlush,
    SessionRequestTimeout,
    SessionTimeout,
)
from amqproxy.amqp010.frame import CONTROL, encode_frame
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.transitions import ConnectionState
from amqproxy.amqp010.wire import Map
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.proxy.amqp010.packed_leg import Amqp010PackedLeg
from amqproxy.proxy.amqp010.pass_through import Amqp010PassThrough
from amqproxy.rules.context import Client
from tests.proxy.amqp010_script import ATTACH, CLOSE, DETACH, LOGIN, MESSAGES, Step, method
from tests.proxy.legs import Script

SECOND = [
    (CLIENT, method(SessionAttach(b"two"), 7) + method(SessionRequestTimeout(300), 7)),
    (SERVER, method(SessionAttached(b"two"), 7) + method(SessionTimeout(60), 7)),
]


def leg_after(peer: Peer, *steps: Step) -> Amqp010Leg:
    """A leg of a session without rules, whose peers have said all that."""
    legs = {each: Amqp010Leg(each, Script([])) for each in Peer}
    passage = Amqp010PassThrough(legs, Client(), [])
    for sender, data in steps:
        if data.startswith(HEADER):
            for leg in legs.values():
                leg.connection.receive_header(sender, HEADER)
            data = data[len(HEADER) :]
        passage.take(sender, legs[sender].reader.feed(data), 0.0)
    return legs[peer]


def again(leg: Amqp010Leg) -> Amqp010Leg:
    """A leg like it, made from what was packed."""
    packed = Amqp010PackedLeg.of(leg)
    assert packed is not None
    found = Amqp010Leg(leg.peer, Script([]))
    msgspec.msgpack.decode(msgspec.msgpack.encode(packed), type=Amqp010PackedLeg).restore(found, {})
    return found


def state_of(leg: Amqp010Leg) -> dict[str, object]:
    """What counts of a leg whose sessions are attached and await nothing."""
    connection = leg.connection
    return {
        **{
            name: getattr(connection, name)
            for name in ("state", "client", "virtual_host", "channel_max", "frame_max", "heartbeat", "session_count")
        },
        "reads": (leg.reader.frame_max, leg.reader.channel_max, leg.reader.offset),
        "sessions": {
            number: [(each.name, each.state, each.timeout) for each in channel.sessions.values() if each is not None]
            for number, channel in connection.channels.items()
            if not channel.is_free
        },
    }


@pytest.mark.parametrize("peer", [CLIENT, SERVER])
@pytest.mark.parametrize("after", [[], [*ATTACH, *MESSAGES], [*ATTACH, *SECOND], [*ATTACH, *SECOND, *DETACH]])
def test_a_leg_is_the_same_when_it_has_been_packed(peer: Peer, after: list[Step]) -> None:
    leg = leg_after(peer, *LOGIN, *after)
    found = again(leg)
    assert state_of(found) == state_of(leg)
    assert found.takes_close
    for channel in found.connection.channels.values():
        assert channel.is_settled


@pytest.mark.parametrize("peer", [CLIENT, SERVER])
def test_a_client_may_say_more_of_itself_than_a_frame_has(peer: Peer) -> None:
    large = ConnectionStartOk(Map({"product": "p" * 65_000}), "PLAIN", b"\0guest\0" + b"x" * 65_000, "en_US")
    leg = leg_after(peer, *LOGIN[:2], (CLIENT, method(large, 0)), *LOGIN[3:])
    assert state_of(again(leg)) == state_of(leg)


def test_both_legs_share_what_the_client_has_said_of_itself() -> None:
    start_oks: dict[bytes, object] = {}
    found = []
    for peer in (CLIENT, SERVER):
        packed = Amqp010PackedLeg.of(leg_after(peer, *LOGIN))
        assert packed is not None
        leg = Amqp010Leg(peer, Script([]))
        packed.restore(leg, start_oks)
        found.append(leg.connection.client)
    assert found[0] is found[1]


def test_sessions_go_on_where_they_were() -> None:
    found = again(leg_after(CLIENT, *LOGIN, *ATTACH))
    for sender, data in (*DETACH, *CLOSE):
        for frame in found.connection.readers[sender].feed(data):
            found.connection.receive(sender, frame)
    assert found.connection.session_count == 0
    assert found.connection.state is ConnectionState.CLOSED


NOT_PACKED: dict[str, list[Step]] = {
    "before open-ok": LOGIN[:-1],
    "a session that is being attached": [*LOGIN, ATTACH[0]],
    "a session that is being detached": [*LOGIN, *ATTACH, DETACH[0]],
    "a timeout that is awaited": [*LOGIN, *ATTACH, SECOND[0], (SERVER, method(SessionAttached(b"two"), 7))],
    "a session that waits for its client": [
        *LOGIN,
        *SECOND,
        (CLIENT, method(SessionDetach(b"two"), 7)),
        (SERVER, method(SessionDetached(b"two", 0), 7)),
    ],
    "a connection that is being closed": [*LOGIN, *ATTACH, CLOSE[0]],
    "a control in pieces": [*LOGIN, *ATTACH, (CLIENT, encode_frame(0xE, CONTROL, 1, method(SessionFlush(True))[12:]))],
}


@pytest.mark.parametrize("name", NOT_PACKED)
def test_what_is_under_way_is_not_packed(name: str) -> None:
    assert Amqp010PackedLeg.of(leg_after(CLIENT, *NOT_PACKED[name])) is None
