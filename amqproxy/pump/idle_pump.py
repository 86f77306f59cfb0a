"""Keeps idle connections where there is no compiled pump, so that their sessions can be parked."""

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
"""Bytes received at once."""

EVENTS_A_TURN = 25
"""Peers of which something is received in one turn of the event loop."""


class IdlePump:
    """Has what a `Pump` has, and passes on heartbeats alone: whatever else comes, it gives the connection back.

    `tallies` count the frames, by the class of their connection. The event loop calls `turn` whenever `descriptor` is
    readable; there, `returned` is called of what is given back. `OSError` where the system has no descriptor left.
    """

    is_threaded = False
    has_ended = False
    has_returned = False
    has_deadline = False

    def __init__(self, tallies: Mapping[type[IdleConnection], Tallies]) -> None:
        self._tallies = tallies
        self._epoll = select.epoll()
        self._by_descriptor: dict[int, IdleConnection] = {}

    @property
    def descriptor(self) -> int:
        """Readable when there is something for `turn`."""
        return self._epoll.fileno()

    @property
    def returns_descriptor(self) -> int:
        """The same: all that is given back is given back in a turn."""
        return self._epoll.fileno()

    @property
    def connections(self) -> int:
        """How many it has."""
        return len(self._by_descriptor) // 2

    def take(self, connection: IdleConnection | PumpedConnection) -> None:
        """Keep a connection from here on. `OSError` where the system cannot wait for one more."""
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
        """Have a connection back at once: its `returned` has been called when this returns."""
        if isinstance(connection, IdleConnection) and connection.is_pumped:
            self._give_back(connection, RECALLED)

    def recall_all(self) -> None:
        """Have all connections back."""
        for connection in set(self._by_descriptor.values()):
            self.recall(connection)

    def silent(self, now: float) -> list[object]:
        """The holders of connections of which a peer has been silent for too long; to be asked at intervals."""
        return [
            each.holder
            for descriptor, each in self._by_descriptor.items()
            if descriptor == each.descriptors[0] and each.holder is not None and each.is_silent(now)
        ]

    def turn(self) -> None:
        """Pass on, or give back, what something has come on."""
        for descriptor, _ in self._epoll.poll(0, EVENTS_A_TURN):
            connection = self._by_descriptor.get(descriptor)
            if connection is not None:
                self._receive(connection, connection.descriptors.index(descriptor))

    def receive_returned(self, most: int = 0) -> None:
        """All is back already."""

    def read_journal(self) -> None:
        """All is counted already."""

    def collect(self) -> tuple[list[int], float]:
        """All is counted already."""
        return [], 0.0

    def stop(self) -> None:
        """The pump has no connection any more."""
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
            with suppress(OSError):  # it is closed, and so is not waited for
                self._epoll.unregister(descriptor)
        connection.is_pumped = False
        connection.reason = reason
        connection.returned()


def is_available() -> bool:
    """Can there be one? Where the system has epoll."""
    return hasattr(select, "epoll")
