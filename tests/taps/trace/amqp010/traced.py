"""A connection of 0-10 under trace: controls and commands go in, as frames; what happened comes out."""

from __future__ import annotations

from typing import Any, TypeVar

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import (
    ExecutionResult,
    MessageAccept,
    MessageReject,
    MessageRelease,
    MessageSubscribe,
    MessageTransfer,
)
from amqproxy.amqp010.controls import (
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
)
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp010.connection_trace import Amqp010Trace
from amqproxy.taps.trace.events import TraceEvent

E = TypeVar("E", bound=TraceEvent)

START = (
    (SERVER, ConnectionStart()),
    (CLIENT, ConnectionStartOk(mechanism="PLAIN", response=b"\0guest\0secret", locale="en_US")),
    (SERVER, ConnectionTune(channel_max=10, max_frame_size=65535, heartbeat_min=0, heartbeat_max=60)),
    (CLIENT, ConnectionTuneOk(channel_max=10, max_frame_size=65535, heartbeat=30)),
    (CLIENT, ConnectionOpen(virtual_host="test")),
    (SERVER, ConnectionOpenOk()),
)


def frames_of(channel: int, method: Method, header: Header | None = None, body: bytes | None = None) -> list[Frame]:
    """A control or command as frames, none of which is over 1,000 bytes."""
    raw = Assembly(channel, method, header, body).encode(1000)
    frames, start = [], 0
    while start < len(raw):
        end = start + int.from_bytes(raw[start + 2 : start + 4])
        frames.append(Frame(raw[start:end]))
        start = end
    return frames


def ids(*ranges: tuple[int, int] | int) -> SequenceSet:
    """A set of command ids."""
    return SequenceSet([(each, each) if isinstance(each, int) else each for each in ranges])


def published(exchange: str = "", key: str = "q", *, accept_mode: int = 1) -> tuple[MessageTransfer, Header]:
    """What a client publishes with."""
    transfer = MessageTransfer(destination=exchange, accept_mode=accept_mode, acquire_mode=0)
    return transfer, Header((DeliveryProperties(routing_key=key),))


class TracedAmqp010:
    """A trace with a clock that each read moves on by a millisecond.

    `events` are all that it has given so far. Unless it is `joined` in the middle, the connection is open, and a new
    session is attached to each of `channels`, whose peers number their commands from 0; what happened until then is not
    in `events`.
    """

    def __init__(self, *channels: int, joined: bool = False, **options: Any) -> None:
        self.trace = Amqp010Trace(**options)
        self.ts_ns = 0
        self.events: list[TraceEvent] = []
        if not joined:
            self.trace.feed_protocol_header(self.ts_ns)
            for sender, control in START:
                self.feed(sender, control, channel=0)
            for number in channels:
                self.attach(number)
            self.events.clear()

    def attach(self, channel: int = 1, name: bytes = b"s", *, point: int = 0) -> None:
        """Attach a session, whose next commands have this id."""
        self.feed(CLIENT, SessionAttach(name_=name), channel=channel)
        self.feed(SERVER, SessionAttached(name_=name), channel=channel)
        for sender in Peer:
            self.feed(sender, SessionCommandPoint(command_id=point, command_offset=0), channel=channel)

    def client(self, method: Method, *, channel: int = 1, **content: Any) -> list[TraceEvent]:
        """The client sends a control or command; what happens with it."""
        return self.feed(CLIENT, method, channel=channel, **content)

    def server(self, method: Method, *, channel: int = 1, **content: Any) -> list[TraceEvent]:
        """The same from the broker."""
        return self.feed(SERVER, method, channel=channel, **content)

    def publish(self, *, channel: int = 1, body: bytes = b"hello", accept_mode: int = 1) -> list[TraceEvent]:
        transfer, header = published(accept_mode=accept_mode)
        return self.client(transfer, channel=channel, header=header, body=body)

    def subscribe(self, queue: str = "q", destination: str = "d", *, accept_mode: int = 0) -> list[TraceEvent]:
        return self.client(
            MessageSubscribe(queue=queue, destination=destination, accept_mode=accept_mode, acquire_mode=0)
        )

    def deliver(
        self,
        destination: str = "d",
        *,
        accept_mode: int = 0,
        acquire_mode: int = 0,
        channel: int = 1,
        headers: Map | None = None,
    ) -> list[TraceEvent]:
        transfer = MessageTransfer(destination=destination, accept_mode=accept_mode, acquire_mode=acquire_mode)
        delivery = DeliveryProperties(exchange="x", routing_key="k", redelivered=True)
        header = Header((delivery,) if headers is None else (delivery, MessageProperties(application_headers=headers)))
        return self.server(transfer, channel=channel, header=header, body=b"hello")

    def complete(self, *ranges: tuple[int, int] | int, channel: int = 1) -> list[TraceEvent]:
        """The broker completes commands of the client."""
        return self.server(SessionCompleted(commands=ids(*ranges)), channel=channel)

    def accept(self, *ranges: tuple[int, int] | int) -> list[TraceEvent]:
        return self.client(MessageAccept(transfers=ids(*ranges)))

    def release(self, *ranges: tuple[int, int] | int) -> list[TraceEvent]:
        return self.client(MessageRelease(transfers=ids(*ranges)))

    def reject(self, *ranges: tuple[int, int] | int) -> list[TraceEvent]:
        return self.client(MessageReject(transfers=ids(*ranges), code=0))

    def result(self, command_id: int, value: Any = None) -> list[TraceEvent]:
        return self.server(ExecutionResult(command_id=command_id, value=value))

    def gap(self, sender: Peer = CLIENT, *, is_other_whole: bool = False) -> list[TraceEvent]:
        self.ts_ns += 1_000_000
        return self._note(self.trace.gap(sender, self.ts_ns, "missing", is_other_whole=is_other_whole))

    def end(self) -> list[TraceEvent]:
        self.ts_ns += 1_000_000
        return self._note(self.trace.end(self.ts_ns, "over"))

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind so far."""
        return [each for each in self.events if isinstance(each, kind)]

    def feed(self, sender: Peer, method: Method, *, channel: int, **content: Any) -> list[TraceEvent]:
        self.ts_ns += 1_000_000
        return self._note(self.trace.feed(sender, frames_of(channel, method, **content), self.ts_ns))

    def _note(self, events: list[TraceEvent]) -> list[TraceEvent]:
        self.events += events
        return events
