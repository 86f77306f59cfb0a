"""Records of a broker's durable definitions, one small value each, which a restart recovers.

Each has a `key`, and replaces the record that was stored under the same key. Arguments are a field table's
bytes, since their types on the wire matter; the rest is as in RabbitMQ's definitions.json.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

import msgspec

KEY_SEPARATOR = "\0"


class DefinitionRecord(msgspec.Struct, frozen=True, tag=True, tag_field="kind", kw_only=True):
    """The first `identity` fields make the key."""

    identity: ClassVar[int] = 1

    @property
    def key(self) -> str:
        return key(type(self), *(getattr(self, name) for name in self.__struct_fields__[: self.identity]))


def key(kind: type[DefinitionRecord], *identity: str) -> str:
    """Return the key of the record with this identity."""
    return KEY_SEPARATOR.join((kind.__name__, *identity))


class DurableVhost(DefinitionRecord, frozen=True, kw_only=True):
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    limits: dict[str, int] = {}
    is_traced: bool = False
    metadata: dict[str, Any] = {}


class DurableExchange(DefinitionRecord, frozen=True, kw_only=True):
    identity: ClassVar[int] = 2

    vhost: str
    name: str
    type: str
    auto_delete: bool = False
    internal: bool = False
    arguments: bytes = b""


class DurableQueue(DefinitionRecord, frozen=True, kw_only=True):
    identity: ClassVar[int] = 2

    vhost: str
    name: str
    auto_delete: bool = False
    arguments: bytes = b""


class DurableBinding(DefinitionRecord, frozen=True, kw_only=True):
    """`destination_type` is "queue" or "exchange"; `arguments` are part of what a binding is, so they end its key."""

    identity: ClassVar[int] = 5

    vhost: str
    source: str
    destination_type: str
    destination: str
    routing_key: str
    arguments: bytes = b""

    @property
    def key(self) -> str:
        return super().key + KEY_SEPARATOR + self.arguments.hex()


class DurableSegment(DefinitionRecord, frozen=True, kw_only=True):
    """A part of a stream that is written to no more: from the offset `first` up to, without it, `end`.

    `octets` (a name in stored records) is what its bodies come to, and `last_time` when its last message came, in
    seconds of the wall clock.
    """

    identity: ClassVar[int] = 2

    vhost: str
    stream: str
    first: int
    end: int
    octets: int
    last_time: float

    @property
    def key(self) -> str:
        return f"{super().key}{KEY_SEPARATOR}{self.first:020}"


class DurableTransaction(DefinitionRecord, frozen=True, kw_only=True):
    """A prepared transaction, or one whose commit has begun: then it `is_decided` and continues after a restart.

    Its message log holds its operations. `global_id` and `branch_id`, in hexadecimal, and `format` are those of its
    xid, if it has one. `gone` are the queues deleted since: later queues with their names are not affected.
    """

    identity: ClassVar[int] = 2

    vhost: str
    name: str
    is_decided: bool = False
    format: int | None = None
    global_id: str | None = None
    branch_id: str | None = None
    gone: tuple[str, ...] = ()


class DurableOrphans(DefinitionRecord, frozen=True, kw_only=True):
    """Messages that clients hold of a `queue` that is deleted, and whose alternate exchange gets what comes back.

    They are in message logs of queues by this `name`, which no queue has.
    """

    identity: ClassVar[int] = 2

    vhost: str
    name: str
    queue: str
    exchange: str
    routing_key: str | None = None
    max_priority: int = 0


class DurableUser(DefinitionRecord, frozen=True, kw_only=True):
    name: str
    password_hash: str
    hashing_algorithm: str
    tags: tuple[str, ...] = ()
    limits: dict[str, int] = {}
    only_from_loopback: bool = False
    """Written for older versions, which do not derive it from the name."""


class DurablePermission(DefinitionRecord, frozen=True, kw_only=True):
    identity: ClassVar[int] = 2

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class DurableTopicPermission(DefinitionRecord, frozen=True, kw_only=True):
    identity: ClassVar[int] = 3

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class DurablePolicy(DefinitionRecord, frozen=True, kw_only=True):
    """`level` is "policy" or "operator_policy"."""

    identity: ClassVar[int] = 3

    vhost: str
    level: str
    name: str
    pattern: str
    definition: dict[str, Any]
    priority: int = 0
    apply_to: str = "all"


class DurableParameter(DefinitionRecord, frozen=True, kw_only=True):
    """A parameter of a virtual host, or a global one with "" as `vhost`."""

    identity: ClassVar[int] = 3

    vhost: str
    component: str
    name: str
    value: Any = None


AnyDurable = (
    DurableVhost
    | DurableExchange
    | DurableQueue
    | DurableBinding
    | DurableSegment
    | DurableTransaction
    | DurableOrphans
    | DurableUser
    | DurablePermission
    | DurableTopicPermission
    | DurablePolicy
    | DurableParameter
)


def encode(durable: DefinitionRecord) -> bytes:
    """Encode a record as JSON in ASCII, because AMQP names are bytes and need not be UTF-8."""
    return json.dumps(msgspec.to_builtins(durable), separators=(",", ":")).encode()


class UnreadableRecord(ValueError):
    """Bytes that are not the output of `encode`."""


def decode(data: bytes) -> AnyDurable:
    """Decode the output of `encode`; raise `UnreadableRecord` for other bytes."""
    try:
        durable: AnyDurable = msgspec.convert(json.loads(data), AnyDurable)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(str(error)) from None
    return durable
