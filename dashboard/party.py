"""The client at one end of a message flow, by its name, so that it stays the same when it reconnects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from amqproxy.control.client_name import client_name, shown_text


class Party(NamedTuple):
    """A client: the name that it gave itself, or else its host; its user, and its virtual host."""

    name: str
    user: str
    vhost: str


def party_of(connection: str, handshake: Mapping[str, Any] | None) -> Party:
    """Return the client of a connection, as far as its handshake is known."""
    known = handshake or {}
    properties = known.get("client_properties")
    name = client_name(properties) if isinstance(properties, Mapping) else ""
    return Party(
        name or host_of(connection),
        shown_text(known.get("user") or ""),
        shown_text(known.get("virtual_host") or ""),
    )


def host_of(connection: str) -> str:
    """Return the client's host, from a connection's name: `10.0.0.7:4711-10.0.0.1:5673`."""
    client = connection.partition("-")[0]
    return client.rpartition(":")[0] or client
