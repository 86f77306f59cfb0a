"""Groups of commands that share a limit, for example all clients of a user, or each connection by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from amqproxy.rules.context import CommandContext

Trait = Literal["connection", "channel", "user", "vhost", "address", "exchange", "queue", "all"]
"""Trait shared by the commands of a group: "address" is the client's address; "all" puts all in one group."""

Group = Any
"""Key of a group, unique among the groups of one grouping."""

_TRAITS: dict[Trait, Callable[[CommandContext], Any]] = {
    "connection": lambda context: context.client.session,
    "channel": lambda context: (context.client.session, context.command.channel),
    "user": lambda context: context.client.user,
    "vhost": lambda context: context.client.vhost,
    "address": lambda context: context.client.address,
    "exchange": lambda context: _named(context, "exchange"),
    "queue": lambda context: _named(context, "queue"),
    "all": lambda context: None,
}


def grouping(per: Trait | tuple[Trait, ...]) -> Callable[[CommandContext], Group]:
    """Return a function from a command to its group by all of these traits; exchanges and queues are per vhost."""
    traits = [_TRAITS[each] for each in ((per,) if isinstance(per, str) else per)]
    if len(traits) == 1:
        return traits[0]
    return lambda context: tuple([trait(context) for trait in traits])


def _named(context: CommandContext, field: str) -> Any:
    return context.client.vhost, getattr(context.command.method, field, "")
