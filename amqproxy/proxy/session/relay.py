"""One direction of a session: reads from one leg, has the frames pass, and sends to the other."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum, auto

import trio

from amqproxy.amqp091.errors import ProtocolError, ResourceError
from amqproxy.amqp091.frame import FRAME_MIN_SIZE, Frame
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.proxy.interception.effects import InterceptorFault
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.proxy.session.closing import culprit_of
from amqproxy.proxy.session.drain import Drain
from amqproxy.proxy.session.handshake import PacedHandshake
from amqproxy.proxy.session.ownership import Ownership, TargetBroken
from amqproxy.proxy.session.passage import Passage
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.sockets.transport import TransportBroken
from amqproxy.taps.frame_chunk import FrameChunk

_RELEASED = TapBrake()


class DirectionEnding(Enum):
    """How one direction came to its end."""

    EOF = auto()
    """The source has closed its half."""
    TARGET_GONE = auto()
    """The target takes no more. What it sent last may still be on its way, in the other direction."""
    ANSWERED = auto()
    """The client has answered the close that ended its drain."""
    PARKED = auto()
    """A pump has the connection, and the session keeps no relays meanwhile."""


class Relay:
    """Passes on what `source` sends to `target`, through `passage`, which may be replaced between two chunks.

    `handshake` receives from the client until it may send without waiting. `drain` is set once the session drains.
    `follow_up` is called whenever the passage has taken frames: it does what is to be done besides sending. `observe`
    takes the seconds from receiving a chunk to having sent it; `note` what the client has sent, or, with True, what it
    is sent, and the time at which that was read; `show`, while there are taps, what passes that the passage does not
    take. What is held of an incomplete frame counts for `share`. After a `ProtocolError`, `culprit` is the frame that
    it is about, if that is known. While it is paused, nothing is read, or taken of what has been read; so it is while
    a `brake` holds the session of this `number`. With an `ownership`, a pump may relay in its place for a while.
    """

    __slots__ = (
        "_brake",
        "_follow_up",
        "_note",
        "_number",
        "_observe",
        "_ownership",
        "_resumed",
        "_room",
        "_share",
        "_show",
        "culprit",
        "drain",
        "handshake",
        "passage",
        "source",
        "target",
    )

    def __init__(
        self,
        source: Leg,
        target: Leg,
        passage: Passage,
        share: MemoryShare,
        follow_up: Callable[[], None],
        observe: Callable[[float], None],
        note: Callable[[bool, bytes | memoryview, float], None],
        show: Callable[[Peer, Sequence[Frame]], None],
        handshake: PacedHandshake | None = None,
        brake: TapBrake | None = None,
        number: int = 0,
        ownership: Ownership | None = None,
    ) -> None:
        self._ownership = ownership
        self._brake = brake or _RELEASED
        self._number = number
        self.source = source
        self.target = target
        self.passage = passage
        self.handshake = handshake
        self.drain: Drain | None = None
        self.culprit: Frame | None = None
        self._share = share
        self._follow_up = follow_up
        self._observe = observe
        self._note = note
        self._show = show
        self._room: trio.Event | None = None
        self._resumed: trio.Event | None = None

    async def run(self) -> DirectionEnding:
        """Pass frames on until there are no more.

        `TransportBroken` when the source is gone. `ProtocolError` when it sent what it may not, `InterceptorFault` when
        what has waited cannot go on: what came before that has then been passed on.
        """
        try:
            return await self._run()
        except TargetBroken:
            return DirectionEnding.TARGET_GONE

    async def _run(self) -> DirectionEnding:
        source, target = self.source, self.target
        reader = source.reader
        observe, brake = self._observe, self._brake
        turn = source.turn
        handshake = self.handshake
        held = 0
        data = await (self._receive() if handshake is None else handshake.receive())
        while data:
            while self._resumed is not None:
                await self._resumed.wait()
            if brake.is_on:
                await brake.wait(self._number)
            began = time.perf_counter()
            if reader.is_paused:
                frames = reader.resume()
            else:
                received = began
                frames = reader.feed(data)
            output, error = self._pass_on(frames, began)
            if reader.is_paused and error is None:
                frames, output, error = self._pass_on_more(frames, output, began)
            decided = time.perf_counter()
            try:
                await target.transport.send(output)
            except TransportBroken:
                return DirectionEnding.TARGET_GONE
            if not self.passage.relays_unseen:
                await self._answer()
            if error is not None:
                self.culprit = culprit_of(frames, error)
                raise error
            if self.drain is not None and self.drain.is_leaving and await self.drain.is_answered():
                return DirectionEnding.ANSWERED
            if reader.held_size != held:
                self._count_held(held)
                held = reader.held_size
            now = time.perf_counter()
            observe(now - received)
            if turn.is_over(began, decided, now):
                await turn.next()
            if reader.is_paused:
                continue
            if handshake is not None and handshake.is_over:
                handshake = self.handshake = None
            data = await (self._receive() if handshake is None else handshake.receive())
        return DirectionEnding.PARKED if data is None else DirectionEnding.EOF

    def _receive(self) -> Awaitable[bytes | None]:
        if self._ownership is None:
            return self.source.transport.receive()
        return self._ownership.receive(self.source.peer)

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

    def make_room(self) -> None:
        """Read again from the source, if that stopped since too much waited and there is room now."""
        if self._room is not None and not self.passage.is_full(self.source.peer):
            self._room.set()
            self._room = None

    def _pass_on(
        self, frames: list[Frame], now: float
    ) -> tuple[bytes | memoryview, ProtocolError | InterceptorFault | None]:
        """What is to be sent on of what was read with these frames at a time, and what is wrong after it."""
        passage, reader = self.passage, self.source.reader
        if not frames and passage.relays_unseen:
            output: bytes | memoryview = reader.taken
            error: ProtocolError | InterceptorFault | None = reader.error
            if passage.is_tapped and output:
                self._show(self.source.peer, FrameChunk(output, reader.taken_from, reader.taken_frames))
        else:
            output, error = self._take(frames)
        is_client = self.source.peer is CLIENT
        self._note(not is_client, reader.taken if is_client else output, now)
        return output, error

    def _take(self, frames: list[Frame]) -> tuple[bytes | memoryview, ProtocolError | InterceptorFault | None]:
        """The same, where there is something to be decided."""
        passage, reader = self.passage, self.source.reader
        error: ProtocolError | InterceptorFault | None = reader.error
        try:
            passage.take(self.source.peer, frames, trio.current_time())
        except ProtocolError as found:
            error = found
        self._follow_up()
        return passage.take_output(self.target.peer), passage.refusal or error or passage.fault

    def _pass_on_more(
        self, frames: list[Frame], output: bytes | memoryview, began: float
    ) -> tuple[list[Frame], bytes | memoryview, ProtocolError | InterceptorFault | None]:
        """Continue with a reader that is paused, for a quantum, so that what it read is sent on in one piece: the
        frames looked at last, all that is to be sent on, and what is wrong after it.

        It ends where something has to be done about the peers first.
        """
        reader = self.source.reader
        error: ProtocolError | InterceptorFault | None = None
        gathered = [output]
        end = began + self.source.turn.quantum
        while reader.is_paused and error is None and time.perf_counter() < end:
            if (self.drain is not None and self.drain.is_leaving) or self.passage.is_full(self.source.peer):
                break
            frames = reader.resume()
            output, error = self._pass_on(frames, began)
            gathered.append(output)
        return frames, b"".join(gathered), error

    async def _answer(self) -> None:
        """Send queued replies to the source; and wait while too much of what it sent waits."""
        source = self.source
        replies = self.passage.take_output(source.peer)
        if replies:
            if source.peer is CLIENT:
                self._note(True, replies, time.perf_counter())
            with suppress(TransportBroken):  # its own direction reports what happened
                await source.transport.send(replies)
        while self.passage.is_full(source.peer):
            self._room = trio.Event()
            await self._room.wait()

    def _count_held(self, before: int) -> None:
        """Count the bytes of a frame that is not whole yet, of which `before` are counted already.

        `ResourceError` when there is no room for them, unless the frame is of a size that every peer must take.
        """
        size = self.source.reader.held_size
        self._share.add(size - before)
        if size > FRAME_MIN_SIZE and self._share.is_over:
            raise ResourceError("there is no memory now for the rest of a frame")
