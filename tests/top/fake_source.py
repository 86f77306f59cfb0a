"""A source with prepared answers."""

from __future__ import annotations

from typing import Any

from amqproxy.control import RequestError


def sample_response(time: float, *, started_at: float = 0.0, **values: Any) -> dict[str, Any]:
    """A response to `stats`: each value is a number, or a list of labels and numbers."""
    process = {"version": "1.2", "pid": 7, "started_at": started_at, "time": time, "uptime": time - started_at}
    metrics = []
    for name, value in values.items():
        for labels, number in value if isinstance(value, list) else [({}, value)]:
            metrics.append({"name": name, "type": "counter", "labels": labels, "value": number})
    return {"ok": True, "stats": process | {"lag": {"now": 0.0002, "most": 0.004}}, "metrics": metrics}


def connection(session: int, user: str = "guest", **changes: Any) -> dict[str, Any]:
    return {
        "session": session,
        "connection": f"10.0.0.{session}:4711-10.0.0.1:5673",
        "connected_at": 0.0,
        "state": "open",
        "user": user,
        "vhost": "/",
        "name": "",
        "product": "pika",
        "tls": False,
        "blocked": False,
        "channels": 1,
        "consumers": 0,
        "bytes": {"client": 1000 * session, "server": 0},
    } | changes


class FakeSource:
    """Answers with `responses`, by request; there is none while it `is_gone`."""

    def __init__(self, **responses: list[dict[str, Any]]) -> None:
        self.responses = responses
        self.time = 0.0
        self.started_at = 0.0
        self.values: dict[str, Any] = {}
        self.left_out = 0
        self.is_gone = False
        self.is_closed = False

    async def ask(self, request: str) -> dict[str, Any]:
        if self.is_gone:
            raise RequestError("unreachable", "no amqproxy answers at here")
        if request == "stats":
            self.time += 1.0
            return sample_response(self.time, started_at=self.started_at, **self.values)
        return {"ok": True, request: self.responses.get(request, []), "left_out": self.left_out}

    async def aclose(self) -> None:
        self.is_closed = True
