"""Arguments of queues and consumers: those that RabbitMQ takes or refuses, and the settings they result in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.arguments import TYPE_NAMES, check_equivalent, field
from amqproxy.rabbitmq.profile import OLDEST, Profile

MAX_MILLISECONDS = 315_360_000_000
"""Maximum of arguments in milliseconds: ten years."""

MAX_SEGMENT_SIZE = 3_000_000_000
SEGMENT_SIZE = 500_000_000
"""Bytes of a stream's segment, unless an argument asks for another size."""

QUEUE_ARGUMENTS = {
    "classic": (
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
        "x-queue-type",
        "x-queue-master-locator",
    ),
    "quorum": (
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-overflow",
        "x-single-active-consumer",
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-delivery-limit",
        "x-message-ttl",
        "x-queue-leader-locator",
    ),
    "stream": (
        "x-max-length-bytes",
        "x-queue-type",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    ),
}
"""Arguments that each type of queue takes. Re-declarations are compared by these, in this order."""

IGNORED = frozenset({"x-queue-mode"})
"""Arguments that later versions of RabbitMQ do not check."""


@cache
def _queue_arguments(leader_locator: bool, consumer_timeout: bool) -> dict[str, tuple[str, ...]]:
    found = dict(QUEUE_ARGUMENTS)
    if leader_locator:
        found["classic"] += ("x-queue-leader-locator",)
    if consumer_timeout:
        found["quorum"] += ("x-consumer-timeout",)
    return found


def queue_arguments(profile: Profile) -> Mapping[str, tuple[str, ...]]:
    """Return the arguments that each type of queue takes in a version of RabbitMQ."""
    return _queue_arguments(profile.classic_leader_locator, profile.quorum_consumer_timeout)


CONSUMER_ARGUMENTS = {
    "classic": ("x-cancel-on-ha-failover", "x-priority", "x-credit"),
    "quorum": ("x-priority", "x-credit"),
    "stream": ("x-stream-offset", "x-credit"),
}


class QueueSettings(NamedTuple):
    """Settings that a queue's arguments and its policy result in. Times are in seconds; None is unlimited."""

    message_ttl: float | None = None
    expires: float | None = None
    max_length: int | None = None
    max_bytes: int | None = None
    overflow: str = "drop-head"
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    delivery_limit: int | None = None
    max_age: float | None = None
    segment_size: int = SEGMENT_SIZE
    dead_letter_strategy: str = "at-most-once"

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> QueueSettings:
        """Return the settings for the arguments of a queue, or for those merged with its policy."""

        def number(name: str) -> int | None:
            value = arguments.get(name)
            return value if isinstance(value, int) and value >= 0 else None

        def text(name: str) -> str | None:
            value = arguments.get(name)
            return value if isinstance(value, str) else None

        ttl, expires, age = number("x-message-ttl"), number("x-expires"), text("x-max-age")
        return cls(
            message_ttl=None if ttl is None else ttl / 1000,
            expires=None if expires is None else expires / 1000,
            max_length=number("x-max-length"),
            max_bytes=number("x-max-length-bytes"),
            overflow=text("x-overflow") or "drop-head",
            dead_letter_exchange=text("x-dead-letter-exchange"),
            dead_letter_routing_key=text("x-dead-letter-routing-key"),
            dead_letter_strategy=text("x-dead-letter-strategy") or "at-most-once",
            delivery_limit=number("x-delivery-limit"),
            max_age=None if age is None else interval(age),
            segment_size=number("x-stream-max-segment-size-bytes") or SEGMENT_SIZE,
        )


MIDDLE_PRIORITY = 5
USUAL_PRIORITY = 4
"""Priority of a message without one, in a queue with Qpid's arguments for priorities."""


