"""Exchanges, queues and bindings as observed."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

State = Literal["declared", "unsure", "deleted"]
"""`unsure`: asked for, or to be deleted, with `no_wait`, and nothing has shown yet that the broker did it."""

DeletedFor = Literal["deleted", "unbound", "auto-delete", "exclusive"]
"""Why something is deleted: a client asked for it, or what it depends on ended: its consumers or bindings, or, of
exclusive queues, the connection."""


class Actor(msgspec.Struct, frozen=True):
    """Who did something: the number of a session, its user, and the client's address."""

    session: int
    user: str
    client: str


class Observation(NamedTuple):
    """Where, by whom and when something was observed; `shown_vhost` is the virtual host as people may see it.

    `at` is in seconds since 1970.
    """

    vhost: str
    shown_vhost: str
    by: Actor
    at: float


class ObservedBase(msgspec.Struct, kw_only=True, tag_field="kind", omit_defaults=True):
    """What all share. `declared_by` is None for what was there before, and was only referred to.

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
    """An exchange. What is not known, since its declaration was not observed, is None."""

    name: str
    type: str | None
    durable: bool | None
    auto_delete: bool | None
    internal: bool | None
    arguments: dict[str, Any] | None


class ObservedQueue(ObservedBase, kw_only=True, tag="queue"):
    """A queue, and how many consumers it has here."""

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
