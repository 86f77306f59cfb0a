"""A transport to a peer, with something done to the bytes on their way to it: late, slow, in pieces, or cut off."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import trio

from amqproxy.rules.faults.delay_line import DelayLine, DirectionEnd, SendNow, WaitUntil
from amqproxy.rules.verdict import Impairment
from amqproxy.sockets.transport import Address, Transport, TransportBroken

MOST_HELD = 1024 * 1024
"""Bytes that may be on their way; a sender of more waits, which slows its own source."""


class EndedByFault(TransportBroken):
    """The connection has ended since a fault rule wanted it."""


class FaultyTransport:
    """A `Transport` around another, which it is as long as nothing is done to bytes.

    It is put in the other's place when the first impairment comes, and stays. `run` carries what is late: without it,
    `send` and `send_eof` wait themselves for what they have put on its way, and nothing ends the connection in between.
    What is received is not touched: that is done on the other leg, to whom it goes.
    """

    def __init__(self, transport: Transport, random: Callable[[], float]) -> None:
        self._transport = transport
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
        return self._transport.received

    @property
    def is_listening(self) -> bool:
        return self._transport.is_listening

    def has_hung_up(self) -> bool:
        return self._transport.has_hung_up()

    def ends(self) -> tuple[Address, Address] | None:
        return self._transport.ends()

    @property
    def is_sending(self) -> bool:
        return self._transport.is_sending

    @property
    def progress(self) -> int:
        return self._transport.progress

    def impair(self, impairment: Impairment) -> None:
        """Begin to do this to what is sent from now on."""
        self._line.impair(impairment, trio.current_time())
        self._stirred.set()

    def lift(self, kept: Container[str]) -> None:
        """End what rules do whose names are not among those `kept`."""
        self._line.lift(kept)
        self._stirred.set()

    async def run(self) -> None:
        """Carry bytes on, and end the connection if that is what is done, until it is over or this is cancelled."""
        self._is_running = True
        try:
            while self._failure is None:
                await self._step()
        finally:
            self._is_running = False
            self._wake_waiting()

    # --- as a transport

    async def receive(self) -> bytes:
        try:
            return await self._transport.receive()
        except TransportBroken as error:
            raise cause_of_end(self, error) from None

    async def send(self, data: bytes | memoryview) -> None:
        if self._line.is_idle and not self._turn.locked():
            await self._transport.send(data)
            return
        async with self._turn:  # else those that wait for room would go on in any order
            await self._wait_while(lambda: self._line.held >= MOST_HELD)
            self._line.put(bytes(data), trio.current_time())
        self._stirred.set()
        if not self._is_running:
            await self._wait_while(lambda: self._line.held > 0)

    def send_now(self, data: bytes | memoryview) -> int:
        return self._transport.send_now(data) if self._line.is_idle else 0

    def send_pieces_now(self, pieces: Sequence[bytes | memoryview]) -> int:
        return self._transport.send_pieces_now(pieces) if self._line.is_idle else 0

    async def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        if self._line.is_idle:
            return await self._transport.send_some(pieces)
        await self.send(pieces[0])
        return len(pieces[0])

    async def send_eof(self) -> None:
        await self._wait_while(lambda: self._line.held > 0)
        await self.linger()
        await self._transport.send_eof()

    async def linger(self) -> None:
        """Put off the end of the connection, if that is what is done; to be cancelled by who cannot wait.

        The first call begins it; a later one waits for what is left of it.
        """
        if self._ends_at is None:
            self._ends_at = trio.current_time() + self._line.linger
        await trio.sleep_until(self._ends_at)

    async def aclose(self) -> None:
        self._fail("closed here")
        await self._transport.aclose()

    async def reset(self) -> None:
        self._fail("reset here")
        await self._transport.reset()

    # --- what is on its way

    async def _wait_while(self, holds: Callable[[], bool]) -> None:
        """Let bytes move on, or move them, as long as something holds. `TransportBroken` if the peer is gone."""
        while self._failure is None and holds():
            if self._is_running:
                await self._moved.wait()
            else:
                await self._step()
        if self._failure is not None:
            raise TransportBroken(self._failure)

    async def _step(self) -> None:
        """Do what is to be done next, or wait until there is something to do."""
        match self._line.move(trio.current_time()):
            case SendNow(data):
                try:
                    await self._transport.send(data)
                except TransportBroken as error:
                    self._fail(str(error))
            case DirectionEnd.HALF_CLOSE:
                try:
                    await self._transport.send_eof()
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
        """Nothing more can be sent; what waits is woken."""
        if self._failure is None:
            self._failure = reason
        self._stirred.set()
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        self._moved.set()
        self._moved = trio.Event()


def cause_of_end(transport: Transport, error: TransportBroken) -> TransportBroken:
    """Why a transport broke: the rule that ended it, where there is one.

    A receive that began before the first impairment waits on the transport within, which knows nothing of rules.
    """
    ended = transport.ended if isinstance(transport, FaultyTransport) else None
    return error if ended is None else ended
