"""Publishes that can have reached a queue: the rule shared by live linking and the pipeline."""

from __future__ import annotations

from amqproxy.taps.trace.events import MessagePublished, Settlement

NOT_TAKEN = frozenset((Settlement.NACKED, Settlement.ROLLED_BACK))
"""Outcomes of publishes that the broker has not taken."""

RETURNED = "returned"
"""A mandatory publish that no queue took."""

NOT_FORWARDED = frozenset(("refused", "dropped"))
"""Verdicts of publishes that the proxy has not forwarded."""


def is_in_transaction(event: MessagePublished) -> bool:
    """Whether the publish reaches its queues only with tx.commit: an outcome follows, but no confirm."""
    return bool(event.awaits) and event.confirm_tag is None
