"""Units of a comparison: a command with its outcome, or an event of its channel or connection."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import msgspec

from amqproxy.taps.text import pairs

_NAMES = ("queue", "exchange", "routing_key", "destination", "source", "consumer_tag")
"""Arguments that name the objects of a command."""


CONNECTION = -1
"""The connection itself, in place of a channel number."""


class Track(NamedTuple):
    """A sequence of commands on a connection that is ordered, and compared, by itself.

    `life` numbers the successive channels with the same number, from 1. `name` is "client" for the client's commands,
    "server" for the server's unsolicited ones, "got" for the messages of basic.get, and else a consumer of the channel,
    for its deliveries.
    """

    channel: int
    life: int
    name: str


class TracedCommand(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A command, or an event, without tags and without names that the broker generated.

    `type` is as in the records of `decode --messages`. `fields` are the comparable ones of the records: "arguments",
    "reply", "properties", "outcome", "code" and so on. A body is represented by its `size`, the `digest` of all of it
    if it was captured completely, and its beginning.
    """

    type: str
    ts_ns: int
    method: str | None = None
    fields: dict[str, Any]
    size: int | None = None
    digest: bytes = b""
    body: bytes = b""

    @property
    def names(self) -> dict[str, Any]:
        """The objects of the command, by the names of its arguments."""
        arguments = {**self.fields, **(self.fields.get("arguments") or {})}
        return {name: arguments[name] for name in _NAMES if name in arguments}

    @property
    def what(self) -> str:
        """The command on one line, with control characters escaped."""
        fields = self.fields
        if self.type in ("connection", "channel", "error", "settle"):
            shown: dict[str, Any] = {name: fields[name] for name in ("code", "reason") if name in fields}
            return f"{self.type} {fields.get('outcome', '')} {pairs(shown)}".rstrip()
        name = self.type
        if name == "request":
            name = self.method or f"a request that was not seen, and {fields.get('reply')},"
        return f"{name} {pairs(self.names)}".rstrip()

    def digests(self) -> tuple[int, int, int, int]:
        """Return the digests of all that is compared, of kind and names, of the kind, and of the body, 0 for none."""
        name = (self.type, self.method)
        return (
            digest_of((name, self.fields, self.size, self.digest or self.body)),
            digest_of((name, self.names)),
            digest_of(name),
            digest_of(self.digest or self.body) if self.size else 0,
        )


class PlacedCommand(NamedTuple):
    """A command at its place in a track; `number` is a publish's number, or a message's delivery tag."""

    track: Track
    place: int
    number: int | None
    command: TracedCommand


class Outcome(NamedTuple):
    """The outcome of the messages of a track from the `first` to the `last` number, as fields to add to theirs.

    `is_return` is whether it is a basic.return, which may come in addition to a confirm.
    """

    track: Track
    first: int
    last: int
    fields: dict[str, Any]
    is_return: bool = False


class Latency(NamedTuple):
    """The latency of some `commands` of a kind: from a method to its reply, its confirm, or its acknowledgement."""

    kind: str
    ns: int
    commands: int = 1


class Identity(NamedTuple):
    """The identity of a connection: client-provided name, user and virtual host."""

    name: str
    user: str
    virtual_host: str


Traced: TypeAlias = PlacedCommand | Outcome | Latency | Identity


def digest_of(value: Any) -> int:
    """Return a digest of a value, of 63 bits, so that it fits into a database's signed integer.

    The order of a table's entries does not count: RabbitMQ 4.3 sorts the headers that it delivers.
    """
    encoded = msgspec.msgpack.encode(value, order="deterministic")
    return int.from_bytes(blake2b(encoded, digest_size=8).digest()) >> 1
