"""Recordings that a test writes down: who sent what, in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import every_frame
from amqproxy.amqp091.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.wire import Table
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, StreamEnded
from amqproxy.replay.dialogue import steps_of
from amqproxy.replay.steps import Step
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

MILLISECOND = 1_000_000

Said = Command | Method


class Recording:
    """Connections that are recorded by a test. Each thing that is said comes a millisecond after the one before."""

    def __init__(self) -> None:
        self.decoded: list[Decoded] = []
        self._snapshot: ConnectionSnapshot | None = None

    def open(self, stream: int) -> None:
        """A client connects."""
        self.decoded.append(
            DecodedProtocolHeader(self._now, stream, f"client:{stream}-broker", "client", "0-9-1", HEADER)
        )
        self.server(stream, 0, ConnectionStart(0, 9, Table(), b"PLAIN", b"en_US"))
        self.client(stream, 0, ConnectionStartOk(Table(), "PLAIN", b"\0guest\0*****", "en_US"))
        self.server(stream, 0, ConnectionTune(2047, 131072, 0))
        self.client(stream, 0, ConnectionTuneOk(2047, 131072, 0), ConnectionOpen("/"))
        self.server(stream, 0, ConnectionOpenOk())

    def join(self, snapshot: ConnectionSnapshot) -> None:
        """Take a state before what is recorded next, as a recording has it that begins in the middle."""
        self._snapshot = snapshot

    def open_channel(self, stream: int, channel: int) -> None:
        """A client opens a channel."""
        self.client(stream, channel, ChannelOpen())
        self.server(stream, channel, ChannelOpenOk())

    def close_channel(self, stream: int, channel: int) -> None:
        """A client closes a channel."""
        self.client(stream, channel, ChannelClose(200, "bye"))
        self.server(stream, channel, ChannelCloseOk())

    def close(self, stream: int) -> None:
        """A client goes away."""
        self.client(stream, 0, ConnectionClose(200, "bye"))
        self.server(stream, 0, ConnectionCloseOk())
        self.end(stream)

    def end(self, stream: int, reason: str = "client closed without connection.close") -> None:
        """A connection is over."""
        self.decoded.append(StreamEnded(self._now, stream, f"client:{stream}-broker", reason))

    def client(self, stream: int, channel: int, *said: Said) -> None:
        """A client sends."""
        self._add(stream, "client", channel, said)

    def server(self, stream: int, channel: int, *said: Said) -> None:
        """The broker sends."""
        self._add(stream, "server", channel, said)

    def ask(self, stream: int, channel: int, request: Method, reply: Said) -> None:
        """A client asks, and the broker answers."""
        self.client(stream, channel, request)
        self.server(stream, channel, reply)

    def steps(self) -> Iterator[Step]:
        return steps_of(self.decoded)

    @property
    def _now(self) -> int:
        return len(self.decoded) * MILLISECOND

    def _add(self, stream: int, sender: str, channel: int, said: Iterable[Said]) -> None:
        commands = [each if isinstance(each, Command) else Command(channel, each) for each in said]
        data = b"".join([each.encode(131072) for each in commands])
        self.decoded.append(
            Amqp091DecodedFrames(
                self._now,
                stream,
                f"client:{stream}-broker",
                sender,
                every_frame(data, 0),
                snapshot=self._snapshot,
            )
        )
        self._snapshot = None


def message(method: Method, body: bytes, channel: int = 1, **properties: object) -> Command:
    """A method with its content."""
    return Command(channel, method, Properties(**properties), body)  # type: ignore[arg-type]
