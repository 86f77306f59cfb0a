"""Recordings of AMQP 0-10 that a test writes down: who sent what, in which order."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp010 import controls
from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.frame import Frame, encode_method
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Array, Map
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, StreamEnded
from amqproxy.replay.dialogue import steps_of
from amqproxy.replay.steps import Step
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from tests.amqp010.samples import split
from tests.replay.recordings import MILLISECOND

Said = Assembly | Method


def transfer(destination: str, body: bytes, *, key: str = "", exchange: str = "", accept_mode: int = 0) -> Assembly:
    """A message on any channel."""
    header = Header((DeliveryProperties(exchange=exchange or None, routing_key=key), MessageProperties(len(body))))
    return Assembly(0, MessageTransfer(destination, accept_mode, 0), header, body)


def completed(*ranges: tuple[int, int]) -> controls.SessionCompleted:
    return controls.SessionCompleted(SequenceSet(ranges))


class Amqp010Recording:
    """Connections that are recorded by a test. Each thing that is said comes a millisecond after the one before."""

    def __init__(self) -> None:
        self.decoded: list[Decoded] = []
        self._snapshot: ConnectionSnapshot | None = None
        self._numbering: dict[tuple[int, str], CommandNumbering] = {}

    def open(self, stream: int, vhost: str = "/") -> None:
        """A client connects."""
        for sender in ("client", "server"):
            name = f"client:{stream}-broker"
            self.decoded.append(DecodedProtocolHeader(self._now, stream, name, sender, "0-10", HEADER))
        self.server(stream, 0, controls.ConnectionStart(Map(), Array("str16", ["PLAIN"]), Array("str16", ["en_US"])))
        self.client(stream, 0, controls.ConnectionStartOk(Map({"clientName": "x"}), "PLAIN", b"\0guest\0****", "en_US"))
        self.server(stream, 0, controls.ConnectionTune(100, 65_535, 0, 120))
        self.client(stream, 0, controls.ConnectionTuneOk(100, 65_535, 0), controls.ConnectionOpen(vhost))
        self.server(stream, 0, controls.ConnectionOpenOk())

    def join(self, stream: int, snapshot: ConnectionSnapshot) -> None:
        """Take a state before what is recorded next, as a recording has it that begins in the middle."""
        self._snapshot = snapshot
        for state in snapshot.channels:
            for sender, last in (("client", state.published), ("server", state.delivered)):
                numbering = self._numbering[stream, sender] = CommandNumbering()
                raw = encode_method(state.number, controls.SessionCommandPoint((last or 0) + 1, 0))
                numbering.number(Frame(raw))

    def attach(self, stream: int, channel: int = 1, *, first: int = 0, name: bytes = b"") -> None:
        """A client attaches a session; the broker's commands are numbered from `first` on."""
        name = name or b"s%d" % stream
        self.client(stream, channel, controls.SessionAttach(name))
        self.server(stream, channel, controls.SessionAttached(name))
        self.client(stream, channel, controls.SessionCommandPoint(0, 0))
        self.server(stream, channel, controls.SessionCommandPoint(first, 0))

    def close(self, stream: int) -> None:
        """A client goes away."""
        self.client(stream, 0, controls.ConnectionClose(200, "bye"))
        self.server(stream, 0, controls.ConnectionCloseOk())
        self.end(stream)

    def end(self, stream: int, reason: str = "client closed") -> None:
        """A connection is over."""
        self.decoded.append(StreamEnded(self._now, stream, f"client:{stream}-broker", reason))

    def client(self, stream: int, channel: int, *said: Said) -> None:
        """A client sends."""
        self._add(stream, "client", channel, said)

    def server(self, stream: int, channel: int, *said: Said) -> None:
        """The broker sends."""
        self._add(stream, "server", channel, said)

    def steps(self) -> Iterator[Step]:
        return steps_of(self.decoded)

    @property
    def _now(self) -> int:
        return len(self.decoded) * MILLISECOND

    def _add(self, stream: int, sender: str, channel: int, said: tuple[Said, ...]) -> None:
        numbering = self._numbering.setdefault((stream, sender), CommandNumbering())
        for each in said:
            given = each if isinstance(each, Assembly) else Assembly(channel, each)
            whole = Assembly(channel, given.method, given.header, given.body if given.has_body else None)
            frames = [Frame(raw) for raw in split(whole.encode())]
            ids = [numbering.number(frame) for frame in frames]
            self.decoded.append(
                Amqp010DecodedFrames(
                    self._now,
                    stream,
                    f"client:{stream}-broker",
                    sender,
                    frames,
                    command_ids=ids,
                    snapshot=self._snapshot,
                )
            )
            self._snapshot = None
