"""Changes of a message's properties on its way: forward headers, a timestamp, and fixed properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from amqproxy.amqp091.frame import HEADER, Frame, encode_frame
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.wire import Array, Item, Table
from amqproxy.moving.message_forwarder import CHANNEL
from amqproxy.shovels.definition import Shovel

SHOVELLED = "x-shovelled"
"""Header with an entry for each shovel that has forwarded the message, the last one first."""


class PropertyChanges:
    """The changes that one shovel makes; `time` is the time of day in seconds."""

    def __init__(self, shovel: Shovel, source_uri: str, destination_uri: str, time: Callable[[], float]) -> None:
        self._shovel = shovel
        self._time = time
        self._is_local = shovel.destination.is_local
        named = {
            "shovelled-by": shovel.cluster,
            "shovel-type": "dynamic",
            "shovel-name": shovel.name,
        }
        if self._is_local:
            self._entry: Mapping[str, str] = {f"x-opt-{name}": value for name, value in named.items()}
            return
        self._entry = {
            **named,
            "shovel-vhost": shovel.vhost,
            "src-uri": source_uri,
            "dest-uri": destination_uri,
            **_places(shovel),
        }

    @property
    def are_none(self) -> bool:
        """Whether the properties stay as they are."""
        shovel = self._shovel
        return not (shovel.adds_forward_headers or shovel.adds_timestamp or shovel.properties)

    def frame(self, header: Frame) -> bytes:
        """Return the frame of the content header with the changes."""
        content: ContentHeader = header.header
        shovel = self._shovel
        properties = msgspec.structs.replace(content.properties, **shovel.properties)
        added: dict[str, Any] = {}
        headers = properties.headers
        if shovel.adds_forward_headers:
            added |= self._entry if self._is_local else {SHOVELLED: self._with_entry(headers)}
        if shovel.adds_timestamp:
            if self._is_local:
                added["x-opt-shovelled-timestamp"] = Item("l", int(self._time() * 1000))
            else:
                added["x-shovelled-timestamp"] = Item("l", int(self._time()))
        if added:
            kept = [] if headers is None else [field for field in headers.fields if field.name not in added]
            new = Table(added).fields
            properties = msgspec.structs.replace(properties, headers=Table([*kept, *new]))
        return encode_frame(HEADER, CHANNEL, ContentHeader(content.body_size, properties).encode())

    def _with_entry(self, headers: Table | None) -> Array:
        earlier = None if headers is None else headers.get(SHOVELLED)
        return Array([Table(self._entry), *(earlier.items if isinstance(earlier, Array) else ())])


def _places(shovel: Shovel) -> dict[str, str]:
    """Return the names of queues and exchanges, as RabbitMQ adds them to forward headers."""
    found: dict[str, str | None] = {}
    for side, end in (("src", shovel.source), ("dest", shovel.destination)):
        if end.queue is not None:
            found[f"{side}-queue"] = end.queue
        else:
            found |= {f"{side}-exchange": end.exchange, f"{side}-exchange-key": end.routing_key}
    return {name: value for name, value in found.items() if value is not None}
