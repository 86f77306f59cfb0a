"""A pump between two sockets: what ends and what is full, and that no byte is lost or moved."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.pump.pumped_connection import PumpedConnection
from amqproxy.pump.pumps import are_available
from amqproxy.pump.return_reasons import ENDED, GONE, STUCK
from amqproxy.pump.tls_records import is_available
from tests.example_count import example_count
from tests.pump.amqp091.random_commands import random_commands
from tests.pump.rig import PUBLISH, Wire, pump, reader, reset, settle
from tests.transcripts.words import octets, words

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")

TLS = [(False, False), (True, False), (False, True), (True, True)]
"""Whether the client's leg and the server's are over TLS."""

FORMS = [pytest.param(each, id=f"{each[0]:d}{each[1]:d}") for each in (TLS if is_available() else TLS[:1])]
each_form = pytest.mark.parametrize("tls", FORMS)


@pytest.fixture(params=FORMS)
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    """A connection whose pump has no thread, with and without TLS."""
    made = Wire(pump(), tls=request.param)
    yield made
    made.close()


def test_one_byte_at_a_time(wire: Wire) -> None:
    wire.hand_over()
    data = octets(f"{PUBLISH}, {PUBLISH}")
    for at in range(len(data)):
        wire.client.send(data[at : at + 1])
        wire.settle()
        assert data.startswith(bytes(wire.seen[1]))
        assert len(wire.seen[1]) <= at + 1
    assert bytes(wire.seen[1]) == data


@pytest.mark.parametrize("place", [0, 1])
def test_the_end_of_either_half(wire: Wire, place: int) -> None:
    lease = wire.hand_over()
    wire.client.send(octets(PUBLISH))
    (wire.client, wire.server)[place].shutdown(socket.SHUT_WR)
    wire.settle()
    assert words(bytes(wire.seen[1])) == PUBLISH
    assert wire.returned == 1
    assert lease.reason == ENDED
    assert wire.sockets[place].recv(1) == b"", "the end is there for the one that reads next"


@pytest.mark.parametrize("place", [0, 1])
def test_a_peer_that_resets(place: int) -> None:
    wire = Wire(pump(), tcp=True)
    lease = wire.hand_over()
    settle(wire.pump)
    reset((wire.client, wire.server)[place])
    settle(wire.pump)
    assert lease.reason == GONE
    assert lease.error(place) == 104  # ECONNRESET: it is reported once
    assert lease.error(1 - place) == 0
    wire.close()


def test_a_target_that_is_gone() -> None:
    wire = Wire(pump(), tcp=True)
    lease = wire.hand_over()
    settle(wire.pump)
    wire.sockets[1].shutdown(socket.SHUT_WR)
    wire.client.send(octets(PUBLISH))
    settle(wire.pump)
    assert lease.reason == GONE
    assert words(lease.unsent(0)) == PUBLISH
    wire.close()


@each_form
def test_a_full_socket_stops_the_reading_and_goes_on(tls: tuple[bool, bool]) -> None:
    wire = Wire(pump(stuck_after=1000.0), buffer=8192, tls=tls)
    wire.hand_over()
    data = octets(PUBLISH) * 4000
    sent = 0
    while len(wire.seen[1]) < len(data):
        with suppress(BlockingIOError):
            sent += wire.client.send(data[sent:])
        settle(wire.pump)
        wire.look()
    assert bytes(wire.seen[1]) == data
    assert wire.returned == 0
    assert not wire.pump.has_deadline
    wire.close()


@each_form
def test_a_full_socket_that_stays_full_gives_back(tls: tuple[bool, bool]) -> None:
    wire = Wire(pump(stuck_after=0.0), buffer=8192, tls=tls)
    lease = wire.hand_over()
    data = octets(PUBLISH) * 4000
    sent = 0
    while not wire.returned:
        with suppress(BlockingIOError):
            sent += wire.client.send(data[sent:])
        settle(wire.pump)
    assert lease.reason == STUCK
    assert lease.unsent(0)
    wire.look()
    rest = b""
    with suppress(BlockingIOError):
        rest = wire.sockets[0].recv(1 << 20)
    assert bytes(wire.seen[1]) + lease.unsent(0) + lease.rest(0) + rest == data[:sent]
    assert not wire.pump.has_deadline
    wire.close()


@each_form
@settings(max_examples=example_count(100))
@given(seed=st.integers(0, 2**32), most_frames=st.integers(1, 9), cut=st.integers(1, 3000))
def test_bytes_out_are_bytes_in_however_often_the_owner_changes(
    tls: tuple[bool, bool], seed: int, most_frames: int, cut: int
) -> None:
    """Owner by owner, each byte passes once, in its order, and both know the same of contents as one reader would."""
    dice = Random(seed)
    wire = Wire(pump(most_frames=most_frames), tls=tls)
    data = random_commands(dice, is_server=False), random_commands(dice, is_server=True)
    left = list(data)
    peers = wire.client, wire.server
    while any(left) or wire.lease is not None:
        place = dice.randint(0, 1)
        if left[place]:
            size = dice.randint(1, max(cut, len(data[place]) // 50))
            left[place] = left[place][peers[place].send(left[place][:size]) :]
        lease = wire.lease or wire.hand_over()
        wire.settle()
        if dice.random() < 0.2 or not any(left):
            wire.pump.recall(lease)
        if not lease.is_pumped:
            _relay_here(wire, lease)
            wire.lease = None
    wire.settle()
    for place in (0, 1):
        assert bytes(wire.seen[1 - place]) == data[place]
        expected = reader((CLIENT, SERVER)[place], 1, 2)
        expected.feed(data[place])
        assert wire.readers[place].offset == expected.offset == len(data[place])
        assert wire.readers[place].frames == expected.frames
        for number in (1, 2):
            states = wire.readers[place].content_states[number], expected.content_states[number]
            assert len({(state.expects, state.index, state.remaining, state.contents) for state in states}) == 1
    wire.close()


def _relay_here(wire: Wire, lease: PumpedConnection) -> None:
    """What a session does with what it gets back: all of it, up to the last whole frame."""
    lease.show()
    for place in (0, 1):
        target = wire.sockets[1 - place]
        unsent = lease.unsent(place)
        if unsent:
            assert target.send(unsent) == len(unsent)
        rest = lease.rest(place)
        if rest:
            assert wire.readers[place].feed(rest) == []
            taken = bytes(wire.readers[place].taken)
            if taken:
                assert target.send(taken) == len(taken)
    wire.look()
