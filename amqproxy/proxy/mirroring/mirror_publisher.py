"""Publisher of copies to a broker on a separate connection, for which no client's publish waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import NamedTuple

import trio

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, OVERHEAD, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionStartOk,
)
from amqproxy.amqp091.transitions import CLIENT, ConnectionState
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained, describe
from amqproxy.proxy.broker_login import LOST, check_close, open_connection, receive_methods, send_close
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.proxy.mirroring.mirror_drops import DropReason, MirrorDrops
from amqproxy.proxy.upstream import Unreachable
from amqproxy.sockets.transport import Transport, TransportBroken

BATCH = 256
"""Maximum of copies combined in one write."""

BATCH_SIZE = 256 * 1024
"""Bytes combined in one write; a larger copy is written in pieces of that size."""

HANDSHAKE_TIMEOUT = 10.0
SEND_TIMEOUT = 30.0
"""Seconds that the broker may take to read one write."""

IDLE_TIMEOUT = 60.0
"""Seconds without a copy after which the connection is closed."""

CLOSE_TIMEOUT = 1.0
"""Seconds for the broker to answer connection.close."""

FIRST_PAUSE, LAST_PAUSE = 0.5, 30.0
"""Seconds before reconnecting: doubled after each failure, up to the second value."""

CHANNEL = 1

COPY_COST = 512
"""Approximate overhead of a queued copy, in bytes."""


class MirrorLogin(NamedTuple):
    """A mirror's login at its broker: its connection.start-ok, and the virtual host that it opens.

    `upstream` is the address of the client's own broker.
    """

    start: ConnectionStartOk
    vhost: str
    upstream: str = ""


class EncodedPublish(NamedTuple):
    """An encoded publish: the frames of its method and header, and its body, which is still to be split."""

    method: bytes
    header: bytes
    body: bytes

    @property
    def cost(self) -> int:
        return COPY_COST + len(self.method) + len(self.header) + len(self.body)

    def pieces(self, frame_max: int) -> Iterator[bytes]:
        """Yield the encoded bytes in pieces of at most one frame, or `BATCH_SIZE`; always in whole frames."""
        yield self.method + self.header
        step = frame_max - OVERHEAD if frame_max else BATCH_SIZE
        for start in range(0, len(self.body), step):
            yield encode_frame(BODY, CHANNEL, self.body[start : start + step])


class MirrorPublisher:
    """Publisher of queued copies for one login; copies that it has to drop are counted in `drops`, for `upstream`.

    It connects when a copy is queued, and again after the connection is lost. Once it `is_retired`, after an idle time
    or a stop, it accepts no more copies. At most `backlog` copies are queued, and no more bytes than its share of
    `memory`.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[Transport]],
        login: MirrorLogin,
        backlog: int,
        memory: MemoryBudget,
        drops: MirrorDrops,
        upstream: str | None = None,
    ) -> None:
        self.is_retired = False
        self.used_at = trio.current_time()
        """Time of the last copy."""
        self._dial = dial
        self._login = login
        self._backlog = backlog
        self._share = MemoryShare(memory)
        self._drops = drops
        self._upstream = upstream
        self._waiting: deque[EncodedPublish] = deque()
        self._something = trio.Event()
        self._lock = trio.Lock()
        self._scope = trio.CancelScope()
        self._was_open = False

    @property
    def is_idle(self) -> bool:
        """Whether no copy is queued."""
        return not self._waiting

    def put(self, command: Command) -> None:
        """Queue a copy of a publish, or drop it if too many are queued or it cannot be encoded."""
        self.used_at = trio.current_time()
        if len(self._waiting) >= self._backlog:
            self._drop(DropReason.BACKLOG, f"{self._backlog} copies are waiting (limits.mirror_backlog)")
            return
        try:
            copy = _encoded(command)
        except Exception as error:  # noqa: BLE001 - rules may have put anything into it
            self._drop(DropReason.INVALID, f"cannot be encoded: {error}")
            return
        if not self._share.has_room(copy.cost):
            self._drop(DropReason.MEMORY, "too many bytes are waiting (limits.mirror_memory)")
            return
        self._share.add(copy.cost)
        self._waiting.append(copy)
        self._something.set()

    @property
    def waiting(self) -> int:
        """Number of queued copies."""
        return len(self._waiting)

    def retire(self) -> None:
        """Accept no more copies, and close the connection cleanly."""
        self.is_retired = True
        self._scope.cancel()

    async def run(self) -> None:
        """Send copies until retired or cancelled."""
        try:
            with self._scope:
                await self._send_all()
        finally:
            self._forget_waiting()

    async def _send_all(self) -> None:
        pause = FIRST_PAUSE
        while await self._has_something():
            reason = await self._serve_once()
            if not reason:
                return
            lost = self._forget_waiting()
            self._something = trio.Event()
            self._drops.count(DropReason.CONNECTION, lost)
            if self._was_open:
                pause = FIRST_PAUSE
            logger().warning("copies not sent", upstream=self._upstream, dropped=lost, reason=reason, pause=pause)
            await trio.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE)

    async def _serve_once(self) -> str:
        """Serve one connection, containing failures; return why it was lost, or "" once retired."""
        reasons: list[str] = []
        with contained("mirror failed", upstream=self._upstream, then=lambda error: reasons.append(describe(error))):
            reasons.append(await self._serve())
        return reasons[0]

    async def _has_something(self) -> bool:
        """Wait for a copy; retire and return false if none comes within `IDLE_TIMEOUT`."""
        with trio.move_on_after(IDLE_TIMEOUT):
            await self._something.wait()
        self.is_retired = self.is_retired or not self._something.is_set()
        return not self.is_retired

    def _forget_waiting(self) -> int:
        """Drop all queued copies, and return their number."""
        lost = len(self._waiting)
        self._waiting.clear()
        self._share.clear()
        return lost

    def _drop(self, reason: DropReason, detail: str) -> None:
        self._drops.add(self._upstream, reason, detail)

    async def _serve(self) -> str:
        """Serve one connection from its first byte to its last; return why it was lost, or "" once retired."""
        self._was_open = False
        try:
            transport = await self._dial()
        except Unreachable as error:
            return str(error)
        connection = Connection()
        reasons: list[str] = []
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT):
                await self._open(transport, connection)
            self._was_open = True
            async with trio.open_nursery() as nursery:

                async def attempt(do: Callable[[Transport, Connection], Awaitable[None]]) -> None:
                    try:
                        await do(transport, connection)
                    except LOST as error:
                        reasons.append(str(error))
                    nursery.cancel_scope.cancel()

                nursery.start_soon(attempt, self._send)
                nursery.start_soon(attempt, self._listen)
        except LOST as error:
            reasons.append(str(error) or "no answer")
        finally:
            with trio.CancelScope(shield=True):
                if self.is_retired:
                    await send_close(transport, connection, "nothing to send", CLOSE_TIMEOUT)
                await transport.aclose()
        return reasons[0] if reasons else ""

    async def _open(self, transport: Transport, connection: Connection) -> None:
        await open_connection(transport, connection, self._login.start, self._login.vhost)
        await transport.send(connection.send(CLIENT, CHANNEL, ChannelOpen()))
        while connection.channels[CHANNEL].state != "open":
            for method in await receive_methods(transport, connection):
                check_close(method)

    async def _send(self, transport: Transport, connection: Connection) -> None:
        """Send queued copies, and heartbeats in between; retire after `IDLE_TIMEOUT` without a copy."""
        interval = connection.heartbeat / 2 or float("inf")
        while True:
            idle_at = self.used_at + IDLE_TIMEOUT
            with trio.move_on_at(min(trio.current_time() + interval, idle_at)) as silence:
                await self._something.wait()
            if silence.cancelled_caught:
                if trio.current_time() >= self.used_at + IDLE_TIMEOUT:
                    self.is_retired = True
                    return
                await _write(transport, HEARTBEAT_FRAME)
                continue
            while self._waiting and CHANNEL in connection.channels:
                async with self._lock:
                    await self._send_batch(transport, connection)
            self._something = trio.Event()

    async def _send_batch(self, transport: Transport, connection: Connection) -> None:
        """Send the oldest copies, in writes of about `BATCH_SIZE`."""
        frame_max = connection.frame_max
        pieces: list[bytes] = []
        size = count = 0
        for copy in list(islice(self._waiting, BATCH)):
            if size >= BATCH_SIZE:
                break
            count += 1
            if frame_max and max(len(copy.method), len(copy.header)) > frame_max:
                self._drop(DropReason.INVALID, f"its header does not fit a frame of {frame_max} bytes")
                continue
            for piece in copy.pieces(frame_max):
                if size >= BATCH_SIZE:
                    await _write(transport, b"".join(pieces))
                    pieces, size = [], 0
                pieces.append(piece)
                size += len(piece)
        await _write(transport, b"".join(pieces))
        for _ in range(count):  # only after the writes, so that unsent copies are counted as dropped
            self._share.remove(self._waiting.popleft().cost)

    async def _listen(self, transport: Transport, connection: Connection) -> None:
        """Read from the broker; if it closes the channel, as for a missing exchange, open the channel again."""
        while connection.state is ConnectionState.OPEN:
            for method in await receive_methods(transport, connection):
                if isinstance(method, ConnectionClose):
                    await _write(transport, connection.send(CLIENT, 0, ConnectionCloseOk()))
                check_close(method)
                if isinstance(method, ChannelClose):
                    self._drop(DropReason.REJECTED, f"{method.reply_code} {method.reply_text}")
                    async with self._lock:  # not between the frames of a copy
                        await _write(transport, connection.send(CLIENT, CHANNEL, ChannelCloseOk()))
                        await _write(transport, connection.send(CLIENT, CHANNEL, ChannelOpen()))
                    self._something.set()  # resumes copies that were queued while there was no channel


def _encoded(command: Command) -> EncodedPublish:
    """Encode a publish for the publisher's own channel; errors of the encoding propagate."""
    copy = Command(CHANNEL, command.method, command.properties, command.body)
    header = copy.header
    assert header is not None
    return EncodedPublish(
        encode_method(CHANNEL, copy.method), encode_frame(HEADER, CHANNEL, header.encode()), copy.body
    )


async def _write(transport: Transport, data: bytes) -> None:
    """Send `data`; raises `TransportBroken` if the broker does not read it in time."""
    with trio.move_on_after(SEND_TIMEOUT) as patience:
        await transport.send(data)
    if patience.cancelled_caught:
        raise TransportBroken(f"the broker has read nothing for {SEND_TIMEOUT:g} s")
