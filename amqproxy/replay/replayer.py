"""Replay of a capture against a broker: the sockets and the clock around `ReplayCopy`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial

import trio

from amqproxy.replay.broker_link import NEVER, Life, Watch
from amqproxy.replay.player import Player
from amqproxy.replay.replay_copy import PlaySettings, ReplayCopy, size_of
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.steps import Step
from amqproxy.sockets.transport import Transport, TransportBroken

BATCH, BATCH_BYTES = 256, 1024 * 1024
"""Steps per read of a capture, and their bytes."""

CLOSE_TIMEOUT = 1.0
"""Seconds that the broker has at the end to answer connection.close, or to close its half of the socket."""

Dial = Callable[[], Awaitable[Transport]]


def _next_batch(steps: Iterator[Step]) -> list[Step]:
    """Read the next batch of steps; empty at the end."""
    batch: list[Step] = []
    size = 0
    while len(batch) < BATCH and size < BATCH_BYTES:
        step = next(steps, None)
        if step is None:
            break
        batch.append(step)
        size += size_of(step)
    return batch


class DialFailed(Exception):
    """The broker cannot be reached."""


class Replayer:
    """Player of a capture's steps with all copies at once."""

    def __init__(
        self,
        settings: PlaySettings,
        dial: Dial,
        result: ReplayResult,
        *,
        clients: int = 1,
        suffix: str = "",
        watch: Watch | None = None,
    ) -> None:
        """Play `clients` copies; names get the `suffix`, and a number with several copies; `watch` sees all bytes."""
        self._settings = settings
        self._dial = dial
        self._result = result
        self._clients = clients
        self._suffix = suffix
        self._watch = watch
        self._copies: list[ReplayCopy] = []
        self._due: list[float] = []
        """Time at which each copy has to advance; 0 for at once."""
        self._events: dict[Player, trio.Event] = {}
        self._kick = trio.Event()
        self._room = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._tasks = 0
        self._has_connected = False
        self._failure: Exception | None = None

    async def play(self, steps: Iterator[Step]) -> None:
        """Play all steps, and report to the result, also when cancelled.

        `DialFailed` if not even one connection could be opened; exceptions of `steps` are raised, too.
        """
        begin = trio.current_time()
        for number in range(self._clients):
            suffix = self._suffix + (f".{number + 1}" if self._clients > 1 else "")
            wake = partial(self._wake, number)
            self._copies.append(ReplayCopy(self._settings, self._result, begin, suffix, wake=wake, watch=self._watch))
            self._due.append(0.0)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._read_ahead, steps)
                await self._play()
                await self._finish()
                nursery.cancel_scope.cancel()
        finally:
            if not isinstance(self._failure, DialFailed):
                for copy in self._copies:
                    copy.report_rest()
        if self._failure is not None:
            raise self._failure

    async def _finish(self) -> None:
        """Close all open connections, and give the broker `CLOSE_TIMEOUT` to answer."""
        for copy in self._copies:
            copy.finish(trio.current_time())
        with trio.move_on_after(CLOSE_TIMEOUT):
            while self._tasks:
                self._kick = trio.Event()
                await self._kick.wait()

    def _is_done(self) -> bool:
        return all(copy.is_done for copy in self._copies)

    async def _play(self) -> None:
        """Play the steps as they are read."""
        while not self._is_done():
            self._kick = trio.Event()
            until = self._advance()
            if all(copy.is_hungry for copy in self._copies):
                self._room.set()
            if not self._is_done():
                with trio.move_on_at(until):
                    await self._kick.wait()

    async def _read_ahead(self, steps: Iterator[Step]) -> None:
        """Read the steps in a thread, as far ahead as the slowest copy allows."""
        try:
            batch: list[Step] | None = None
            while batch is None or batch:
                while not all(copy.is_hungry for copy in self._copies):
                    self._room = trio.Event()
                    await self._room.wait()
                batch = await trio.to_thread.run_sync(_next_batch, steps, abandon_on_cancel=True)
                for copy in self._copies:
                    copy.extend(batch)
                    if not batch:
                        copy.end()
                for number in range(len(self._copies)):
                    self._stir(number)
        except Exception as error:  # noqa: BLE001 - raised by `play`, where no nursery makes a group of it
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Give up the replay for an error."""
        self._failure = self._failure or error
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()

    def _stir(self, number: int) -> None:
        """Advance a copy that has received something, as soon as possible."""
        self._due[number] = 0.0
        self._kick.set()

    def _advance(self) -> float:
        """Advance the copies that are due; return when to do that again."""
        now = trio.current_time()
        for number, copy in enumerate(self._copies):
            if self._due[number] <= now:
                self._due[number] = copy.advance(now)
        return min(self._due)

    def _wake(self, number: int, player: Player) -> None:
        """Wake the socket of a player, or connect it if it must dial."""
        event = self._events.get(player)
        if event is not None:
            event.set()
        elif player.must_dial and self._nursery is not None:
            player.must_dial = False
            self._events[player] = trio.Event()
            self._tasks += 1
            self._nursery.start_soon(self._connect, number, player)

    async def _connect(self, number: int, player: Player) -> None:
        try:
            try:
                transport = await self._dial()
            except DialFailed as error:
                if not self._has_connected:
                    self._fail(error)
                else:
                    player.failed(str(error), trio.current_time())
                return
            self._has_connected = True
            player.connected(trio.current_time())
            self._stir(number)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, number, player, transport, nursery.cancel_scope)
                    nursery.start_soon(self._beat, player)
                    await self._read(number, player, transport)
                    if player.life is Life.ENDED and not player.outbox:
                        nursery.cancel_scope.cancel()
            finally:
                with trio.CancelScope(shield=True):
                    await (transport.reset() if player.ending == "reset" else transport.aclose())
        finally:
            self._events.pop(player, None)
            self._tasks -= 1
            player.has_socket = False
            self._copies[number].release(player)
            self._stir(number)

    async def _read(self, number: int, player: Player, transport: Transport) -> None:
        reason = ""
        try:
            while data := await transport.receive():
                player.receive(data, trio.current_time())
                self._stir(number)
        except TransportBroken as error:
            reason = f"the connection broke: {error}"
        player.receive_end(reason, trio.current_time())
        self._events[player].set()
        self._stir(number)

    async def _write(self, number: int, player: Player, transport: Transport, scope: trio.CancelScope) -> None:
        with suppress(TransportBroken):
            while True:
                if player.outbox:
                    data = bytes(player.outbox)
                    player.outbox.clear()
                    await transport.send(data)
                    self._stir(number)
                    continue
                if player.ending or player.life is Life.ENDED:
                    break
                event = self._events[player] = trio.Event()
                await event.wait()
            if player.ending == "close":
                await transport.send_eof()
                await trio.sleep(CLOSE_TIMEOUT)  # `_read` still reads: with unread bytes, closing would send a reset
        scope.cancel()

    async def _beat(self, player: Player) -> None:
        while True:
            until = player.tick(trio.current_time())
            await trio.sleep_until(min(until, trio.current_time() + 1.0) if until is NEVER else until)
