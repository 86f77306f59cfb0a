"""The `refuse` action: refuses a command in the way that the protocol provides for its method."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

import msgspec

from amqproxy.amqp091.errors import BY_CODE, AccessRefused, NoRoute, NotAllowed, Scope, cut_reply_text, reply_text
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, SENDERS, SERVER, Peer
from amqproxy.rules.context import CommandContext
from amqproxy.rules.drop import dropped
from amqproxy.rules.matching.templates import Template
from amqproxy.rules.rule import Cacheable, Rule, RuleState
from amqproxy.rules.short_strings import check_reply_text
from amqproxy.rules.verdict import Answer, Close, Stage, Verdict

Way = Literal["close", "nack", "return", "drop", "reject", "requeue"]

_PUBLISH: tuple[Way, ...] = ("close", "nack", "return", "drop")
_DELIVERY: tuple[Way, ...] = ("reject", "requeue", "drop", "close")
_SETTLEMENT: tuple[Way, ...] = ("drop", "close")

_UNREFUSABLE = frozenset(
    (
        *("connection.close", "connection.close-ok", "channel.close", "channel.close-ok"),
        *("channel.flow-ok", "basic.cancel-ok"),
    )
)
"""Methods that cannot be refused, besides replies: closing methods, and replies that the broker waits for."""


def _ways() -> dict[tuple[Peer, str], tuple[Way, ...]]:
    ways: dict[tuple[Peer, str], tuple[Way, ...]] = {}
    for name, senders in SENDERS.items():
        if CLIENT in senders and name not in _UNREFUSABLE and name not in ANSWERS:
            ways[CLIENT, name] = ("close",)
    ways[CLIENT, "basic.publish"] = _PUBLISH
    for name in ("basic.ack", "basic.nack", "basic.reject"):
        ways[CLIENT, name] = _SETTLEMENT
    for name in ("basic.deliver", "basic.get-ok"):
        ways[SERVER, name] = _DELIVERY
    for name in ("basic.return", "basic.ack", "basic.nack", "basic.cancel"):
        ways[SERVER, name] = _SETTLEMENT
    for name in ("connection.blocked", "connection.unblocked"):
        ways[SERVER, name] = ("drop",)
    return ways


WAYS: dict[tuple[Peer, str], tuple[Way, ...]] = _ways()
"""Ways to refuse a method, by its sender; the default way comes first.

Methods that are missing here cannot be refused: see `_UNREFUSABLE`, and the broker's part of the handshake, without
which the client would wait for ever.
"""

_CODES = dict.fromkeys(("connection.open", "connection.tune-ok", "connection.update-secret"), NotAllowed.code)
"""Reply codes that RabbitMQ uses for these methods; 403 for all others."""

_ANSWERS: dict[Way, Answer] = {"drop": Answer.ACK, "reject": Answer.REJECT, "requeue": Answer.REQUEUE}


class Refuse(Rule, Cacheable, frozen=True, tag="refuse"):
    """Refuse the command: send an error to its sender, or to the client if the broker sent it.

    `with` selects the way of refusal, if the method supports it; else the default way is used. `text` is a template
    whose placeholders include `{rule}`.
    """

    way: Way | None = msgspec.field(default=None, name="with")
    code: Annotated[int, msgspec.Meta(ge=200, le=999)] | None = None
    text: str | None = None
    scope: Scope | None = None

    changes_method = False

    def __post_init__(self) -> None:
        matched = self.matched
        if not matched & self.methods:
            raise ValueError(f"{', '.join(sorted(matched)[:3])} cannot be refused")
        if self._template is not None:
            check_reply_text(self._template.literal)

    @property
    def methods(self) -> frozenset[str]:
        return _METHODS

    @property
    def needs(self) -> Stage:
        needs = Stage.BODY if self.way == "return" else Stage.METHOD
        return needs if self._template is None else max(needs, self._template.needs)

    @property
    def is_constant(self) -> bool:
        return self.way != "nack" and (self._template is None or self._template.is_constant)

    @property
    def drops_confirms(self) -> bool:
        return self.way != "close"

    @cached_property
    def _template(self) -> Template | None:
        return None if self.text is None else Template(self.text, {"rule": self.name})

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        method: Method = context.command.method
        ways = WAYS.get((context.sender, method.name))
        if ways is None:
            return Verdict(command=context.command)
        way = self.way if self.way in ways else ways[0]
        if way == "close":
            return Verdict(command=None, close=self._close(context), is_final=True)
        if way == "nack":
            if context.channel.is_confirming:
                return dropped(context.command, Answer.NACK)
            return Verdict(command=None, close=self._close(context), is_final=True)
        if way == "return":
            code = NoRoute.code if self.code is None else self.code
            return dropped(context.command, Answer.RETURN, (code, self._text(code, context)))
        if (context.sender, method.name) not in _MESSAGES:
            return dropped(context.command)
        return dropped(context.command, _ANSWERS[way])

    def _close(self, context: CommandContext) -> Close:
        name = context.command.method.name
        code = _CODES.get(name, AccessRefused.code) if self.code is None else self.code
        error = BY_CODE.get(code)
        scope = self.scope or (Scope.CHANNEL if error is None else error.usual_scope)
        if context.command.channel == 0:
            scope = Scope.CONNECTION
        text = self._text(code, context, self._what(context))
        receiver = CLIENT if context.sender is SERVER else None
        return Close(scope, code, text, receiver, named=name if self.text is None else "")

    def _text(self, code: int, context: CommandContext, usual: str = "") -> str:
        """Return the reply text of the rule, or the default text of the code."""
        if self._template is None:
            return reply_text(code, usual, "ERROR")
        return cut_reply_text(self._template.fill(context))

    def _what(self, context: CommandContext) -> str:
        """Describe the refused operation as RabbitMQ does, with the user and the rule."""
        method, client = context.command.method, context.client
        vhost = client.vhost
        words = [method.name]
        for noun, field in _OBJECTS:
            name = getattr(method, field, None)
            if isinstance(name, str):
                words.append(f"{_PREPOSITIONS.get(method.name, 'of')} {noun} '{name}'")
                break
        if method.name == "connection.open":
            words.append(f"of vhost '{method.virtual_host}'")
        elif vhost:
            words.append(f"in vhost '{vhost}'")
        words.append("refused")
        if client.user:
            words.append(f"for user '{client.user}'")
        return " ".join([*words, f"by rule '{self.name}'"])


_METHODS = frozenset(name for _, name in WAYS)
_MESSAGES = {(CLIENT, "basic.publish"), (SERVER, "basic.deliver"), (SERVER, "basic.get-ok")}
_OBJECTS = (("queue", "queue"), ("exchange", "exchange"), ("exchange", "destination"))
_PREPOSITIONS = {"basic.publish": "to", "basic.consume": "from", "basic.get": "from", "basic.deliver": "from"}
