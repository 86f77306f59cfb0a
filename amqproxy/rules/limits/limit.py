"""The `limit` action: limits on rates, resource counts, prefetch and message size."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

import msgspec

from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import Peer
from amqproxy.rules.context import CommandContext
from amqproxy.rules.limits.group import Trait, grouping
from amqproxy.rules.limits.limit_kind import Act, LimitKind
from amqproxy.rules.limits.message_size import MessageSizeLimit
from amqproxy.rules.limits.prefetch import PrefetchLimit, UnackedLimit
from amqproxy.rules.limits.quota import COUNTED, Quota
from amqproxy.rules.limits.rate_limit import PACED, RateLimit
from amqproxy.rules.rule import Cacheable, Reversible, Rule, RuleState
from amqproxy.rules.short_strings import check_reply_text
from amqproxy.rules.units import byte_size, duration, rate
from amqproxy.rules.verdict import Stage, Verdict

Limited = Literal[
    "messages",
    "bytes",
    "deliveries",
    "delivered_bytes",
    "commands",
    "connections",
    "channels",
    "consumers",
    "queues",
    "message_size",
    "prefetch",
    "unacked",
]
Code = Annotated[int, msgspec.Meta(ge=200, le=999)]

_CODES = {"connections": 530, "message_size": 406, "prefetch": 406, "unacked": 406}
"""Reply codes that RabbitMQ uses for such limits; 506 for all others."""

_ACTS: dict[str, tuple[Act, ...]] = {
    **dict.fromkeys(PACED, ("delay", "refuse", "block")),
    **dict.fromkeys(("deliveries", "delivered_bytes"), ("delay", "refuse")),
    **dict.fromkeys((*COUNTED, "message_size"), ("refuse",)),
    "prefetch": ("clamp", "refuse"),
    "unacked": ("clamp", "refuse"),
}
"""Acts for each kind of limit; the first is the default."""

MAX_PREFETCH = 65_535
"""Largest prefetch count, which is a short integer."""


class Limit(Rule, Cacheable, Reversible, frozen=True, tag="limit"):
    """Limit matching commands to `rate` a second with `burst` at once, or to `most` at a time.

    `per` is the group that shares a limit: several traits stand for each combination of them. Commands that would wait
    for longer than `max_delay` seconds are refused. A refused client receives `code` and `text`, as if from the broker.
    """

    of: Limited
    rate: Annotated[float, msgspec.Meta(gt=0)] | str | None = None
    burst: Annotated[float, msgspec.Meta(gt=0)] | str | None = None
    most: Annotated[int, msgspec.Meta(ge=0)] | str | None = None
    per: Trait | tuple[Trait, ...] | None = None
    act: Act | None = None
    max_delay: Annotated[float, duration(gt=0)] = 60.0
    code: Code | None = None
    text: str | None = None

    is_constant = False
    only_counts = True

    def __post_init__(self) -> None:
        is_paced = self.of in PACED
        if is_paced and (self.rate is None or self.most is not None):
            raise ValueError(f"a limit of {self.of} needs a `rate` a second, and does not take `most`")
        if not is_paced and (self.most is None or self.rate is not None or self.burst is not None):
            raise ValueError(f"a limit of {self.of} needs a `most`, and does not take `rate` or `burst`")
        if self.act is not None and self.act not in _ACTS[self.of]:
            raise ValueError(f".act: a limit of {self.of} supports {' and '.join(_ACTS[self.of])}, not {self.act}")
        if self.of in ("message_size", "prefetch", "unacked") and self.per is not None:
            raise ValueError(f".per: a limit of {self.of} cannot be shared: leave `per` out")
        if isinstance(self.per, tuple) and not self.per:
            raise ValueError(".per: an empty list has no meaning: leave it out")
        if self.methods and not self.methods & self.matched:
            raise ValueError(f".match: a limit of {self.of} is about {', '.join(sorted(self.methods))}")
        if self.of in ("prefetch", "unacked") and not 1 <= self._most <= MAX_PREFETCH:
            raise ValueError(f".most: a prefetch limit is a number from 1 to {MAX_PREFETCH}")
        if self.text is not None:
            check_reply_text(self.text, self._measure.code)

    @property
    def methods(self) -> frozenset[str]:
        return self._measure.methods

    @property
    def needs(self) -> Stage:
        return self._measure.needs

    @property
    def changes_method(self) -> bool:
        return self.of in ("prefetch", "unacked")

    @property
    def reads_unacked(self) -> bool:
        return self.of == "unacked" and self.act == "refuse"

    def begin(self) -> Any:
        return self._measure.begin()

    def begin_session(self) -> Any:
        return self._measure.begin_session()

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        return self._measure.decide(context, memory)

    @property
    def allowed_body(self) -> int | None:
        return self._most if self.of == "message_size" else None

    def allowance(self, context: CommandContext, memory: RuleState) -> Credit | None:
        return self._measure.allowance(context, memory)

    def restores(self, sender: Peer) -> frozenset[str]:
        return self._measure.notes(sender)

    def restore(self, context: CommandContext, memory: RuleState) -> Verdict:
        self._measure.note(context, memory)
        return Verdict(command=context.command)

    def continues(self, old: Rule) -> bool:
        """Whether the rules count the same things by the same groups; the amount and the act may differ."""
        return isinstance(old, Limit) and self._counts() == old._counts()

    def _counts(self) -> tuple[Any, ...]:
        kept = self.act if self.of == "unacked" else None
        return self.of, self.per, self.match, self.when, self.rate, self.burst, kept

    # --- values derived from the keys

    @cached_property
    def _most(self) -> int:
        return byte_size(self.most or 0)

    @cached_property
    def _measure(self) -> LimitKind:
        act = self.act or _ACTS[self.of][0]
        code = self.code or _CODES.get(self.of, 506)
        if self.of in PACED:
            rate_ = _amount("rate", self.rate)
            burst = rate_ if self.burst is None else _amount("burst", self.burst)
            text = self.text or f"more than {rate_:.15g} {_words(self.of)} a second{self._per_group()}"
            group = grouping(self.per or "connection")
            is_by_channel = self.per is not None and "channel" in self.per
            return RateLimit(
                self.of, rate_, max(burst, 1.0), group, self.max_delay, act, code, text, is_by_channel=is_by_channel
            )
        if self.of in COUNTED:
            per = self.per or ("all" if self.of == "connections" else "connection")
            text = self.text or f"limit of {self._most} {self.of} is reached{self._per_group()}"
            return Quota(self.of, self._most, grouping(per), code, text)
        if self.of == "prefetch":
            return PrefetchLimit(self._most, act, code, self.text or f"a prefetch from 1 to {self._most} must be set")
        if self.of == "unacked":
            return UnackedLimit(self._most, act, code, self.text or f"more than {self._most} unacknowledged messages")
        return MessageSizeLimit(self._most, code, self.text or "")

    def _per_group(self) -> str:
        traits = (self.per,) if isinstance(self.per, str) else self.per or ()
        return f" per {' and '.join(traits)}" if traits and traits != ("all",) else ""


def _amount(key: str, value: float | str | None) -> float:
    try:
        amount = rate(value) if isinstance(value, str) else float(value or 0)
    except ValueError as error:
        raise ValueError(f".{key}: {error}") from None
    if not 0 < amount < math.inf:
        raise ValueError(f".{key}: `{value}` lets nothing pass, ever")
    return amount


def _words(of: str) -> str:
    return of.replace("_", " ")


assert set(get_args(Limited)) == set(_ACTS)
