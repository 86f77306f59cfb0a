"""Legs that are packed and made again: nothing that counts is lost, and what cannot be packed is not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.configuration.config import Limits
from amqproxy.proxy.amqp091.leg import Amqp091Leg, new_leg
from amqproxy.proxy.amqp091.packed_leg import Amqp091PackedLeg
from amqproxy.proxy.amqp091.pass_through import PassThrough
from amqproxy.rules.context import Client
from amqproxy.taps.metrics import Metrics
from tests.proxy.legs import Script
from tests.transcripts.words import octets

PROPERTIES = Table({"product": "x", "capabilities": Table({"publisher_confirms": True}), "number": 7})
START_OK = ConnectionStartOk(PROPERTIES, "PLAIN", b"\0me\0secret", "en_US")
CHANNEL = ("number", "state", "mode", "consumers", "is_flowing", "got_without_ack", "confirms_from")
HANDSHAKE = [
    (SERVER, octets("connection.start")),
    (CLIENT, encode_method(0, START_OK)),
    (SERVER, octets("connection.tune")),
    (CLIENT, octets("connection.tune-ok, connection.open")),
    (SERVER, octets("connection.open-ok")),
]
CHANNELS = [
    (CLIENT, octets("1: channel.open, 7: channel.open")),
    (SERVER, octets("1: channel.open-ok, 7: channel.open-ok")),
    (CLIENT, octets("7: confirm.select, 1: basic.consume")),
    (SERVER, octets("7: confirm.select-ok, 1: basic.consume-ok")),
]


def leg_after(peer: Peer, *said: tuple[Peer, bytes]) -> Amqp091Leg:
    """A leg of a session without rules, whose peers have said all that."""
    legs = {each: new_leg(each, Script([]), Limits(), Metrics()) for each in Peer}
    for leg in legs.values():
        leg.connection.receive_header(CLIENT, HEADER)
    passage = PassThrough(legs, Client(), [])
    passage.ask_for_frames()
    for speaker, data in said:
        passage.take(speaker, legs[speaker].reader.feed(data), 0.0)
    return legs[peer]


def again(leg: Amqp091Leg) -> Amqp091Leg:
    """A leg like it, made from what was packed."""
    packed = Amqp091PackedLeg.of(leg)
    assert packed is not None
    found = new_leg(leg.peer, Script([]), Limits(), Metrics())
    msgspec.msgpack.decode(msgspec.msgpack.encode(packed), type=Amqp091PackedLeg).restore(found, {})
    return found


def state_of(leg: Amqp091Leg) -> dict[str, object]:
    """What counts of a leg whose channels are open and await nothing."""
    connection, reader = leg.connection, leg.reader
    return {
        **{
            name: getattr(connection, name)
            for name in ("state", "client", "virtual_host", "channel_max", "frame_max", "heartbeat", "is_blocked")
        },
        "reads": (reader.frame_max, reader.offset, sorted(reader.content_states)),
        "channels": {
            number: {name: getattr(channel, name) for name in CHANNEL} | {"reads": sorted(channel.content_states)}
            for number, channel in connection.channels.items()
        },
    }


@pytest.mark.parametrize("peer", [CLIENT, SERVER])
@pytest.mark.parametrize(
    "after",
    [
        [],
        CHANNELS,
        [*CHANNELS, (SERVER, octets("connection.blocked, 7: channel.flow")), (CLIENT, octets("7: channel.flow-ok"))],
        [*CHANNELS, (CLIENT, octets("1: channel.close")), (SERVER, octets("1: channel.close-ok"))],
    ],
)
def test_a_leg_is_the_same_when_it_has_been_packed(peer: Peer, after: list[tuple[Peer, bytes]]) -> None:
    leg = leg_after(peer, *HANDSHAKE, *after)
    found = again(leg)
    assert state_of(found) == state_of(leg)
    assert found.connection.client == START_OK


def test_both_legs_share_what_the_client_has_said_of_itself() -> None:
    start_oks: dict[bytes, ConnectionStartOk] = {}
    found = []
    for peer in (CLIENT, SERVER):
        packed = Amqp091PackedLeg.of(leg_after(peer, *HANDSHAKE))
        assert packed is not None
        leg = new_leg(peer, Script([]), Limits(), Metrics())
        packed.restore(leg, start_oks)
        found.append(leg.connection.client)
    assert found[0] is found[1]


def test_channels_go_on_where_they_were() -> None:
    found = again(leg_after(CLIENT, *HANDSHAKE, *CHANNELS))
    for frame in found.reader.feed(octets("1: basic.publish, 1: header 3, 1: body 3, 7: tx.select")):
        if frame.channel == 7:
            with pytest.raises(Exception, match="cannot switch from confirm to tx mode"):
                found.connection.receive(CLIENT, frame)


NOT_PACKED: dict[str, Callable[[], Amqp091Leg]] = {
    "before open-ok": lambda: leg_after(CLIENT, *HANDSHAKE[:-1]),
    "a channel that is being opened": lambda: leg_after(CLIENT, *HANDSHAKE, CHANNELS[0]),
    "a channel that is being closed": lambda: leg_after(
        CLIENT, *HANDSHAKE, *CHANNELS, (CLIENT, octets("1: channel.close"))
    ),
    "a reply that is awaited": lambda: leg_after(CLIENT, *HANDSHAKE, *CHANNELS[:3]),
    "a connection that is being closed": lambda: leg_after(
        CLIENT, *HANDSHAKE, *CHANNELS, (SERVER, octets("connection.close 320"))
    ),
}


@pytest.mark.parametrize("name", NOT_PACKED)
def test_what_is_under_way_is_not_packed(name: str) -> None:
    leg = NOT_PACKED[name]()
    assert Amqp091PackedLeg.of(leg) is None


def test_the_state_of_an_open_connection_is_the_only_one_that_is_packed() -> None:
    leg = leg_after(CLIENT, *HANDSHAKE)
    for state in ConnectionState:
        leg.connection.state = state
        assert (Amqp091PackedLeg.of(leg) is not None) == (state is ConnectionState.OPEN)
