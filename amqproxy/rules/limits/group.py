"""The clients that share a limit: all clients of a user, say, or each connection for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from amqproxy.rules.context import CommandContext

Trait = Literal["connection", "channel", "user", "vhost", "address", "exchange", "queue", "all"]
"""What commands of one group have in common: "address" is the client's, "all" nothing."""

Group = Any
"""The key of a group among those of the same grouping."""

_TRAITS: dict[Trait, Callable[[CommandContext], Any]] = {
    "connection": lambda seen: seen.client.session,
    "channel": lambda seen: (seen.client.session, seen.command.channel),
    "user": lambda seen: seen.client.user,
    "vhost": lambda seen: seen.client.vhost,
    "address": lambda seen: seen.client.address,
    "exchange": lambda seen: _named(seen, "exchange"),
    "queue": lambda seen: _named(seen, "queue"),
    "all": lambda seen: None,
}


def grouping(per: Trait | tuple[Trait, ...]) -> Callable[[CommandContext], Group]:
    """The group of a command by all of these traits. Exchanges and queues are of one vhost each."""
    traits = [_TRAITS[each] for each in ((per,) if isinstance(per, str) else per)]
    if len(traits) == 1:
        return traits[0]
    return lambda seen: tuple([trait(seen) for trait in traits])


def _named(seen: CommandContext, field: str) -> Any:
    return seen.client.vhost, getattr(seen.command.method, field, "")
