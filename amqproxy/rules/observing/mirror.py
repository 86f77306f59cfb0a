"""The `mirror` action: publishes a copy to another place; the original never waits for it."""

from __future__ import annotations

from typing import Annotated

import msgspec
import msgspec.structs

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.wire import Table
from amqproxy.rules.context import CommandContext
from amqproxy.rules.rewriting.edit import Edit
from amqproxy.rules.rewriting.renaming import Renaming
from amqproxy.rules.rule import Rule, RuleState
from amqproxy.rules.short_strings import check_short_string
from amqproxy.rules.verdict import MirroredCopy, Stage, Verdict

_COPIES = frozenset({"CC", "BCC"})


class Mirror(Rule, frozen=True, tag="mirror"):
    """Copy a publish to another exchange, under another routing key, or to another upstream.

    `percent` of the publishes are copied. `headers` are changed in the copy alone. A copy is neither mandatory nor
    immediate, goes to no CC or BCC, and has no `user_id`, so that nothing comes back. `keeps_reply_to` lets its
    receivers answer the client.
    """

    upstream: str | None = None
    exchange: str | Renaming | None = None
    routing_key: str | Renaming | None = None
    headers: Edit | None = None
    percent: Annotated[float, msgspec.Meta(gt=0, le=100)] = 100.0
    keeps_reply_to: bool = False

    changes_method = False
    fails_open = True

    def __post_init__(self) -> None:
        if self.upstream is None and self.exchange is None and self.routing_key is None:
            raise ValueError("the copy goes where the original goes: name another exchange, routing_key or upstream")
        matched = self.matched
        if not matched & self.methods:
            raise ValueError(f"only basic.publish can be mirrored, not {', '.join(sorted(matched)[:3])}")
        for key in ("exchange", "routing_key"):
            name = getattr(self, key)
            if isinstance(name, str):
                check_short_string(name, key)

    @property
    def methods(self) -> frozenset[str]:
        return frozenset({BasicPublish.name})

    @property
    def needs(self) -> Stage:
        return Stage.BODY

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        command = context.command
        if self.percent < 100 and context.random() * 100 >= self.percent:
            return Verdict(command=command)
        method: BasicPublish = command.method
        copied = BasicPublish(
            exchange=_new(self.exchange, method.exchange, context),
            routing_key=_new(self.routing_key, method.routing_key, context),
        )
        headers = command.properties.headers
        # A header without the bytes "CC" has neither key; the check avoids decoding thousands of entries.
        if headers is not None and b"CC" in headers.octets and not _COPIES.isdisjoint(headers):
            headers = Table(field for field in headers.fields if field.name not in _COPIES)
        if self.headers is not None:
            headers = self.headers.of_table(Table() if headers is None else headers, context)
        properties = msgspec.structs.replace(
            command.properties,
            headers=headers,
            user_id=None,
            reply_to=command.properties.reply_to if self.keeps_reply_to else None,
        )
        copy = Command(command.channel, copied, properties, command.body)
        return Verdict(command=command, mirrored=(MirroredCopy(copy, self.upstream),))


def _new(renaming: str | Renaming | None, name: str, context: CommandContext) -> str:
    if renaming is None:
        return name
    return renaming if isinstance(renaming, str) else renaming.new(name, context)
