"""A pump that has idle connections only: heartbeats pass, and whatever else comes brings the connection back."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.tally import Tally as Amqp010Tally
from amqproxy.amqp091.tally import Tally
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.pump.amqp010.idle_connection import Amqp010IdleConnection
from amqproxy.pump.amqp091.idle_connection import Amqp091IdleConnection
from amqproxy.pump.idle_pump import IdlePump, is_available
from amqproxy.pump.return_reasons import ENDED, GONE, METHOD_COMES, RECALLED, STUCK
from tests.pump.rig import PUBLISH, connected, is_readable, reader, reset
from tests.transcripts.words import octets

pytestmark = pytest.mark.skipif(not is_available(), reason="an idle pump needs epoll")

HEARTBEAT = octets("heartbeat")


class Kept:
    """A connection with an idle pump; `ends` are the peers' sockets, `ours` the proxy's."""

    def __init__(self, pump: IdlePump, *, tcp: bool = False, is_amqp010: bool = False) -> None:
        pairs = connected(tcp), connected(tcp)
        self.ends = pairs[0][0], pairs[1][0]
        self.ours = pairs[0][1], pairs[1][1]
        self.returned = 0
        self.noted: list[tuple[bool, bytes]] = []
        descriptors = self.ours[0].fileno(), self.ours[1].fileno()
        kind = Amqp010IdleConnection if is_amqp010 else Amqp091IdleConnection
        readers = (FrameReader(), FrameReader()) if is_amqp010 else (reader(CLIENT, 1), reader(SERVER, 1))
        self.connection = kind(readers, descriptors, self._return, self._note)
        pump.take(self.connection)

    def _return(self) -> None:
        assert not self.connection.is_pumped
        self.returned += 1

    def _note(self, is_server: bool, data: memoryview, now: float, is_cut: bool) -> None:
        assert not is_cut
        self.noted.append((is_server, bytes(data)))

    def close(self) -> None:
        for each in (*self.ends, *self.ours):
            each.close()


@pytest.fixture
def tallies() -> tuple[Tally, Tally]:
    return Tally(), Tally()


@pytest.fixture
def amqp010_tallies() -> tuple[Amqp010Tally, Amqp010Tally]:
    return Amqp010Tally(), Amqp010Tally()


@pytest.fixture
def pump(tallies: tuple[Tally, Tally], amqp010_tallies: tuple[Amqp010Tally, Amqp010Tally]) -> Iterator[IdlePump]:
    made = IdlePump({Amqp091IdleConnection: tallies, Amqp010IdleConnection: amqp010_tallies})
    yield made
    made.recall_all()
    assert made.connections == 0
    made.stop()


@pytest.fixture
def kept(pump: IdlePump) -> Iterator[Kept]:
    made = Kept(pump)
    yield made
    made.close()


def turn(pump: IdlePump) -> None:
    while is_readable(pump.descriptor):
        pump.turn()


@pytest.mark.parametrize("place", [0, 1])
def test_heartbeats_pass(place: int, pump: IdlePump, kept: Kept, tallies: tuple[Tally, Tally]) -> None:
    kept.ends[place].send(2 * HEARTBEAT)
    turn(pump)
    assert kept.ends[1 - place].recv(100) == 2 * HEARTBEAT
    assert not kept.returned
    assert kept.noted == [(place == 1, 2 * HEARTBEAT)]
    assert (tallies[place].frames[-1], tallies[place].byte_counts[-1]) == (2, 16)
    assert tallies[1 - place].frames[-1] == 0
    assert kept.connection.show() == ((16, 0), (0, 16))[place]
    assert kept.connection.readers is not None
    assert (kept.connection.readers[place].frames, kept.connection.readers[place].offset) == (2, 16)


@pytest.mark.parametrize("place", [0, 1])
def test_heartbeats_of_amqp_0_10_pass(
    place: int, pump: IdlePump, amqp010_tallies: tuple[Amqp010Tally, Amqp010Tally]
) -> None:
    beat = Amqp010IdleConnection.heartbeat
    kept = Kept(pump, is_amqp010=True)
    kept.ends[place].send(2 * beat)
    turn(pump)
    assert kept.ends[1 - place].recv(100) == 2 * beat
    assert kept.noted == [(place == 1, 2 * beat)]
    index = ConnectionHeartbeat.index
    assert (amqp010_tallies[place].frames[index], amqp010_tallies[place].byte_counts[index]) == (2, 2 * len(beat))
    kept.connection.show()
    others = FrameReader(), FrameReader()
    kept.connection.adopt(others, (5, 5))
    kept.connection.show()
    assert (others[place].frames, others[place].offset) == (7, 2 * len(beat))
    kept.ends[place].send(HEARTBEAT)
    turn(pump)
    assert (kept.returned, kept.connection.rest(place)) == (1, HEARTBEAT)
    kept.close()


@pytest.mark.parametrize("data", [octets(PUBLISH), HEARTBEAT[:3], HEARTBEAT + octets("1: basic.ack"), b"\0"])
def test_anything_else_brings_it_back_with_what_came(data: bytes, pump: IdlePump, kept: Kept) -> None:
    kept.ends[1].send(data)
    turn(pump)
    assert (kept.returned, kept.connection.reason, pump.connections) == (1, METHOD_COMES, 0)
    assert (kept.connection.rest(0), kept.connection.rest(1)) == (b"", data)
    assert kept.connection.received(1) == len(data)
    assert kept.connection.frames() == 0
    assert not is_readable(kept.ends[0].fileno())


def test_an_end_brings_it_back(pump: IdlePump, kept: Kept) -> None:
    kept.ends[0].shutdown(socket.SHUT_WR)
    turn(pump)
    assert (kept.returned, kept.connection.reason) == (1, ENDED)
    assert os.read(kept.ours[0].fileno(), 1) == b""


@pytest.mark.parametrize("place", [0, 1])
def test_a_reset_brings_it_back(place: int, pump: IdlePump) -> None:
    kept = Kept(pump, tcp=True)
    reset(kept.ends[place])
    turn(pump)
    assert (kept.returned, kept.connection.reason) == (1, GONE)
    assert kept.connection.error(place) != 0
    assert kept.connection.error(1 - place) == 0
    kept.close()


def test_a_full_socket_brings_it_back_with_what_is_unsent(pump: IdlePump, kept: Kept) -> None:
    filled = 0
    while True:
        try:
            filled += kept.ours[1].send(bytes(4096))
        except BlockingIOError:
            break
    kept.ends[0].send(HEARTBEAT)
    turn(pump)
    assert (kept.returned, kept.connection.reason) == (1, STUCK)
    assert kept.connection.unsent(0) == HEARTBEAT
    assert kept.connection.rest(0) == b""
    assert kept.connection.frames() == 1


def test_a_target_that_is_gone_brings_it_back(pump: IdlePump, kept: Kept) -> None:
    kept.ours[1].shutdown(socket.SHUT_WR)
    kept.ends[0].send(HEARTBEAT)
    turn(pump)
    assert (kept.returned, kept.connection.reason) == (1, GONE)
    assert kept.connection.unsent(0) == HEARTBEAT


def test_it_is_recalled_once(pump: IdlePump, kept: Kept) -> None:
    other = Kept(pump)
    assert pump.connections == 2
    pump.recall(kept.connection)
    pump.recall(kept.connection)
    assert (kept.returned, kept.connection.reason, pump.connections) == (1, RECALLED, 1)
    kept.ends[0].send(HEARTBEAT)
    other.ends[0].send(HEARTBEAT)
    turn(pump)
    assert other.ends[1].recv(100) == HEARTBEAT
    assert os.read(kept.ours[0].fileno(), 100) == HEARTBEAT
    other.close()


def test_the_silent_are_named(pump: IdlePump, kept: Kept) -> None:
    assert pump.silent(1e9) == [], "nothing watches it"
    kept.connection.watch("me", (10.0, 10.0), (100.0, 100.0))
    assert pump.silent(105.0) == []
    assert pump.silent(111.0) == ["me"]


def test_where_the_system_cannot_wait_for_one_more_it_says_so(pump: IdlePump) -> None:
    pair = connected(False)
    with Path(__file__).open() as file:  # which is always readable, and so is not waited for
        connection = Amqp091IdleConnection(
            (reader(CLIENT), reader(SERVER)), (pair[0].fileno(), file.fileno()), lambda: None
        )
        with pytest.raises(PermissionError):
            pump.take(connection)
    assert not connection.is_pumped
    pair[1].send(HEARTBEAT)
    assert not is_readable(pump.descriptor)
    for each in pair:
        each.close()
