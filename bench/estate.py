"""A large estate of definitions, and the client that gives it to a management API and reads it again."""

from __future__ import annotations

import http.client
import json
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

QUEUES = 50_000
USERS = 10_000
POLICIES = 5_000
BINDINGS = 100_000

TEAM = QUEUES // POLICIES
"""Queues of one team, which one policy matches."""

PART = 25_000
"""Entries of one document."""

LOGIN = {"Authorization": "Basic " + b64encode(b"guest:guest").decode(), "Content-Type": "application/json"}

MIB = 1024 * 1024


def estate(scale: float) -> Iterator[dict[str, Any]]:
    """Yield definitions, in documents below the API's limit on bodies."""
    queues, users, policies, bindings = (int(each * scale) for each in (QUEUES, USERS, POLICIES, BINDINGS))
    yield {
        "users": [
            {"name": f"user{n}", "password_hash": "", "tags": ["management"], "limits": {}} for n in range(users)
        ],
        "policies": [
            {"vhost": "/", "name": f"policy{n}", "pattern": rf"^team{n}\.", "definition": {"max-length": n + 1}}
            for n in range(policies)
        ],
    }
    for first in range(0, queues, PART):
        yield {
            "queues": [
                {"vhost": "/", "name": queue_name(n), "durable": True, "auto_delete": False, "arguments": {}}
                for n in range(first, min(first + PART, queues))
            ]
        }
    for first in range(0, bindings, PART):
        yield {
            "bindings": [
                {
                    "source": "amq.topic",
                    "vhost": "/",
                    "destination": queue_name(n % max(queues, 1)),
                    "destination_type": "queue",
                    "routing_key": f"key.{n}",
                    "arguments": {},
                }
                for n in range(first, min(first + PART, bindings))
            ]
        }


def queue_name(number: int) -> str:
    """Return the name of a queue, with its team."""
    return f"team{number // TEAM}.queue{number}"


class Answer:
    """A GET: seconds to the first byte and in all, and the bytes of the body."""

    def __init__(self, port: int, path: str, **headers: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        began = time.perf_counter()
        connection.request("GET", f"/{path}", headers={**LOGIN, **headers})
        response = connection.getresponse()
        first = response.read(1)
        self.first = time.perf_counter() - began
        self.body = first + response.read()
        self.seconds = time.perf_counter() - began
        self.status = response.status
        connection.close()

    def __str__(self) -> str:
        size = len(self.body) / MIB
        return (
            f"{self.status} · first byte {self.first * 1000:.0f} ms · all {self.seconds * 1000:.0f} ms · {size:.1f} MiB"
        )


def post(port: int, body: Mapping[str, Any]) -> None:
    """Import definitions; `RuntimeError` if they are refused."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", "/api/definitions", json.dumps(body), LOGIN)
    response = connection.getresponse()
    text = response.read()
    if response.status >= 300:
        raise RuntimeError(f"import: {response.status} {text[:200]!r}")
    connection.close()
