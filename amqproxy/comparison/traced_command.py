"""What is compared: a command with what became of it, or an event of its channel or connection."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import msgspec

from amqproxy.taps.text import pairs

_NAMES = ("queue", "exchange", "routing_key", "destination", "source", "consumer_tag")
"""Arguments that say what a command is about."""


CONNECTION = -1
"""In place of a channel's number: the connection itself."""


class Track(NamedTuple):
    """What has an order of its own on a connection, so that it is compared by itself.

    `life` numbers the channels that had the number one after the other, from 1. `name` is "client" for what the client
    did, "server" for what the server did unasked, "got" for the messages of basic.get, and else a consumer of the
    channel, whose deliveries these are.
    """

    channel: int
    life: int
    name: str


class TracedCommand(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A command, or an event, without tags and without names that the broker made up.

    `type` is as in the records of `decode --messages`. `fields` are those of the records, as far as they can be
    compared: "arguments", "reply", "properties", "outcome", "code" and so on. Of a body there are its `size`, the
    `digest` of all of it, if all of it was captured, and its beginning.
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
        """What it is about, by the names of its arguments."""
        arguments = {**self.fields, **(self.fields.get("arguments") or {})}
        return {name: arguments[name] for name in _NAMES if name in arguments}

    @property
    def what(self) -> str:
        """It on one line, for a person: control characters are shown, and never obeyed."""
        fields = self.fields
        if self.type in ("connection", "channel", "error", "settle"):
            shown: dict[str, Any] = {name: fields[name] for name in ("code", "reason") if name in fields}
            return f"{self.type} {fields.get('outcome', '')} {pairs(shown)}".rstrip()
        name = self.type
        if name == "request":
            name = self.method or f"a request that was not seen, and {fields.get('reply')},"
        return f"{name} {pairs(self.names)}".rstrip()

    def digests(self) -> tuple[int, int, int, int]:
        """Of all that is compared; of what it is and of the names in it; of what it is; of its body, 0 for none."""
        name = (self.type, self.method)
        return (
            digest_of((name, self.fields, self.size, self.digest or self.body)),
            digest_of((name, self.names)),
            digest_of(name),
            digest_of(self.digest or self.body) if self.size else 0,
        )


class PlacedCommand(NamedTuple):
    """A command at its place in a track; `number` is that of a publish, or the delivery tag of a message."""

    track: Track
    place: int
    number: int | None
    command: TracedCommand


class Outcome(NamedTuple):
    """What became of the messages of a track from the `first` to the `last` number: fields of theirs.

    `is_return` is whether it is a basic.return, beside which there may be a confirm.
    """

    track: Track
    first: int
    last: int
    fields: dict[str, Any]
    is_return: bool = False


class Latency(NamedTuple):
    """How long some `commands` of a kind took: a method to its reply, its confirm, or its acknowledgement."""

    kind: str
    ns: int
    commands: int = 1


class Identity(NamedTuple):
    """Who a connection is: what its client said of itself, and the virtual host."""

    name: str
    user: str
    virtual_host: str


Traced: TypeAlias = PlacedCommand | Outcome | Latency | Identity


def digest_of(value: Any) -> int:
    """A digest of a value, of 63 bits, which any database can hold."""
    return int.from_bytes(blake2b(msgspec.msgpack.encode(value), digest_size=8).digest()) >> 1
