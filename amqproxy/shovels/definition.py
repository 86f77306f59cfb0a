"""Definition of a shovel: the value of its parameter, in RabbitMQ's keys, checked and with its defaults."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

from amqproxy.amqp091.wire import Table
from amqproxy.shovels.broker_uri import parse_uri

PREFETCH = 1000
"""RabbitMQ's default of src-prefetch-count."""

MOST_PREFETCHED = 65_535
"""Largest prefetch count of basic.qos; also in place of 0, which is without a limit in RabbitMQ."""

RECONNECT_DELAY = 5
"""RabbitMQ's default of reconnect-delay, in seconds."""

LONGEST_DELAY = 24 * 3600

LONGEST_NAME = 255
"""Bytes of the longest name or routing key."""

MOST_URIS = 64

LARGEST_SHOVEL = 1024 * 1024
"""Maximum size of a shovel in bytes, as JSON: it is a line to the shovel process."""

QUEUE_LENGTH = "queue-length"

TEXTS = frozenset(
    {
        *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id"),
        *("type", "user_id", "app_id", "cluster_id"),
    }
)
"""Properties in dest-publish-properties that are short strings."""

NUMBERS = {"delivery_mode": 0xFF, "priority": 0xFF, "timestamp": 0xFFFF_FFFF_FFFF_FFFF}
"""Properties in dest-publish-properties that are numbers, and their largest values."""

AckMode = Literal["on-confirm", "on-publish", "no-ack"]

Value = TypeVar("Value")


class ShovelEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The source or the destination: a queue, or an exchange with a routing key; one of the URIs is connected to.

    A destination without either gets the exchange and the routing key of each message. `arguments` are those of the
    queue if it has to be declared, which a `is_predeclared` one never is. A `is_local` end is this broker's, whatever
    host its URIs name.
    """

    uris: tuple[str, ...]
    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    arguments: dict[str, Any] = {}
    is_predeclared: bool = False
    is_local: bool = False


class Shovel(msgspec.Struct, frozen=True, kw_only=True):
    """A shovel of a virtual host.

    `delete_after` is the number of messages after which it deletes itself, or `QUEUE_LENGTH`. With a `reconnect_delay`
    of 0 it is not started again. `properties` replace those of each message. `cluster` is the cluster's name.
    """

    vhost: str
    name: str
    cluster: str
    source: ShovelEnd
    destination: ShovelEnd
    ack_mode: AckMode = "on-confirm"
    prefetch: int = PREFETCH
    delete_after: int | Literal["never", "queue-length"] = "never"
    reconnect_delay: int = RECONNECT_DELAY
    consumer_arguments: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    adds_forward_headers: bool = False
    adds_timestamp: bool = False


def parse_shovel(vhost: str, name: str, value: Any, cluster: str) -> Shovel:
    """Return the shovel that a parameter defines; raise `ValueError` with the reason if it cannot run.

    Parameters are checked when they are set by the API, and not when they are imported.
    """
    if not isinstance(value, Mapping):
        raise ValueError("the parameter is not an object")
    keys = _Keys(value)
    source, destination = keys.end("src"), keys.end("dest")
    if source.queue is None and source.exchange is None:
        raise ValueError("src-queue or src-exchange is missing")
    if source.exchange is not None and source.routing_key is None:
        source = msgspec.structs.replace(source, routing_key="")
    ack_mode = keys.one_of("ack-mode", ("on-confirm", "on-publish", "no-ack"))
    delete_after = keys.delete_after()
    if ack_mode == "no-ack" and isinstance(delete_after, int):
        raise ValueError("src-delete-after cannot be a number with the ack-mode no-ack")
    shovel = Shovel(
        vhost=vhost,
        name=name,
        cluster=cluster,
        source=source,
        destination=destination,
        ack_mode=ack_mode,
        prefetch=keys.prefetch(),
        delete_after=delete_after,
        reconnect_delay=keys.reconnect_delay(),
        consumer_arguments=keys.table("src-consumer-args"),
        properties=_checked(keys.table("dest-publish-properties", "publish-properties")),
        adds_forward_headers=keys.get(bool, False, "dest-add-forward-headers", "add-forward-headers"),
        adds_timestamp=keys.get(bool, False, "dest-add-timestamp-header", "add-timestamp-header"),
    )
    try:
        size = len(msgspec.json.encode(shovel))
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"the parameter cannot be encoded: {error}") from None
    if size > LARGEST_SHOVEL:
        raise ValueError(f"the parameter has {size} bytes, the limit is {LARGEST_SHOVEL}")
    return shovel


def local_vhosts(value: Any) -> list[str]:
    """Return the virtual hosts of this broker that a valid parameter connects to without a network.

    RabbitMQ sets a parameter only for a user that may use these, and names the destination's first.
    """
    found = []
    for side in ("dest", "src"):
        uris = value.get(f"{side}-uri", ())
        for each in [uris] if isinstance(uris, str) else uris:
            try:
                uri = parse_uri(each)
            except (ValueError, AttributeError):
                continue  # it cannot be connected to
            if uri.upstream is None or value.get(f"{side}-protocol") == "local":
                found.append(uri.vhost)
    return found


class _Keys:
    """The keys of a parameter; of a key with a name of before RabbitMQ 3.7, the newer one counts."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._value = value

    def get(self, kind: type[Value], usual: Value, *names: str) -> Value:
        for name in names:
            if name in self._value:
                found = self._value[name]
                if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
                    raise ValueError(f"{name} has the wrong type")
                return found
        return usual

    def one_of(self, name: str, words: tuple[Any, ...]) -> Any:
        found = self._value.get(name, words[0])
        if found not in words:
            raise ValueError(f"{name} is not one of {', '.join(words)}")
        return found

    def name(self, name: str) -> str | None:
        if name not in self._value:
            return None
        found = self.get(str, "", name)
        if len(found.encode("utf-8", "surrogateescape")) > LONGEST_NAME:
            raise ValueError(f"{name} has more than {LONGEST_NAME} bytes")
        return found

    def table(self, *names: str) -> dict[str, Any]:
        for name in names:
            found = self._value.get(name) or {}  # an empty list is an empty table for RabbitMQ
            if not isinstance(found, dict):
                raise ValueError(f"{name} is not an object")
            if found:
                try:
                    assert Table(found).octets
                except (struct.error, TypeError, ValueError) as error:
                    raise ValueError(f"{name} is not a table of AMQP: {error}") from None
                return found
        return {}

    def end(self, side: str) -> ShovelEnd:
        protocol = self.one_of(f"{side}-protocol", ("amqp091", "local", "amqp10"))
        if protocol == "amqp10":
            raise ValueError(f"{side}-protocol: amqproxy shovels by AMQP 0-9-1 only, not amqp10")
        queue, exchange = self.name(f"{side}-queue"), self.name(f"{side}-exchange")
        if queue == "":
            raise ValueError(f"{side}-queue is empty")
        if queue is not None and exchange is not None:
            raise ValueError(f"{side}-queue and {side}-exchange exclude each other")
        return ShovelEnd(
            uris=self._uris(f"{side}-uri"),
            queue=queue,
            exchange=exchange,
            routing_key=self.name(f"{side}-exchange-key"),
            arguments=self.table(f"{side}-queue-args"),
            is_predeclared=self.get(bool, False, f"{side}-predeclared"),
            is_local=protocol == "local",
        )

    def _uris(self, name: str) -> tuple[str, ...]:
        value = self._value.get(name)
        uris = [value] if isinstance(value, str) else value
        if not isinstance(uris, list) or not uris or not all(isinstance(each, str) for each in uris):
            raise ValueError(f"{name} is not a URI or a list of URIs")
        if len(uris) > MOST_URIS:
            raise ValueError(f"{name} has more than {MOST_URIS} URIs")
        for each in uris:
            try:
                parse_uri(each)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return tuple(uris)

    def prefetch(self) -> int:
        found = self._number(PREFETCH, "src-prefetch-count", "prefetch-count")
        return int(found) if 0 < found <= MOST_PREFETCHED else MOST_PREFETCHED

    def reconnect_delay(self) -> int:
        """Return the delay; RabbitMQ does not reconnect with a number that is not a positive integer."""
        found = self._number(RECONNECT_DELAY, "reconnect-delay")
        return min(found, LONGEST_DELAY) if isinstance(found, int) and found > 0 else 0

    def _number(self, usual: int, *names: str) -> int | float:
        for name in names:
            if name in self._value:
                found = self._value[name]
                if type(found) not in (int, float):
                    raise ValueError(f"{name} is not a number")
                return found  # type: ignore[no-any-return]
        return usual

    def delete_after(self) -> Any:
        found = self._value.get("src-delete-after", self._value.get("delete-after", "never"))
        if found not in ("never", QUEUE_LENGTH) and not (type(found) is int and found >= 0):
            raise ValueError('src-delete-after is not a number, "never" or "queue-length"')
        return found


def _checked(properties: dict[str, Any]) -> dict[str, Any]:
    """Return properties for messages; raise `ValueError` for one that cannot be encoded."""
    for name, value in properties.items():
        if name in TEXTS:
            is_valid = isinstance(value, str) and len(value.encode("utf-8", "surrogateescape")) <= LONGEST_NAME
        else:
            is_valid = type(value) is int and 0 <= value <= NUMBERS.get(name, -1)
        if not is_valid:
            raise ValueError(f"dest-publish-properties: {name} is unknown or has the wrong type")
    return properties
