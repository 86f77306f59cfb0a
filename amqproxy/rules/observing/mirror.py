"""Send a copy of what is published elsewhere too; the original never waits for it."""

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
    """Copy a publish to another exchange, under another routing key, or to another upstream; what is not given stays.

    `percent` of them are copied. `headers` are changed in the copy alone. A copy asks for nothing back: it is neither
    mandatory nor immediate, it goes to no CC or BCC, and is its publisher's (`user_id`) no more. `keeps_reply_to` lets
    those who get it answer the client.
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
            raise ValueError("a copy to where the original goes: name another exchange, routing_key or upstream")
        matched = self.matched
        if not matched & self.methods:
            raise ValueError(f"only basic.publish is mirrored, and not {', '.join(sorted(matched)[:3])}")
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
        # Where the bytes show that there is neither, thousands of entries need not be decoded.
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
