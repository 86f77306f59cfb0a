"""uvicorn's protocols, with limits on each connection."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from amqproxy.web.peers import Peers

MAX_UNSENT = 32 * 1024 * 1024
"""Maximum number of unsent bytes of a WebSocket: pings are answered whether the browser reads or not."""

READ_AT_ONCE = 8 * 1024
"""Bytes read from a WebSocket at once: a larger read could hold tens of thousands of messages and delay others."""


def protocols(peers: Peers) -> tuple[type[asyncio.Protocol], type[asyncio.Protocol]]:
    """Return the protocol classes for HTTP and WebSockets that register their connections in `peers`."""

    class HTTPProtocol(H11Protocol):
        """HTTP whose requests have to arrive in time."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if not peers.admit(transport):
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            peers.release(self.transport)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.transport.get_protocol() is self:
                peers.note_request(self.transport, is_served=self._is_serving())

        def on_response_complete(self) -> None:
            super().on_response_complete()
            peers.note_request(self.transport, is_served=self._is_serving())

        def _is_serving(self) -> bool:
            cycle: Any = self.cycle  # `None` before the first request
            return cycle is not None and not cycle.response_complete

        def handle_websocket_upgrade(self, event: Any) -> None:
            peers.note_request(self.transport, is_served=True)
            super().handle_websocket_upgrade(event)

    class WebSocketProtocol(WebSocketsSansIOProtocol):
        """WebSocket with a bounded write buffer and small reads."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            if hasattr(transport, "max_size"):
                transport.max_size = READ_AT_ONCE

        def connection_lost(self, exc: Exception | None) -> None:
            peers.release(self.transport)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.transport.get_write_buffer_size() > MAX_UNSENT:
                self.transport.abort()

    return HTTPProtocol, WebSocketProtocol