def priority_levels(arguments: Mapping[str, Any]) -> tuple[int, int]:
    """Return the priority below which all share the lowest level, and the priority of messages without one.

    With Qpid's arguments for priorities, fewer than ten levels lie around the middle, as JMS wants it (section 3.4.10):
    of four, the lowest has the priorities up to 3, and the highest those from 6 on. RabbitMQ counts from 0.
    """
    if "x-qpid-priorities" not in arguments and "qpid.priorities" not in arguments:
        return 0, 0
    levels = arguments.get("x-max-priority", 0) + 1
    return max(0, MIDDLE_PRIORITY - (levels + 1) // 2), USUAL_PRIORITY


def queue_type(arguments: Table) -> str:
    """Return the type that a queue's arguments ask for."""
    value = arguments.get("x-queue-type")
    return value if isinstance(value, str) else "classic"


def check_declare(
    what: str,
    arguments: Table,
    *,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    is_named: bool = True,
    profile: Profile = OLDEST,
) -> None:
    """Raise 406 for a queue that cannot be declared; `what` is its name and vhost, as in `queue 'q' in vhost 'v'`."""
    ignored = IGNORED if profile.ignores_queue_mode else frozenset()
    target = field(arguments, "x-dead-letter-exchange")
    if target is not None and target.type != "S":
        raise PreconditionFailed(f"invalid type '{TYPE_NAMES[target.type]}' for arg '{target.name}' in {what}")
    _check(what, ("x-queue-type",), arguments, profile)
    type_ = queue_type(arguments)
    if not is_named and type_ != "classic":
        raise PreconditionFailed(f"Cannot declare a server-named queue for type rabbit_{type_}_queue")
    known = queue_arguments(profile)
    _check(what, tuple(name for name in known[type_] if name not in ignored), arguments, profile)
    _check_known(what, type_, known, arguments)
    if type_ == "classic":
        return
    for is_wrong, name in ((auto_delete, "auto-delete"), (exclusive, "exclusive-owner"), (not durable, "non-durable")):
        if is_wrong:
            raise PreconditionFailed(f"invalid property '{name}' for {what}")
    if arguments.get("x-stream-max-segment-size-bytes", 0) > MAX_SEGMENT_SIZE and type_ == "stream":
        raise PreconditionFailed("Exceeded max value for x-stream-max-segment-size-bytes")


def check_same(name: str, vhost: str, type_: str, received: Table, current: Table, profile: Profile = OLDEST) -> None:
    """Raise 406 if a queue of that type is declared again with other arguments."""
    names = queue_arguments(profile)[type_]
    if profile.shows_queue_type and "x-queue-type" not in received:
        received = Table([*received.fields, Field("x-queue-type", "S", "classic")])
    if queue_type(received) == queue_type(current):
        # An explicit type of classic is equivalent to none.
        names = tuple(each for each in names if each != "x-queue-type")
    check_equivalent(f"queue '{name}'", vhost, names, received, current)


def check_consume(what: str, type_: str, arguments: Table, profile: Profile = OLDEST) -> None:
    """Raise 406 for arguments that no consumer of this type of queue can have."""
    checked = CONSUMER_ARGUMENTS[type_]
    if profile.ignores_ha_failover:
        checked = tuple(name for name in checked if name != "x-cancel-on-ha-failover")
    _check(what, checked, arguments, profile)
    _check_known(what, type_, CONSUMER_ARGUMENTS, arguments)


def _check(what: str, names: tuple[str, ...], arguments: Table, profile: Profile) -> None:
    given = {each.name for each in arguments.fields}
    if given.isdisjoint(names):
        return  # usual, and an import has many queues
    version = field(arguments, "x-queue-version") if "x-queue-version" in names else None
    for name, check in _CHECKS.items():
        if name == "x-queue-version" and version is not None and version.value == 1 and 1 not in profile.queue_versions:
            raise PreconditionFailed(f"invalid arg '{name}' for {what}: \"unsupported queue version '1'\"")
        found = field(arguments, name) if name in given and name in names else None
        if found is not None and (fault := check(found, arguments)):
            raise PreconditionFailed(f"invalid arg '{name}' for {what}: {fault}")


def _check_known(what: str, type_: str, known: Mapping[str, tuple[str, ...]], arguments: Table) -> None:
    """Raise 406 for arguments that only other types take; unknown arguments are ignored."""
    for each in arguments.fields:
        if each.name not in known[type_] and any(each.name in names for names in known.values()):
            raise PreconditionFailed(f"invalid arg '{each.name}' for {what} of queue type rabbit_{type_}_queue")


# --- one check for each argument, which returns the fault as Erlang prints it

_INTEGERS = frozenset("bBsUuIilL")


def _integer(found: Field, arguments: Table) -> str:
    return "" if found.type in _INTEGERS else f'"expected integer, got {TYPE_NAMES[found.type]}"'


def _not_negative(found: Field, arguments: Table) -> str:
    if fault := _integer(found, arguments):
        return fault
    return f"{{value_negative,{found.value}}}" if found.value < 0 else ""


def _positive(found: Field, arguments: Table) -> str:
    return _not_negative(found, arguments) or ("{value_zero,0}" if found.value == 0 else "")


def _milliseconds(found: Field, arguments: Table) -> str:
    if fault := _not_negative(found, arguments):
        return fault
    return f"{{value_too_large,{found.value}}}" if found.value > MAX_MILLISECONDS else ""


def _expires(found: Field, arguments: Table) -> str:
    return _positive(found, arguments) or _milliseconds(found, arguments)


def _priority(found: Field, arguments: Table) -> str:
    if fault := _not_negative(found, arguments):
        return fault
    return f"{{max_value_exceeded,{found.value}}}" if found.value > 255 else ""


def _version(found: Field, arguments: Table) -> str:
    if fault := _not_negative(found, arguments):
        return fault
    return "" if found.value in (1, 2) else f"\"unsupported queue version '{found.value}'\""


def _boolean(found: Field, arguments: Table) -> str:
    return "" if found.type == "t" else f"{{unacceptable_type,{TYPE_NAMES[found.type]}}}"


def _text(found: Field, arguments: Table) -> str:
    return "" if found.type == "S" else f"{{unacceptable_type,{TYPE_NAMES[found.type]}}}"


def _dead_letter_key(found: Field, arguments: Table) -> str:
    if fault := _text(found, arguments):
        return fault
    return "" if "x-dead-letter-exchange" in arguments else "routing_key_but_no_dlx_defined"


def _one_of(fault: str, *values: str) -> Callable[[Field, Table], str]:
    def check(found: Field, arguments: Table) -> str:
        return _text(found, arguments) or ("" if found.value in values else fault.format(found.value))

    return check


def _max_age(found: Field, arguments: Table) -> str:
    return _text(found, arguments) or ("" if interval(found.value) else "invalid_max_age")


def _stream_offset(found: Field, arguments: Table) -> str:
    if found.type in _INTEGERS or found.type == "T":
        return ""
    if fault := _text(found, arguments):
        return fault
    if found.value in OFFSETS or interval(found.value):
        return ""
    # RabbitMQ's check crashes on a word that does not begin with a digit.
    is_answered = found.value[:1].isdecimal()
    return f'{{invalid_stream_offset_arg,{{longstr,<<"{found.value}">>}}}}' if is_answered else "invalid_offset"


OFFSETS = ("first", "last", "next")
_SECONDS = {"Y": 365 * 86400, "M": 30 * 86400, "D": 86400, "h": 3600, "m": 60, "s": 1}
_INTERVAL = re.compile(r"(\d+)([YMDhms])", re.ASCII)


def interval(text: str) -> int | None:
    """Return the seconds of an age such as 7D, more than 0; None if the text is not an age."""
    found = _INTERVAL.fullmatch(text)
    return int(found[1]) * _SECONDS[found[2]] or None if found else None


_CHECKS: dict[str, Callable[[Field, Table], str]] = {
    "x-expires": _expires,
    "x-message-ttl": _milliseconds,
    "x-dead-letter-exchange": _text,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-dead-letter-strategy": _one_of("invalid_dlx_strategy", "at-most-once", "at-least-once"),
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-in-memory-length": _not_negative,
    "x-max-in-memory-bytes": _not_negative,
    "x-max-priority": _priority,
    "x-overflow": _one_of("invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx"),
    "x-queue-mode": _one_of("\"unsupported queue mode '{}'\"", "default", "lazy"),
    "x-queue-version": _version,
    "x-single-active-consumer": _boolean,
    "x-queue-type": _one_of("\"unsupported queue type '{}'\"", "classic", "quorum", "stream"),
    "x-quorum-initial-group-size": _positive,
    "x-max-age": _max_age,
    "x-stream-max-segment-size-bytes": _not_negative,
    "x-initial-cluster-size": _positive,
    "x-queue-leader-locator": _one_of(
        "invalid_queue_locator_arg", "client-local", "balanced", "random", "least-leaders"
    ),
    "x-priority": _integer,
    "x-cancel-on-ha-failover": _boolean,
    "x-stream-offset": _stream_offset,
}
"""Checks of the arguments in RabbitMQ's order: of two errors, the first here is reported."""
