"""Holder of idle connections without a compiled pump, so that their sessions can be parked."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping
from contextlib import suppress

from amqproxy.pump.idle_connection import IdleConnection
from amqproxy.pump.pumped_connection import PumpedConnection
from amqproxy.pump.return_reasons import ENDED, GONE, METHOD_COMES, RECALLED, STUCK
from amqproxy.pump.tallies import Tallies

MOST_READ = 64 * 1024
"""Maximum bytes received in one read."""

EVENTS_A_TURN = 25
"""Maximum number of peers read from in one turn of the event loop."""


class IdlePump:
    """A pump with the interface of `Pump` that forwards only heartbeats and gives a connection back at any other data.

    `tallies` count the frames by the class of their connection. The event loop calls `turn` whenever `descriptor` is
    readable, which calls `returned` of each connection given back. `OSError` if the system has no descriptor left.
    """

    is_threaded = False
    has_unfinished = False
    has_ended = False
    has_returned = False
    has_deadline = False

    def __init__(self, tallies: Mapping[type[IdleConnection], Tallies]) -> None:
        self._tallies = tallies
        self._epoll = select.epoll()
        self._by_descriptor: dict[int, IdleConnection] = {}

    @property
    def descriptor(self) -> int:
        """A descriptor that is readable when `turn` has work."""
        return self._epoll.fileno()

    @property
    def returns_descriptor(self) -> int:
        """Alias of `descriptor`, because connections are given back within a turn."""
        return self._epoll.fileno()

    @property
    def connections(self) -> int:
        """The number of connections held."""
        return len(self._by_descriptor) // 2

    def take(self, connection: IdleConnection | PumpedConnection) -> None:
        """Take over a connection; raise `OSError` if the system cannot poll another one."""
        assert isinstance(connection, IdleConnection)
        ours, theirs = connection.descriptors
        self._epoll.register(ours, select.EPOLLIN)
        try:
            self._epoll.register(theirs, select.EPOLLIN)
        except OSError:
            self._epoll.unregister(ours)
            raise
        self._by_descriptor[ours] = self._by_descriptor[theirs] = connection
        connection.is_pumped = True
        connection.since = time.monotonic()

    def recall(self, connection: IdleConnection | PumpedConnection) -> None:
        """Give a connection back at once: its `returned` has been called when this returns."""
        if isinstance(connection, IdleConnection) and connection.is_pumped:
            self._give_back(connection, RECALLED)

    def recall_all(self) -> None:
        """Give all connections back at once."""
        for connection in set(self._by_descriptor.values()):
            self.recall(connection)

    def silent(self, now: float) -> list[object]:
        """Return the holders of connections with a peer that was silent for too long; to be called at intervals."""
        return [
            each.holder
            for descriptor, each in self._by_descriptor.items()
            if descriptor == each.descriptors[0] and each.holder is not None and each.is_silent(now)
        ]

    def turn(self) -> None:
        """Read from ready connections, and forward heartbeats or give the connection back."""
        for descriptor, _ in self._epoll.poll(0, EVENTS_A_TURN):
            connection = self._by_descriptor.get(descriptor)
            if connection is not None:
                self._receive(connection, connection.descriptors.index(descriptor))

    def receive_returned(self, most: int = 0) -> None:
        """Return at once, because connections are given back within `turn`."""

    def read_journal(self) -> None:
        """Return at once, because frames are counted within `turn`."""

    def collect(self) -> tuple[list[int], float]:
        """Return no latencies; the tallies are updated within `turn`."""
        return [], 0.0

    def stop(self) -> None:
        """Close the pump's epoll descriptor, after all connections are given back."""
        self._epoll.close()

    def _receive(self, connection: IdleConnection, place: int) -> None:
        source, target = connection.descriptors[place], connection.descriptors[1 - place]
        try:
            data = os.read(source, MOST_READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            number = error.errno or 0
            connection.errors = (0, number) if place else (number, 0)
            self._give_back(connection, GONE)
            return
        if not data:
            self._give_back(connection, ENDED)
            return
        connection.received_bytes[place] += len(data)
        count = len(data) // len(connection.heartbeat)
        if data != connection.heartbeat * count:
            connection.rests = (b"", data) if place else (data, b"")
            self._give_back(connection, METHOD_COMES)
            return
        connection.taken[place] += len(data)
        connection.frame_counts[place] += count
        tally = self._tallies[type(connection)][place]
        tally.frames[connection.heartbeat_kind] += count
        tally.byte_counts[connection.heartbeat_kind] += len(data)
        if connection.note is not None:
            connection.note(place == 1, memoryview(data), time.monotonic(), False)
        try:
            sent = os.write(target, data)
            reason = STUCK
        except BlockingIOError:
            sent, reason = 0, STUCK
        except OSError:
            sent, reason = 0, GONE
        if sent < len(data):
            left = data[sent:]
            connection.unsents = (b"", left) if place else (left, b"")
            self._give_back(connection, reason)

    def _give_back(self, connection: IdleConnection, reason: int) -> None:
        for descriptor in connection.descriptors:
            del self._by_descriptor[descriptor]
            with suppress(OSError):  # a closed descriptor is no longer registered
                self._epoll.unregister(descriptor)
        connection.is_pumped = False
        connection.reason = reason
        connection.returned()


def is_available() -> bool:
    """Whether the system supports idle pumps, which need epoll."""
    return hasattr(select, "epoll")
