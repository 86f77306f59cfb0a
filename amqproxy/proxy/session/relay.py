"""One direction of a session: reads from one leg, feeds its dialect's `Direction`, and sends to the other leg."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Protocol

import trio

from amqproxy.amqp091.errors import ResourceError
from amqproxy.amqp091.frame import FRAME_MIN_SIZE
from amqproxy.peer import CLIENT
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.proxy.session.farewell import Farewell
from amqproxy.proxy.session.ownership import Ownership, TargetBroken
from amqproxy.proxy.session.passage import Passage
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.proxy.turns import LONG, QUANTUM
from amqproxy.sockets.transport import SocketTransport, TransportBroken

_RELEASED = TapBrake()


class DirectionEnding(Enum):
    """Ways in which one direction ends."""

    EOF = auto()
    """The source has closed its half."""
    TARGET_GONE = auto()
    """The target accepts no more data. Its last frames may still arrive in the other direction."""
    ANSWERED = auto()
    """The client has answered the close that ended its drain."""
    PARKED = auto()
    """A pump has the connection, and the session runs no relays meanwhile."""


class Pacing(Protocol):
    """A receiver used in place of the transport while a peer sends ahead of replies that it has to wait for."""

    @property
    def is_over(self) -> bool:
        """Whether pacing has ended: the relay may receive from the transport again."""

    async def receive(self) -> bytes:
        """Receive bytes that may be relayed; b"" at the end. Raises `TransportBroken` when the peer is gone."""


class Direction(Protocol):
    """Sans-IO parser of one peer's bytes, which passes the frames to the session's passage.

    `error` is the error in the last bytes, behind those that have passed. `drain` is set once the session drains.
    """

    passage: Any
    pacing: Pacing | None
    drain: Farewell | None

    @property
    def error(self) -> Exception | None: ...

    @property
    def has_more(self) -> bool:
        """Whether bytes are buffered that were not taken: `take` with b"" continues with them."""

    @property
    def held_size(self) -> int:
        """Bytes of the incomplete frame at the end."""

    @property
    def is_steady(self) -> bool:
        """Whether only whole frames are relayed, at a position from which a pump could continue."""

    @property
    def rest(self) -> bytes:
        """Bytes of an incomplete frame, which were not forwarded."""

    def take(self, data: bytes) -> bytes | memoryview | None:
        """Take the next bytes; return those that bypass the passage, or `None` if the passage has taken frames."""

    def finish(self, output: bytes | memoryview, began: float) -> bytes | memoryview:
        """Return the bytes to forward, given the `output` of the passage; `began` is the start of the turn."""

    def take_unfed(self) -> bytes:
        """Return the buffered bytes that the leg's reader has not been fed; they are not forwarded."""

    def recover(self, failure: Exception) -> bytes | memoryview | None:
        """Return the bytes to forward after the passage has failed; `None` if they must not pass unread."""

    def resume_after_pump(self) -> None:
        """Resynchronise after a pump has returned the connection."""


