"""A transport with stream faults on the bytes sent to a peer: delayed, throttled, split, or cut off."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import trio

from amqproxy.rules.faults.delay_line import DelayLine, DirectionEnd, SendNow, WaitUntil
from amqproxy.rules.verdict import Impairment
from amqproxy.sockets.tls_socket import TlsSocket
from amqproxy.sockets.transport import Address, Transport, TransportBroken

MOST_HELD = 1024 * 1024
"""Maximum of bytes in transit; a sender of more waits, which slows its own source."""


class EndedByFault(TransportBroken):
    """A fault rule has ended the connection."""


class FaultyTransport:
    """A `Transport` wrapped around another one, and transparent as long as no impairment applies.

    It replaces the other one at the first impairment, and stays. `run` carries delayed bytes: without it, `send` and
    `send_eof` themselves wait for the bytes that they have put in transit, and no fault ends the connection in between.
    Received bytes are not affected: they are impaired on the other leg, where they are sent.
    """

    def __init__(self, transport: Transport, random: Callable[[], float]) -> None:
        self.inner = transport
        self._line = DelayLine(random)
        self._is_running = False
        self._failure: str | None = None
        self.ended: EndedByFault | None = None
        self._ends_at: float | None = None
        self._stirred = trio.Event()
        self._moved = trio.Event()
        self._turn = trio.Lock()

    @property
    def received(self) -> int:
        return self.inner.received

    @property
    def tls(self) -> TlsSocket | None:
        return self.inner.tls

    @property
    def is_listening(self) -> bool:
        return self.inner.is_listening

    def has_hung_up(self) -> bool:
        return self.inner.has_hung_up()

    def ends(self) -> tuple[Address, Address] | None:
        return self.inner.ends()

    @property
    def is_sending(self) -> bool:
        return self.inner.is_sending

    @property
    def progress(self) -> int:
        return self.inner.progress

    def impair(self, impairment: Impairment) -> None:
        """Apply an impairment to all bytes sent from this moment."""
        self._line.impair(impairment, trio.current_time())
        self._stirred.set()

    def lift(self, kept: Container[str]) -> None:
        """End the impairments of all rules except those named in `kept`."""
        self._line.lift(kept)
        self._stirred.set()

    async def run(self) -> None:
        """Carry bytes, and end the connection if a fault demands it, until it has ended or this is cancelled."""
        self._is_running = True
        try:
            while self._failure is None:
                await self._step()
        finally:
            self._is_running = False
            self._wake_waiting()

    # --- `Transport` interface

    async def receive(self) -> bytes:
        try:
            return await self.inner.receive()
        except TransportBroken as error:
            raise cause_of_end(self, error) from None

    async def send(self, data: bytes | memoryview) -> None:
        if self._line.is_idle and not self._turn.locked():
            await self.inner.send(data)
            return
        async with self._turn:  # keeps the order of senders that wait for room
            await self._wait_while(lambda: self._line.held >= MOST_HELD)
            self._line.put(bytes(data), trio.current_time())
        self._stirred.set()
        if not self._is_running:
            await self._wait_while(lambda: self._line.held > 0)

    def send_now(self, data: bytes | memoryview) -> int:
        return self.inner.send_now(data) if self._line.is_idle else 0

    def send_pieces_now(self, pieces: Sequence[bytes | memoryview]) -> int:
        return self.inner.send_pieces_now(pieces) if self._line.is_idle else 0

    async def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        if self._line.is_idle:
            return await self.inner.send_some(pieces)
        await self.send(pieces[0])
        return len(pieces[0])

    async def send_eof(self) -> None:
        await self._wait_while(lambda: self._line.held > 0)
        await self.linger()
        await self.inner.send_eof()

    async def linger(self) -> None:
        """Delay the end of the connection if a fault demands it; to be cancelled by callers that cannot wait.

        The first call starts the delay; a later one waits for the rest of it.
        """
        if self._ends_at is None:
            self._ends_at = trio.current_time() + self._line.linger
        await trio.sleep_until(self._ends_at)

    async def aclose(self) -> None:
        self._fail("closed here")
        await self.inner.aclose()

    async def reset(self) -> None:
        self._fail("reset here")
        await self.inner.reset()

    # --- bytes in transit

    async def _wait_while(self, holds: Callable[[], bool]) -> None:
        """Wait for bytes to move, or move them, as long as a condition holds. `TransportBroken` if the peer is gone."""
        while self._failure is None and holds():
            if self._is_running:
                await self._moved.wait()
            else:
                await self._step()
        if self._failure is not None:
            raise TransportBroken(self._failure)

    async def _step(self) -> None:
        """Carry out the next step of the delay line, or wait until one is due."""
        match self._line.move(trio.current_time()):
            case SendNow(data):
                try:
                    await self.inner.send(data)
                except TransportBroken as error:
                    self._fail(str(error))
            case DirectionEnd.HALF_CLOSE:
                try:
                    await self.inner.send_eof()
                except TransportBroken as error:
                    self._fail(str(error))
            case DirectionEnd.CLOSE:
                self._end("was closed by a fault rule")
                await self.aclose()
            case DirectionEnd.RESET:
                self._end("was reset by a fault rule")
                await self.reset()
            case WaitUntil(until):
                self._stirred = trio.Event()
                with trio.move_on_at(until):
                    await self._stirred.wait()
        self._wake_waiting()

    def _end(self, reason: str) -> None:
        self.ended = EndedByFault(reason)
        self._fail(reason)

    def _fail(self, reason: str) -> None:
        """Record that no more bytes can be sent, and wake all waiting tasks."""
        if self._failure is None:
            self._failure = reason
        self._stirred.set()
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        self._moved.set()
        self._moved = trio.Event()


def cause_of_end(transport: Transport, error: TransportBroken) -> TransportBroken:
    """Return the reason why a transport broke: the rule that ended it, if one did.

    A receive that began before the first impairment waits on the wrapped transport, which knows nothing of rules.
    """
    ended = transport.ended if isinstance(transport, FaultyTransport) else None
    return error if ended is None else ended
