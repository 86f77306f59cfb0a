"""How the client of a session that drains is asked to close its connection, and how that is answered."""

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
    """How the drain of a session begins."""

    NOT_AGAIN = auto()
    """It has begun before."""
    ABORT = auto()
    """There is nothing to complete: the session ends at once."""
    AWAIT_CLOSE = auto()
    """The connection is being closed already: that has some time to end."""
    DRAIN = auto()
    """A drain begins."""


def drain_start(session: SessionState, client: Leg[Any] | None) -> DrainStart:
    """How to drain a session in this state, whose connection to the client is on that leg."""
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
    """Asks the client to close; it `is_leaving` from then on."""

    def __init__(self, client: Leg[Any]) -> None:
        self.is_leaving = False
        self._client = client
        self._close_sent = trio.Event()

    @property
    def is_complete(self) -> bool:
        """Is there nothing left to wait for before the client is asked?"""
        return True

    def passes(self, sender: Peer, frame: Any) -> bool:
        """Whether the frame, the next of `sender`'s, is passed on."""
        return True

    def close(self, error: ProtocolError) -> bytes | None:
        """The connection.close for the client, once all is complete; None before, and after.

        Its leg counts as closed from here on, and so nothing of the server's comes after the close
        or between it and what was passed on before. It is to be sent by `send_close`.
        """
        if self.is_leaving or not self._client.takes_close or not self.is_complete:
            return None
        self.is_leaving = True
        return self._client.close(error)

    async def send_close(self, data: bytes) -> None:
        """Send the client its connection.close, and what comes before that."""
        with suppress(TransportBroken):  # its own direction ends the session
            await self._client.transport.send(data)
        self._close_sent.set()

    async def is_answered(self) -> bool:
        """Has the client answered connection.close? A close of its own, which crossed it, is answered first."""
        if self._client.has_crossed:
            await self._close_sent.wait()
            with suppress(TransportBroken):
                await self._client.answer_close()
        return self._client.is_closed
