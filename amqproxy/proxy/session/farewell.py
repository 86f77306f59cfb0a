"""The connection.close that a draining session sends its client, and the client's answer."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum, auto
from typing import Any

import trio

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.peer import Peer
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.session.session_state import SessionState
from amqproxy.sockets.transport import TransportBroken


class DrainStart(Enum):
    """Ways in which the drain of a session begins."""

    NOT_AGAIN = auto()
    """The drain has begun before."""
    ABORT = auto()
    """No content can be completed: the session ends at once."""
    AWAIT_CLOSE = auto()
    """The connection is being closed already, and has some time to end."""
    DRAIN = auto()
    """A drain begins."""


def drain_start(session: SessionState, client: Leg[Any] | None) -> DrainStart:
    """Return how to drain a session in this state, given its client leg."""
    if session in (SessionState.DRAINING, SessionState.LEAVING):
        return DrainStart.NOT_AGAIN
    if session is not SessionState.RELAYING:
        return DrainStart.ABORT
    if client is None:
        return DrainStart.ABORT
    if client.is_closing:
        return DrainStart.AWAIT_CLOSE
    return DrainStart.DRAIN if client.takes_close else DrainStart.ABORT


class Farewell:
    """Filter of frames during a drain, and sender of the client's connection.close, after which it `is_leaving`."""

    def __init__(self, client: Leg[Any]) -> None:
        self.is_leaving = False
        self._client = client
        self._close_sent = trio.Event()

    @property
    def is_complete(self) -> bool:
        """Whether all contents in progress are complete, so that the client can be sent connection.close."""
        return True

    def passes(self, sender: Peer, frame: Any) -> bool:
        """Whether the frame, the next of `sender`'s, is forwarded."""
        return True

    def close(self, error: ProtocolError) -> bytes | None:
        """Return the connection.close for the client once all contents are complete; `None` before, and if it was sent.

        The client leg counts as closed afterwards, so that no frame of the server follows the close or comes between
        it and the frames forwarded before. Send it with `send_close`.
        """
        if self.is_leaving or not self._client.takes_close or not self.is_complete:
            return None
        self.is_leaving = True
        return self._client.close(error)

    async def send_close(self, data: bytes) -> None:
        """Send the client its connection.close, with the output that precedes it."""
        with suppress(TransportBroken):  # the client's relay ends the session
            await self._client.transport.send(data)
        self._close_sent.set()

    async def is_answered(self) -> bool:
        """Whether the client has answered connection.close, after answering a close of the client that crossed it."""
        if self._client.has_crossed:
            await self._close_sent.wait()
            with suppress(TransportBroken):
                await self._client.answer_close()
        return self._client.is_closed
