"""A switch of clients and messages between two upstreams. Pure."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

import msgspec

from amqproxy.moving.move_job import MovedQueue
from amqproxy.rules.context import Client
from amqproxy.rules.matching.attributes import SENT_LATER, client_value
from amqproxy.rules.matching.filters import Filter, FilterFailed, compiled
from amqproxy.switching.phase import SETTLED, TOWARDS_TARGET, TRANSITIONS, Phase, SwitchEvent

SwitchName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)]


class Switch(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Switch `name` of the clients that are routed to `source`, to `target`.

    It is about the clients of one `vhost`, and those for which the CEL expression `when` holds, if these are given; it
    can use only what is known when a client is routed. `queues` are those whose messages follow; with `finds_queues`,
    those that clients declare are added. With `strict`, publishes wait until the queues that are left are empty.
    `rate` is the number of clients told to reconnect each second.
    """

    name: SwitchName
    source: str
    target: str
    vhost: str | None = None
    when: str | None = None
    strict: bool = False
    rate: float = 50.0
    queues: tuple[MovedQueue, ...] = ()
    finds_queues: bool = True
    phase: Phase = Phase.AT_SOURCE

    def after(self, event: SwitchEvent) -> Switch:
        """Return the switch after an event; itself if that changes nothing."""
        phase = TRANSITIONS[self.phase].get(event)
        return self if phase is None else msgspec.structs.replace(self, phase=phase)

    @property
    def is_settled(self) -> bool:
        """Whether neither clients nor messages are on their way."""
        return self.phase in SETTLED

    @property
    def serving(self) -> str:
        """The upstream that takes new clients."""
        return self.target if self.phase in TOWARDS_TARGET else self.source

    @property
    def left(self) -> str:
        """The other upstream, from which clients and messages come while the switch is not settled."""
        return self.source if self.phase in TOWARDS_TARGET else self.target

    @property
    def state(self) -> str:
        """The state in the operator's words: the name of an upstream, or "moving to" it."""
        return self.serving if self.is_settled else f"moving to {self.serving}"

    @property
    def needs_login(self) -> bool:
        """Whether it reads what is known only of clients that log in at the proxy."""
        names = self._filter.names if self._filter is not None else frozenset()
        return self.vhost is not None or bool(names & SENT_LATER)

    @cached_property
    def _filter(self) -> Filter | None:
        return compiled(self.when) if self.when is not None else None

    def applies(self, upstream: str, client: Client) -> bool:
        """Whether the switch is about a client that is routed to an upstream, given what is known of it."""
        if upstream != self.source or (self.vhost is not None and self.vhost != client.vhost):
            return False
        if self._filter is None:
            return True
        try:
            return self._filter.holds(lambda path: client_value(path, client))
        except FilterFailed:
            return False

    def holding_condition(self, members: list[str]) -> str:
        """Return the CEL expression for commands of clients that the members of the serving upstream have taken."""
        parts = [f"upstream in {msgspec.json.encode(members).decode()}"]
        if self.vhost is not None:
            parts.append(f"vhost == {msgspec.json.encode(self.vhost).decode()}")
        if self.when is not None:
            parts.append(f"({self.when})")
        return " && ".join(parts)
