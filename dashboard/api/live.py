"""The WebSocket of live lists."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter, WebSocket

from amqproxy.dashboard.viewer import Viewer
from amqproxy.web.client_network import network_of

router = APIRouter()

MAX_VIEWERS = 256
"""Maximum number of concurrent browsers."""

MAX_OF_ONE = 128
"""Maximum number of concurrent browsers of one address."""


@router.websocket("/live")
async def live(websocket: WebSocket) -> None:
    """Serve live lists to one browser: see docs/dashboard.md."""
    viewers: Counter[str] = websocket.app.state.viewers
    network = network_of(websocket.client.host if websocket.client else "")
    if viewers.total() >= MAX_VIEWERS or viewers[network] >= MAX_OF_ONE:
        await websocket.close(1013, "too many browsers")
        return
    viewers[network] += 1
    try:
        await Viewer(websocket, websocket.app.state.sources).run()
    finally:
        viewers[network] -= 1
        if not viewers[network]:
            del viewers[network]