class Relay:
    """Relay of one direction, from `source` to `target`, through its `direction`.

    `follow_up` is called whenever the passage has taken frames, to apply all effects except sending. `observe` takes
    the seconds from receiving a chunk to having sent it; `measure` takes the replies that the client is sent.
    The bytes of an incomplete frame are charged to `share`. While the relay is paused, or a `brake` holds the session
    of this `number`, nothing is read, and chunks that were read are not processed. With an `ownership`, a pump may
    relay in its place for a while.
    """

    __slots__ = (
        "_brake",
        "_follow_up",
        "_measure",
        "_number",
        "_observe",
        "_ownership",
        "_resumed",
        "_room",
        "_share",
        "before_chunk",
        "direction",
        "source",
        "target",
    )

    def __init__(
        self,
        source: Leg[Any],
        target: Leg[Any],
        direction: Direction,
        share: MemoryShare,
        follow_up: Callable[[], None],
        observe: Callable[[float], None],
        measure: Callable[[bool, bytes | memoryview, float], None] = lambda is_server, data, now: None,
        brake: TapBrake | None = None,
        number: int = 0,
        ownership: Ownership | None = None,
    ) -> None:
        self._ownership = ownership
        self._brake = brake or _RELEASED
        self._number = number
        self.source = source
        self.target = target
        self.direction = direction
        self._share = share
        self._follow_up = follow_up
        self._observe = observe
        self.before_chunk: Callable[[], Awaitable[bool]] | None = None
        """Called before each chunk is processed; again if it has waited, since the relay may be paused meanwhile."""
        self._measure = measure
        self._room: trio.Event | None = None
        self._resumed: trio.Event | None = None

    @property
    def passage(self) -> Passage:
        """The passage, which may be replaced between two chunks."""
        found: Passage = self.direction.passage
        return found

    @passage.setter
    def passage(self, passage: Passage) -> None:
        self.direction.passage = passage

    async def run(self, received: bytes = b"") -> DirectionEnding:
        """Relay the `received` bytes and everything that follows, until the direction ends.

        Raises `TransportBroken` when the source is gone, `ProtocolError` when it violated the protocol, and
        `InterceptorFault` when a delayed command failed: all earlier frames have been forwarded by then.
        """
        try:
            return await self._run(received)
        except TargetBroken:
            return DirectionEnding.TARGET_GONE

    async def _run(self, received: bytes) -> DirectionEnding:
        target, direction = self.target, self.direction
        observe, brake = self._observe, self._brake
        pacing = direction.pacing
        turn = self.source.turn
        held = 0
        data = received or await (self._receive() if pacing is None else pacing.receive())
        while data:
            while True:
                while self._resumed is not None:
                    await self._resumed.wait()
                if brake.is_on:
                    await brake.wait(self._number)
                if self.before_chunk is None or not await self.before_chunk():
                    break
            began = time.perf_counter()
            if direction.has_more:
                output, error = self._pass_on(b"", began)
            else:
                arrived = began
                output, error = self._pass_on(data, began)
            if direction.has_more and error is None:
                output, error = self._pass_on_more(output, began)
            decided = time.perf_counter()
            try:
                await target.transport.send(output)
            except TransportBroken:
                return DirectionEnding.TARGET_GONE
            if not direction.passage.relays_unseen:
                await self._answer(error)
            if error is not None:
                raise error
            drain = direction.drain
            if drain is not None and drain.is_leaving and await drain.is_answered():
                return DirectionEnding.ANSWERED
            if direction.held_size != held:
                self._count_held(held)
                held = direction.held_size
            now = time.perf_counter()
            observe(now - arrived)
            if turn.is_over(began, decided, now):
                self._adapt_reads(decided - began)
                await turn.next()
            if direction.has_more:
                continue
            if pacing is not None and pacing.is_over:
                pacing = direction.pacing = None
            data = await (self._receive() if pacing is None else pacing.receive())
        return DirectionEnding.PARKED if data is None else DirectionEnding.EOF

    def _adapt_reads(self, seconds: float) -> None:
        """Receive less at a time if processing a chunk takes long, as decoding all its frames for a filter does."""
        transport = self.source.transport
        if isinstance(transport, SocketTransport):
            if seconds > LONG:
                transport.read_less()
            elif seconds < QUANTUM:
                transport.read_more()

    def _receive(self) -> Awaitable[bytes | None]:
        if self._ownership is None:
            return self.source.transport.receive()
        return self._receive_owned(self._ownership)

    async def _receive_owned(self, ownership: Ownership) -> bytes | None:
        data = await ownership.receive(self.source.peer)
        self.direction.resume_after_pump()
        return data

    def own_by(self, ownership: Ownership | None) -> None:
        """Share the direction with a pump, from the next chunk on."""
        self._ownership = ownership

    @property
    def is_paused(self) -> bool:
        return self._resumed is not None

    @property
    def is_unread(self) -> bool:
        """Whether reading from the source is deliberately suspended."""
        return self._resumed is not None or self._room is not None or self._brake.holds(self._number)

    @property
    def is_steady(self) -> bool:
        """Whether whole frames are read and forwarded without anything else to do."""
        return self.direction.is_steady and not self.is_unread and not self._brake.is_on

    def pause(self) -> None:
        """Stop processing the source's bytes, from the next chunk on."""
        if self._resumed is None:
            self._resumed = trio.Event()

    def resume(self) -> None:
        """Continue with the source, if it was paused."""
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    def make_room(self) -> None:
        """Resume reading from the source if its queued bytes no longer exceed the limit."""
        if self._room is not None and not self.passage.is_full(self.source.peer):
            self._room.set()
            self._room = None

    def _pass_on(self, data: bytes, began: float) -> tuple[bytes | memoryview, Exception | None]:
        """Process one chunk; return the bytes to forward and the error that follows them, if any."""
        direction = self.direction
        try:
            unseen = direction.take(data)
            if unseen is not None:
                return direction.finish(unseen, began), direction.error
            self._follow_up()
            passage = direction.passage
            output = direction.finish(passage.take_output(self.target.peer), began)
            return output, passage.refusal or direction.error or passage.fault
        except Exception as failure:  # a dialect may let bytes pass unread
            unread = direction.recover(failure)
            if unread is None:
                raise
            return unread, None

    def _pass_on_more(self, output: bytes | memoryview, began: float) -> tuple[bytes | memoryview, Exception | None]:
        """Process more of the buffered bytes for one turn, so that they are sent in one piece.

        It stops where something has to be sent or done before the next frame: a drain's close, or a full queue.
        """
        direction = self.direction
        error: Exception | None = None
        gathered = [output]
        end = began + self.source.turn.quantum
        while direction.has_more and error is None and time.perf_counter() < end:
            drain = direction.drain
            if (drain is not None and drain.is_leaving) or direction.passage.is_full(self.source.peer):
                break
            output, error = self._pass_on(b"", began)
            gathered.append(output)
        return b"".join(gathered), error

    async def _answer(self, error: Exception | None) -> None:
        """Send queued replies to the source, then wait while too many of its bytes are queued, unless it has erred."""
        source = self.source
        replies = self.passage.take_output(source.peer)
        if replies:
            if source.peer is CLIENT:
                self._measure(True, replies, time.perf_counter())
            with suppress(TransportBroken):  # the relay of the other direction reports the failure
                await source.transport.send(replies)
        while error is None and self.passage.is_full(source.peer):
            self._room = trio.Event()
            await self._room.wait()

    def _count_held(self, before: int) -> None:
        """Charge the bytes of an incomplete frame to the share, of which `before` are charged already.

        Raises `ResourceError` when the share is exhausted, unless the frame is of a size that every peer must accept.
        """
        size = self.direction.held_size
        self._share.add(size - before)
        if size > FRAME_MIN_SIZE and self._share.is_over:
            raise ResourceError("there is no memory now for the rest of a frame")
