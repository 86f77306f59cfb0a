"""Effects of a run on the messages that it looks at and returns, by queue type and version of RabbitMQ."""

from __future__ import annotations

import msgspec

from amqproxy.workbench.queue_facts import QueueFacts


class Disturbed(Exception):
    """A run might lose messages by returning them; the text has the remedies."""


class Disturbance(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which messages are returned, and its effects, which `lines` say to the user.

    A message whose delivery count is `fatal_count` or more would die of its return. `by_closing` is whether the
    channel is closed instead of basic.nack.
    """

    lines: tuple[str, ...]
    fatal_count: int | None = None
    by_closing: bool = False


def disturbance_of(facts: QueueFacts) -> Disturbance:
    """Return what the return of messages does to a queue; raise `Disturbed` if that is unknown and might lose some."""
    if facts.type == "stream":
        return Disturbance(lines=("A stream is read from an offset: nothing in it changes.",))
    lines = [
        "Messages that are looked at are away from the queue's consumers until the run ends. Those that stay are "
        "returned together then, as redelivered.",
    ]
    if facts.consumers:
        lines.append(
            f"The queue has {_number(facts.consumers, 'consumer')}: what is published, consumed or returned meanwhile "
            "may change the order."
        )
    if facts.type == "classic":
        return Disturbance(lines=(*lines, "A classic queue puts them back in their old places."))
    if facts.profile.counts_acquisitions:
        # RabbitMQ 4.3 counts rejects and lost channels against the delivery limit, but not basic.nack.
        lines.append(
            "Classic and quorum queues put them back in front, in their order. No return counts against the delivery "
            "limit; an end by kill -9, or a lost connection, does count once, of which a message at the limit dies."
        )
        return Disturbance(lines=tuple(lines))
    if not facts.type or not facts.is_limit_known:
        unknown = "whether it is a quorum queue" if not facts.type else "its delivery limit"
        raise Disturbed(
            f"queue {facts.name!r}: {unknown} is unknown. A quorum queue of RabbitMQ {facts.profile.name} counts each "
            "return, and drops or dead-letters a message that was returned more often than its delivery limit. "
            "Add --api, which asks the management API; or say it with --type classic, or with --type quorum "
            "--delivery-limit N (-1 if it has none)"
        )
    limit = facts.delivery_limit
    if limit is None:
        # basic.nack would put them behind all others, as RabbitMQ 3.10 does without a limit.
        lines.append(
            "This quorum queue has no delivery limit. The run closes its channel to return them, which puts them in "
            "front, in their order, and counts once in x-delivery-count."
        )
        return Disturbance(lines=tuple(lines), by_closing=True)
    lines.append(
        f"A quorum queue puts them back in front, and counts each return. Its delivery limit is {limit}: a message "
        f"that has been returned {_number(limit, 'time')} would die of the next return, so a confirmed copy of it, "
        "with a new count, goes to the end of the queue instead. A kill -9 or a lost connection counts, too, "
        "and no copy is made then."
    )
    return Disturbance(lines=tuple(lines), fatal_count=limit)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
