"""Publishes copies to a broker on a connection of its own, and never makes anybody wait for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import NamedTuple

import structlog
import trio

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frames import HEARTBEAT_FRAME, METHOD
from amqproxy.amqp091.grammar import CLIENT, SERVER, State
from amqproxy.amqp091.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.proxy.upstream import Unreachable
from amqproxy.sockets.transport import Broken, Transport

BATCH = 256
"""Copies put together for one write."""

HANDSHAKE_TIMEOUT = 10.0
FIRST_PAUSE, LAST_PAUSE = 0.5, 30.0
"""Seconds before the broker is tried again: doubled each time it was in vain, up to the last."""

CHANNEL = 1


class Login(NamedTuple):
    """Who a copyist is to its broker: how it answers connection.start, and the virtual host that it enters."""

    start: ConnectionStartOk
    vhost: str


class Turned(Exception):
    """The broker does not want us, or not any more; the text says what it said."""


class Copyist:
    """Sends what it is given as soon as it can; `dropped` is called with how many it had to drop.

    It connects when there is something to send, and again when the connection is lost.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[Transport]],
        login: Login,
        backlog: int,
        dropped: Callable[[int], None],
    ) -> None:
        self._dial = dial
        self._login = login
        self._backlog = backlog
        self._dropped = dropped
        self._waiting: deque[Command] = deque()
        self._something = trio.Event()
        self._log = structlog.get_logger()

    def put(self, command: Command) -> None:
        """Copy a publish, unless too many wait."""
        if len(self._waiting) >= self._backlog:
            self._dropped(1)
            return
        self._waiting.append(Command(CHANNEL, command.method, command.properties, command.body))
        self._something.set()

    async def run(self) -> None:
        """Send, until cancelled."""
        pause = FIRST_PAUSE
        while True:
            await self._something.wait()
            try:
                await self._serve()
                pause = FIRST_PAUSE
            except (Broken, Unreachable, Turned, ProtocolError, trio.TooSlowError) as error:
                lost = len(self._waiting)
                self._waiting.clear()
                self._something = trio.Event()
                self._dropped(lost)
                self._log.warning("copies not sent", dropped=lost, reason=str(error) or "no answer", pause=pause)
                await trio.sleep(pause)
                pause = min(2 * pause, LAST_PAUSE)

    async def _serve(self) -> None:
        """One connection, from its first octet to its last."""
        transport = await self._dial()
        connection = Connection(tracks_deliveries=False)
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT):
                await self._open(transport, connection)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, transport, connection)
                try:
                    await self._listen(transport, connection)
                finally:
                    nursery.cancel_scope.cancel()
        except* (Broken, Turned, ProtocolError, trio.TooSlowError) as errors:
            raise _first(errors) from None
        finally:
            with trio.CancelScope(shield=True):
                await transport.aclose()

    async def _open(self, transport: Transport, connection: Connection) -> None:
        connection.receive_header(CLIENT, HEADER)
        await transport.send(HEADER)
        start, vhost = self._login
        answers: dict[str, Callable[[Method], tuple[tuple[int, Method], ...]]] = {
            "connection.start": lambda method: ((0, start),),
            "connection.tune": lambda method: ((0, _agreed(method)), (0, ConnectionOpen(vhost))),
            "connection.open-ok": lambda method: ((CHANNEL, ChannelOpen()),),
        }
        while CHANNEL not in connection.channels or connection.channels[CHANNEL].state != "open":
            for method in await _receive(transport, connection):
                _heed_close(method)
                if method.name in answers:
                    for channel, answer in answers[method.name](method):
                        await transport.send(connection.send(CLIENT, channel, answer))

    async def _send(self, transport: Transport, connection: Connection) -> None:
        """Send what waits, and a heartbeat where nothing does."""
        interval = connection.heartbeat / 2 or float("inf")
        while True:
            with trio.move_on_after(interval) as silence:
                await self._something.wait()
            if silence.cancelled_caught:
                await transport.send(HEARTBEAT_FRAME)
                continue
            while self._waiting:
                if CHANNEL not in connection.channels:
                    break
                batch = list(islice(self._waiting, BATCH))
                await transport.send(b"".join([command.encode(connection.frame_max) for command in batch]))
                for _ in batch:  # no sooner, so that they are counted where they could not be sent
                    self._waiting.popleft()
            self._something = trio.Event()

    async def _listen(self, transport: Transport, connection: Connection) -> None:
        """Hear the broker: an exchange that is not there closes the channel, which is then opened again."""
        while connection.state is State.OPEN:
            for method in await _receive(transport, connection):
                if isinstance(method, ConnectionClose):
                    await transport.send(connection.send(CLIENT, 0, ConnectionCloseOk()))
                _heed_close(method)
                if isinstance(method, ChannelClose):
                    self._log.warning("copies not sent", code=method.reply_code, reason=method.reply_text)
                    self._dropped(1)
                    await transport.send(connection.send(CLIENT, CHANNEL, ChannelCloseOk()))
                    await transport.send(connection.send(CLIENT, CHANNEL, ChannelOpen()))
                    self._something.set()  # what came while there was no channel has waited for this one


def _agreed(tune: Method) -> ConnectionTuneOk:
    assert isinstance(tune, ConnectionTune)
    return ConnectionTuneOk(tune.channel_max, tune.frame_max, tune.heartbeat)


async def _receive(transport: Transport, connection: Connection) -> list[Method]:
    """What the broker says next, which may be nothing but heartbeats or contents."""
    data = await transport.receive()
    if not data:
        raise Broken("closed by the broker")
    return [frame.method for frame in connection.feed(SERVER, data) if frame.kind == METHOD]


def _heed_close(method: Method) -> None:
    if isinstance(method, ConnectionClose):
        raise Turned(f"{method.reply_code} {method.reply_text}")


def _first(errors: BaseExceptionGroup) -> BaseException:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
