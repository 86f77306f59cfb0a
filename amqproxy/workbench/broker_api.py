"""Facts about a queue that AMQP cannot say, from RabbitMQ's management API."""

from __future__ import annotations

import base64
import http.client
import ssl
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import trio

MAX_ANSWER = 4 * 1024 * 1024
"""Limit of an answer in bytes."""

TIMEOUT = 15.0
"""Seconds for an answer."""


class APIFailed(Exception):
    """The management API does not answer, or refuses; the text has the reason."""


class BrokerAPI(msgspec.Struct, frozen=True, kw_only=True):
    """Access to a management API; `url` is such as http://127.0.0.1:15672, `ca` the authority of its certificate."""

    url: str
    user: str
    password: str
    ca: str | None = None

    async def queue(self, vhost: str, name: str) -> dict[str, Any]:
        """Return the description of a queue; raise `APIFailed`."""
        # With disable_stats=true RabbitMQ 3.10 says nothing about policies.
        path = f"/api/queues/{quote(vhost, safe='')}/{quote(name, safe='')}"
        return await trio.to_thread.run_sync(partial(self._get, path), abandon_on_cancel=True)

    def _get(self, path: str) -> dict[str, Any]:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise APIFailed(f"{self.url!r} is not the address of a management API, such as http://127.0.0.1:15672")
        connection = (
            http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=TIMEOUT, context=ssl.create_default_context(cafile=self.ca)
            )
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT)
        )
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        try:
            connection.request("GET", parts.path.rstrip("/") + path, headers={"Authorization": f"Basic {login}"})
            answer = connection.getresponse()
            data = answer.read(MAX_ANSWER + 1)
        except (OSError, http.client.HTTPException) as error:
            raise APIFailed(f"the management API at {self.url} does not answer: {error}") from None
        finally:
            connection.close()
        if answer.status != 200:
            raise APIFailed(f"the management API at {self.url} refuses: {answer.status} {answer.reason}")
        try:
            return msgspec.json.decode(data, type=dict[str, Any])
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise APIFailed(f"what answers at {self.url} is not a management API") from None
