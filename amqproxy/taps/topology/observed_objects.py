"""Exchanges, queues and bindings as observed."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

State = Literal["declared", "unsure", "deleted"]
"""State of an object; `unsure` if its declaration or deletion had `no_wait`, and no reply has shown its success."""

DeletedFor = Literal["deleted", "unbound", "auto-delete", "exclusive"]
"""Cause of a deletion: a client's request, or the end of the object's last consumer or binding, or of the connection
that an exclusive queue belongs to."""


class Actor(msgspec.Struct, frozen=True, omit_defaults=True):
    """Originator of an observation: the number of a session, its user, and the client's address.

    `upstream` is the address of the broker that serves it, of an upstream group the member.
    """

    session: int
    user: str
    client: str
    upstream: str = ""


class Observation(NamedTuple):
    """Place, originator and time of an observation; `shown_vhost` is the virtual host as it may be shown to people.

    `at` is in seconds since 1970.
    """

    vhost: str
    shown_vhost: str
    by: Actor
    at: float


class ObservedBase(msgspec.Struct, kw_only=True, tag_field="kind", omit_defaults=True):
    """Fields common to all objects. `declared_by` is `None` for an object that clients only referred to.

    `seen_at` is when a client last declared it or referred to it; times are in seconds since 1970.
    """

    vhost: str
    state: State
    declared_by: Actor | None
    declared_at: float | None
    seen_at: float
    deleted_by: Actor | None = None
    deleted_at: float | None = None
    deleted_for: DeletedFor | None = None


class ObservedExchange(ObservedBase, kw_only=True, tag="exchange"):
    """An exchange. Fields are `None` if its declaration was not observed."""

    name: str
    type: str | None
    durable: bool | None
    auto_delete: bool | None
    internal: bool | None
    arguments: dict[str, Any] | None


class ObservedQueue(ObservedBase, kw_only=True, tag="queue"):
    """A queue, with the number of its observed consumers."""

    name: str
    durable: bool | None
    exclusive: bool | None
    auto_delete: bool | None
    arguments: dict[str, Any] | None
    consumers: int


class ObservedBinding(ObservedBase, kw_only=True, tag="binding"):
    """A binding, from the exchange `source` to a queue or an exchange."""

    source: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    routing_key: str
    arguments: dict[str, Any]


ObservedObject: TypeAlias = ObservedExchange | ObservedQueue | ObservedBinding
