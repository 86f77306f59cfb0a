"""Policies: settings that an operator applies to queues and exchanges by their names, and can remove again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from amqproxy.broker.arguments import erlang
from amqproxy.rules.matching.name_pattern import NamePattern, name_pattern

QUEUE_KINDS = {"classic": "classic_queues", "quorum": "quorum_queues", "stream": "streams"}
"""Values of apply-to that match one type of queue, from RabbitMQ 3.12 on."""

APPLY_TO = ("all", "queues", "exchanges", *QUEUE_KINDS.values())


class Policy(NamedTuple):
    """A policy; of those that match, the one of highest priority applies. `apply_to` is one of APPLY_TO."""

    name: str
    pattern: NamePattern
    definition: Mapping[str, Any]
    priority: int = 0
    apply_to: str = "all"

    def matches(self, kind: str, name: str) -> bool:
        """Return whether the policy applies to this name; `kind` is "exchanges" or one of QUEUE_KINDS' values."""
        general = "exchanges" if kind == "exchanges" else "queues"
        return self.apply_to in ("all", general, kind) and self.pattern.fits(name)


class EffectivePolicy(NamedTuple):
    """Settings that apply to one queue or exchange, and the names of the two policies they come from."""

    definition: Mapping[str, Any]
    policy: str | None
    operator_policy: str | None


NO_EFFECT = EffectivePolicy({}, None, None)


def make_policy(
    name: str,
    pattern: str,
    definition: Mapping[str, Any],
    priority: int = 0,
    apply_to: str = "all",
    *,
    is_operator: bool = False,
    keeps_unknown: bool = False,
) -> Policy:
    """Return a checked policy; `ValueError` in RabbitMQ's words if it is invalid.

    With `keeps_unknown` it may have settings of other RabbitMQ versions and plugins, which have no effect.
    """
    try:
        compiled = name_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"pattern should be regular expression but is invalid: {error}") from None
    if apply_to not in APPLY_TO:
        raise ValueError(
            f"apply-to '{apply_to}' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', "
            "'streams', 'exchanges', or 'all'"
        )
    if type(priority) is not int:
        raise ValueError(f"priority should be number, actually was {priority!r}")
    if not definition:
        raise ValueError("no policy provided")
    known = OPERATOR_SETTINGS if is_operator else SETTINGS
    strange = {key: value for key, value in definition.items() if key not in known and not key.startswith("ha-")}
    if strange and not keeps_unknown:
        listed = ",".join(f'{{<<"{key}">>,{_erlang(value)}}}' for key, value in strange.items())
        raise ValueError(f"[{listed}] are not recognised policy settings")
    for key, value in definition.items():
        takes, what = SETTINGS.get(key, (_anything, ""))
        if not takes(value):
            raise ValueError(f"{_erlang(value)} is not a valid {what}")
    return Policy(name, compiled, dict(definition), priority, apply_to)


def effect(policy: Policy | None, operator: Policy | None) -> EffectivePolicy:
    """Return the effect of a policy and an operator's: the lower of two numbers, else the operator's value."""
    if policy is None and operator is None:
        return NO_EFFECT
    definition = dict(policy.definition) if policy else {}
    for key, value in operator.definition.items() if operator else ():
        definition[key] = min(value, definition.get(key, value)) if key in LOWER_WINS else value
    return EffectivePolicy(definition, policy and policy.name, operator and operator.name)


def effective_arguments(arguments: Mapping[str, Any], definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a queue's arguments merged with its policy's settings: the lower of two numbers, else its own value."""
    merged = dict(arguments)
    for key, value in definition.items():
        name = f"x-{key}"
        own = merged.get(name)
        if own is None:
            merged[name] = value
        elif key in LOWER_WINS and isinstance(own, int):
            merged[name] = min(own, value)
    return merged


def _integer(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _one_of(*values: object) -> Callable[[Any], bool]:
    return lambda value: value in values


def _anything(value: Any) -> bool:
    return True


def _erlang(value: Any) -> str:
    return f'<<"{value}">>' if isinstance(value, str) else erlang(value)


LOWER_WINS = frozenset(
    {
        "delivery-limit",
        "expires",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-length",
        "max-length-bytes",
        "message-ttl",
    }
)
"""Numbers of which the lower applies, from either policy."""

OPERATOR_SETTINGS = LOWER_WINS | {"queue-version"}
"""Settings that an operator policy may have."""

SETTINGS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "alternate-exchange": (_text, "alternate exchange name"),
    "dead-letter-exchange": (_text, "dead letter exchange name"),
    "dead-letter-routing-key": (_text, "dead letter routing key"),
    "dead-letter-strategy": (_one_of("at-most-once", "at-least-once"), "dead letter strategy"),
    "delivery-limit": (_integer(0), "delivery limit"),
    "expires": (_integer(1), "queue expiry"),
    "federation-upstream": (_text, "federation upstream name"),
    "federation-upstream-set": (_text, "federation upstream set name"),
    "initial-cluster-size": (_integer(0), "cluster size"),
    "max-age": (lambda value: isinstance(value, str) and re.fullmatch(r"\d+[YMDhms]", value) is not None, "max age"),
    "max-in-memory-bytes": (_integer(0), "maximum memory in bytes"),
    "max-in-memory-length": (_integer(0), "maximum memory in messages"),
    "max-length": (_integer(0), "maximum length"),
    "max-length-bytes": (_integer(0), "maximum length in bytes"),
    "message-ttl": (_integer(0), "message TTL"),
    "overflow": (_one_of("drop-head", "reject-publish", "reject-publish-dlx"), "overflow value"),
    "queue-leader-locator": (_one_of("client-local", "balanced", "random", "least-leaders"), "queue leader locator"),
    "queue-master-locator": (_text, "queue master locator"),
    "queue-mode": (_one_of("default", "lazy"), "queue-mode value"),
    "queue-version": (_one_of(1, 2), "queue version"),
    "stream-max-segment-size-bytes": (_integer(0), "segment size"),
}
"""Settings that a policy may have: the accepted values, and RabbitMQ's name for them when it refuses others."""
