"""The body of a request, bounded in bytes and in time."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import Receive

from amqproxy.management.failure import Failure

MAX_BODY = 10 * 1024 * 1024
"""Maximum size of a body in bytes; RabbitMQ read bodies without a bound once (CVE-2023-46118)."""

MAX_FORM = 8 * 1024
"""Maximum size in bytes of a body that anyone may send without a login: a form with a user and a password."""

BODY_SECONDS = 30.0
"""Seconds within which a body has to arrive."""


def check_announced(headers: Headers, most: int = MAX_BODY) -> None:
    """Raise a `Failure` for a body that is announced as too long, before any of it is read."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > most:
        raise too_long(most)


async def read_body(receive: Receive, most: int = MAX_BODY) -> bytes:
    """Return the body; `Failure` if it has more than `most` bytes, or takes too long."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Failure(400, "bad_request", "the client is gone")
                body += message.get("body", b"")
                if len(body) > most:
                    raise too_long(most)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise Failure(408, "request_timeout", f"the body took more than {BODY_SECONDS:.0f} seconds") from None


def too_long(most: int) -> Failure:
    """Return the error for a body beyond the bound."""
    return Failure(413, "payload_too_large", f"a body has {most} bytes at most here")
