"""How the client of a session that drains is asked to close its connection, and how that is answered."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

import trio

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.sockets.transport import Transport, TransportBroken


class ClosingLeg(Protocol):
    """The client's leg, of either protocol."""

    @property
    def transport(self) -> Transport: ...

    @property
    def takes_close(self) -> bool:
        """Would the peer understand a connection.close of ours now?"""

    @property
    def has_crossed(self) -> bool:
        """Have both closed the connection, and neither answered?"""

    @property
    def is_closed(self) -> bool:
        """Have all that were sent connection.close answered it?"""

    def close(self, error: ProtocolError) -> bytes:
        """Close the connection for `error`: the bytes that are to be sent."""

    async def answer_close(self) -> None:
        """Send close-ok, if the peer waits for it. `TransportBroken` if the peer is gone."""


class Farewell:
    """Asks the client to close; it `is_leaving` from then on."""

    def __init__(self, client: ClosingLeg) -> None:
        self.is_leaving = False
        self._client = client
        self._close_sent = trio.Event()

    @property
    def is_complete(self) -> bool:
        """Is there nothing left to wait for before the client is asked?"""
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
