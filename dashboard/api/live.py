"""The WebSocket."""

from __future__ import annotations

from fastapi import APIRouter, WebSocket

from dashboard.viewer import Viewer

router = APIRouter()


@router.websocket("/live")
async def live(websocket: WebSocket) -> None:
    """What passes, as it passes: see docs/dashboard.md."""
    await Viewer(websocket, websocket.app.state.sources).run()
