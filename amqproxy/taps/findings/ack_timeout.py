"""Channels that the broker closed since a delivery was not settled in time."""

from __future__ import annotations

import re

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.transitions import SERVER
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.findings.late_acks import LateAck
from amqproxy.taps.trace.events import ChannelClosed

_TIMED_OUT = re.compile(r"delivery acknowledgement on channel \d+ timed out(?:.*?(\d+) ms)?")
"""RabbitMQ's text since 3.8.15; since 3.9 with the timeout."""


class AckTimeout(Detector):
    """The broker has closed a channel since a delivery was not settled in time."""

    kind = "ack-timeout"
    severity = Severity.ERROR
    why = "A consumer that settles nothing counts as stuck: its channel is closed, and its deliveries are requeued."
    remedy = f"{LateAck.remedy} A delivery that nothing settles is a forgotten ack: look at the consumer's error paths."

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> str | None:
        if not is_ack_timeout(event):
            return None
        found = _TIMED_OUT.search(event.text)
        limit = f"the timeout of {int(found[1]) / 1000:g} s" if found and found[1] else "its timeout"
        channel = self.observed.trace.channels.get(event.channel)
        oldest = None if channel is None else channel.oldest_unacked
        if channel is None or oldest is None:
            return f"a delivery was open for longer than {limit}"
        # RabbitMQ judges a channel by its oldest delivery.
        tag = oldest.consumer_tag
        consumer = "" if tag is None else f" to consumer {tag}"
        queue = "" if tag is None else channel.queue_of(tag)
        place = f" of queue {queue}" if queue else ""
        seconds = (event.ts_ns - oldest.ts_ns) / 1e9
        return f"delivery {oldest.first}{consumer}{place} was open for {seconds:.0f} s, beyond {limit}"


def is_ack_timeout(event: ChannelClosed) -> bool:
    """Whether the broker closed the channel since a delivery was not settled in time."""
    is_refused = event.by is SERVER and event.code == PreconditionFailed.code
    return is_refused and _TIMED_OUT.search(event.text) is not None
