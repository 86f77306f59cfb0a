"""What a client and a broker of AMQP 0-10 send each other, for tests to pass on."""

from __future__ import annotations

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.commands import (
    ExecutionException,
    MessageAccept,
    MessageReject,
    MessageRelease,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
)
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionHeartbeat,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
)
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties, Header
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Array, Map
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.tap import Tap, TappedSession

Step = tuple[Peer, bytes]
"""What one peer sends before the other goes on."""


def method(what: Method, channel: int = 1) -> bytes:
    """The frames of a control, or of a command without content."""
    return encode_method(channel, what)


def transfer(body: bytes, destination: str = "x", *, channel: int = 1, accept_mode: int = 0) -> bytes:
    """The frames of a message."""
    header = Header((DeliveryProperties(routing_key="k"),))
    return Assembly(channel, MessageTransfer(destination, accept_mode, 0), header, body).encode(4096)


def ids(*ranges: tuple[int, int]) -> SequenceSet:
    """A set of command ids."""
    return SequenceSet(ranges)


LOGIN: list[Step] = [
    (CLIENT, HEADER),
    (SERVER, HEADER + method(ConnectionStart(Map(), Array("str16", ["PLAIN"]), Array("str16", ["en_US"])), 0)),
    (
        CLIENT,
        method(ConnectionStartOk(Map({"product": "tests"}), "PLAIN", b"\0guest\0hidden", "en_US"), 0),
    ),
    (SERVER, method(ConnectionTune(16, 4096, 0, 120), 0)),
    (CLIENT, method(ConnectionTuneOk(16, 4096, 60), 0) + method(ConnectionOpen("test"), 0)),
    (SERVER, method(ConnectionOpenOk(), 0)),
]
ATTACH: list[Step] = [
    (CLIENT, method(SessionAttach(b"s")) + method(SessionCommandPoint(0, 0))),
    (SERVER, method(SessionAttached(b"s")) + method(SessionCommandPoint(0, 0))),
]
MESSAGES: list[Step] = [
    (CLIENT, method(QueueDeclare(queue="q")) + transfer(b"a" * 10_000) + transfer(b"b") + transfer(b"c", "q")),
    (SERVER, method(SessionCompleted(ids((0, 2)))) + method(MessageReject(ids((3, 3)), 1))),
    (SERVER, method(ConnectionHeartbeat(), 0)),
    (CLIENT, method(MessageSubscribe("q", "d", 0, 0))),
    (SERVER, b"".join(transfer(each, "d") for each in (b"1", b"22", b"333")) + transfer(b"4", "d", accept_mode=1)),
    (CLIENT, method(MessageAccept(ids((1, 1)))) + method(MessageRelease(ids((2, 2))))),
    (CLIENT, method(MessageReject(ids((3, 3))))),
]
DETACH: list[Step] = [
    (CLIENT, method(SessionDetach(b"s"))),
    (SERVER, method(SessionDetached(b"s", 0))),
]
FAILURE: list[Step] = [(SERVER, method(ExecutionException(404, 1)) + method(SessionDetach(b"s")))]
CLOSE: list[Step] = [
    (CLIENT, method(ConnectionClose(200, "bye"), 0)),
    (SERVER, method(ConnectionCloseOk(), 0)),
]


class Showing:
    """Shows steps to taps, as a session of the proxy's does."""

    def __init__(self, session: TappedSession, *taps: Tap) -> None:
        self.taps = taps
        self._session = session
        self._readers = {peer: FrameReader() for peer in Peer}
        self._numberings = {peer: CommandNumbering() for peer in Peer}

    def show(self, *steps: Step, note: Note = NOTHING) -> None:
        for sender, step in steps:
            reader, data = self._readers[sender], step
            if data.startswith(HEADER):
                data = data[len(HEADER) :]
                reader.skip(len(HEADER))
                for tap in self.taps:
                    tap.saw_protocol_header(self._session, HEADER, sender)
            if data:
                numbers = [self._numberings[sender].number(frame) for frame in reader.feed(data)]
                for tap in self.taps:
                    chunk = Amqp010Chunk(bytes(reader.taken), reader.taken_from, numbers)
                    tap.saw_frames(self._session, sender, chunk, note)
