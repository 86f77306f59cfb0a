"""A proxy's control socket in place of a real one, in the event loop of a test: it does what the test says."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import ChannelOpen, Method
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.recording.entry import Entry, Lost, RecordedConnection
from amqproxy.recording.recording_encoder import RecordingEncoder
from amqproxy.taps.note import NOTHING

HELLO = {
    "ok": True,
    "version": "9.9",
    "protocol": 1,
    "requests": ["hello", "stats", "subscribe", "close", "connections"],
}


class FakeProxy:
    """Answers as a proxy does. `is_hanging` while it answers nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = 1
        self.is_hanging = False
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "hello": lambda request: HELLO,
            "stats": lambda request: {
                "ok": True,
                "stats": {"pid": self.pid, "started_at": float(self.pid), "time": 0.0, "lag": {"now": 0, "most": 0}},
                "metrics": [],
            },
            "subscribe": lambda request: {"ok": True},
            "connections": lambda request: {"ok": True, "connections": []},
            "more": lambda request: {"ok": True},
        }
        self._writers: list[asyncio.StreamWriter] = []
        self._encoder = RecordingEncoder()
        self._connections: dict[int, RecordedConnection] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen while the block runs; then it is gone."""
        server = await asyncio.start_unix_server(self._serve, str(self.path))
        try:
            yield
        finally:
            server.close()
            for writer in self._writers:
                writer.close()
            self._writers.clear()
            self.path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        while line := await reader.readline():
            request = json.loads(line)
            self.asked.append(request)
            while self.is_hanging:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            answer = self.answers.get(request["request"], lambda request: {"ok": False, "error": "x", "text": "x"})
            writer.write(json.dumps(answer(request)).encode() + b"\n")
            if request["request"] == "subscribe":
                self._subscriber = writer
                self._encoder = RecordingEncoder()
                self._send(self._encoder.begin(0))

    def passes(self, session: int, *methods: Method, ts_ns: int = 1) -> None:
        """These methods pass, from a client on channel 1."""
        connection = self._connections.setdefault(
            session,
            RecordedConnection(session, f"10.0.0.{session}:40000-10.0.0.9:5672", is_tls=False, is_joined=True),
        )
        data = b"".join(encode_method(1, method) for method in methods)
        self._send(b"".join(self._encoder.encode(Entry(ts_ns, connection, CLIENT, data, NOTHING))))

    def loses(self, session: int, frames: int) -> None:
        """Frames of this client pass, and are not shown."""
        self._encoder.encode(
            Entry(1, self._connections[session], CLIENT, b"", NOTHING, Lost("client", frames, 24 * frames))
        )

    def _send(self, blocks: bytes) -> None:
        self.send({"event": "packets", "data": base64.b64encode(blocks).decode()})
        self.send({"event": "batch"})

    def send(self, event: dict[str, Any] | bytes) -> None:
        """Send an event, or rubbish."""
        self._subscriber.write((event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n")


OPEN = ChannelOpen("")
