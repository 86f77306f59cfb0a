"""One direction of a session of AMQP 0-10: reads from one leg, has the frames pass, and sends to the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import trio

from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.protocol_header import HEADER, SIZE
from amqproxy.peer import Peer
from amqproxy.proxy.amqp010_leg import AMQP010Leg
from amqproxy.proxy.leg import QUANTUM_FRAMES
from amqproxy.proxy.session.amqp010_drain import AMQP010Drain
from amqproxy.proxy.session.amqp010_passage import AMQP010Passage
from amqproxy.proxy.session.ownership import Ownership, TargetBroken
from amqproxy.proxy.session.relay import DirectionEnding
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.sockets.transport import TransportBroken

PIECE = 16 * 1024
"""Bytes that are looked at before the time is; where a passage must read them, `QUANTUM_FRAMES` frames at most."""

_RELEASED = TapBrake()


class AMQP010Relay:
    """Passes on what `source` sends to `target`, through `passage`, which may be replaced between two chunks.

    `begin` is called before anything is taken: it may replace the passage. `follow_up` is called whenever the passage
    has taken frames: it does what is to be done besides sending. `greet` takes a peer's protocol header, and answers
    whether frames follow. `observe` takes the seconds from receiving a chunk to having sent it. What a peer sends from
    a frame on that is none, or that may not come, passes unread, unless the passage `must_read`: `on_violation` is
    called once for each peer. A fault of ours is no end of the connection either: `on_fault` is called then. While it
    is paused, or a `brake` holds the session of this `number`, nothing is taken. A session that drains sets `drain`.
    With an `ownership`, a pump may relay in its place for a while.
    """

    __slots__ = (
        "_begin",
        "_brake",
        "_error",
        "_first",
        "_follow_up",
        "_greet",
        "_number",
        "_observe",
        "_on_fault",
        "_on_violation",
        "_ownership",
        "_resumed",
        "_room",
        "_unsent",
        "drain",
        "is_read",
        "passage",
        "source",
        "target",
    )

    def __init__(
        self,
        source: AMQP010Leg,
        target: AMQP010Leg,
        passage: AMQP010Passage,
        begin: Callable[[], None],
        follow_up: Callable[[], None],
        greet: Callable[[Peer, bytes], bool],
        observe: Callable[[float], None],
        on_violation: Callable[[Peer, ProtocolError], None],
        on_fault: Callable[[Peer, Exception], None],
        brake: TapBrake | None = None,
        number: int = 0,
        ownership: Ownership | None = None,
    ) -> None:
        self._ownership = ownership
        self.source = source
        self.target = target
        self.passage = passage
        self.is_read = True
        self._begin = begin
        self._follow_up = follow_up
        self._greet = greet
        self._observe = observe
        self._on_violation = on_violation
        self._on_fault = on_fault
        self._brake = brake or _RELEASED
        self._number = number
        self._first: bytes | None = b""
        self._error: ProtocolError | None = None
        self._unsent: list[bytes] = []
        self._room: trio.Event | None = None
        self._resumed: trio.Event | None = None
        self.drain: AMQP010Drain | None = None

    def go_on(self) -> None:
        """The connection is open already: frames come."""
        self._first = None

    async def run(self, received: bytes = b"") -> DirectionEnding:
        """Pass on what was `received`, and what comes, until the source has closed its half, the client has answered
        the close that ended its drain, or the session is parked.

        `TransportBroken` when one of the two is gone. `ProtocolError` where the passage wants the connection closed:
        what came before that has been passed on.
        """
        data: bytes | None = received or await self._receive()
        turn = self.source.turn
        while data:
            while self._resumed is not None:
                await self._resumed.wait()
            if self._brake.is_on:
                await self._brake.wait(self._number)
            arrived = time.perf_counter()
            start = 0
            while start < len(data) or self.source.reader.is_paused:
                began = time.perf_counter()
                if self.source.reader.is_paused:
                    output = self._pass_on(b"")
                else:
                    output = self._pass_on(data if len(data) <= PIECE else data[start : start + PIECE])
                    start += PIECE
                decided = time.perf_counter()
                if output:
                    await self.target.transport.send(output)
                await self._answer()
                if self._error is not None:
                    raise self._error
                if self.drain is not None and self.drain.is_leaving and await self.drain.is_answered():
                    return DirectionEnding.ANSWERED
                if turn.is_over(began, decided, time.perf_counter()):
                    await turn.next()
            self._observe(time.perf_counter() - arrived)
            data = await self._receive()
        if data is None:
            return DirectionEnding.PARKED
        if self._unsent and not self.passage.must_read:
            await self.target.transport.send(b"".join(self._unsent))  # the beginning of a frame
        return DirectionEnding.EOF

    @property
    def is_paused(self) -> bool:
        return self._resumed is not None

    @property
    def is_unread(self) -> bool:
        """Is the source, on purpose, not being read from?"""
        return self._resumed is not None or self._room is not None or self._brake.holds(self._number)

    def pause(self) -> None:
        """Take nothing more of the source, from the next chunk on."""
        if self._resumed is None:
            self._resumed = trio.Event()

    def resume(self) -> None:
        """Go on with the source, if it was paused."""
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    @property
    def is_steady(self) -> bool:
        """Is nothing done but to read frames, and to pass them on?"""
        return self.is_read and self._first is None and not self.is_unread and not self._brake.is_on

    async def _receive(self) -> bytes | None:
        if self._ownership is None:
            return await self.source.transport.receive()
        try:
            data = await self._ownership.receive(self.source.peer)
        except TargetBroken as error:
            raise TransportBroken(str(error)) from None
        if self.is_read and not self.source.reader.held_size:
            self._unsent = []  # a pump has gone on with what was
        return data

    def make_room(self) -> None:
        """Read again from the source, if that stopped since too much waited and there is room now."""
        if self._room is not None and not self.passage.is_full(self.source.peer):
            self._room.set()
            self._room = None

    async def _answer(self) -> None:
        """Send queued replies to the source; and wait while too much of what it sent waits."""
        source = self.source
        replies = self.passage.take_output(source.peer)
        if replies:
            with suppress(TransportBroken):  # its own direction reports what happened
                await source.transport.send(replies)
        while self.passage.is_full(source.peer):
            self._room = trio.Event()
            await self._room.wait()

    def _pass_on(self, data: bytes) -> bytes | memoryview:
        """What is to be sent on of all that has come up to here; of what a paused reader has left, without `data`."""
        if not self.is_read:
            return data
        if self._first is not None:
            return self._pass_header(data)
        self._unsent.append(data)
        try:
            return self._read(data)
        except Exception as failure:
            if self.passage.must_read:
                raise
            self._read_no_more()
            self.passage.take_output(self.target.peer)  # which is among what is unsent
            self._on_fault(self.source.peer, failure)
            return self._take_unsent()

    def _read(self, data: bytes) -> bytes | memoryview:
        if self.drain is not None and self.drain.is_leaving:
            return self._take_last(data)
        if not self.source.reader.is_paused:
            self._begin()
        passage, reader = self.passage, self.source.reader
        reader.quantum = QUANTUM_FRAMES if passage.must_read else 0
        frames = self._frames(data)
        try:
            passage.take(self.source.peer, frames, trio.current_time())
        except ProtocolError as error:
            self._error = error
        self._follow_up()
        output = passage.take_output(self.target.peer)
        self._error = passage.refusal or self._error or reader.error
        if reader.error is not None:
            reader.error.received = reader.refused
            if not passage.must_read:
                return self._stop_reading(output, reader.error)
        if reader.taken_frames:
            self._unsent = [reader.held] if reader.held_size else []
        return output

    def _frames(self, data: bytes) -> list[Frame]:
        reader = self.source.reader
        return reader.resume() if reader.is_paused else reader.feed(data)

    def _take_last(self, data: bytes) -> bytes:
        """Take what ends the connection of the source, now that the client has been sent connection.close."""
        if self.source.reader.error is None:
            for frame in self._frames(data):
                self.source.take_last(frame)
        return b""

    def _stop_reading(self, output: bytes | memoryview, error: ProtocolError) -> bytes:
        """Let all pass as it is from here on, since what comes after the output is wrong."""
        self._unsent = [b"".join((output, error.received))]
        self._read_no_more()
        self._on_violation(self.source.peer, error)
        return self._take_unsent()

    def _read_no_more(self) -> None:
        """What comes from here on passes as it is: what the target gets may end within a frame."""
        self.is_read = self.target.is_framed = False
        self._error = None

    def _take_unsent(self) -> bytes:
        unsent, self._unsent = b"".join(self._unsent), []
        return unsent

    def _pass_header(self, data: bytes) -> bytes | memoryview:
        """Pass on a peer's protocol header, as its bytes come; what is behind it is frames, if it is that of 0-10."""
        assert self._first is not None
        missing = SIZE - len(self._first)
        header, rest = data[:missing], data[missing:]
        self._first += header
        if not HEADER.startswith(self._first):
            if len(self._first) < SIZE and self._first.startswith(HEADER[:4]):
                return data  # the version is still to come
            self._read_no_more()
            self._greet(self.source.peer, self._first)
            return data
        if len(self._first) < SIZE:
            return data
        self._first = None
        if not self._greet(self.source.peer, HEADER):
            self._read_no_more()
            return data
        output = self._pass_on(rest) if rest else b""
        return b"".join([header, output])
