"""Comparison of a trace's events with what is true of the random program that they come from."""

from __future__ import annotations

from collections import Counter
from typing import Any

from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ConnectionClosed,
    DeliveriesSettled,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    RequestUnanswered,
    Settlement,
    TraceEvent,
)
from tests.taps.trace.oracle import Delivery, Life, Publish, Request
from tests.taps.trace.simulation import Simulation


class Checker:
    """Compares events with what is true.

    `claims` are all facts that the events state, by kind, so that they can be counted.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.lives = simulation.lives
        self.connection_cause = simulation.connection_cause
        self.publishes = {each.body: each for life in self.lives for each in life.publishes}
        self.deliveries = {each.body: each for life in self.lives for each in life.deliveries}
        self.life_of: dict[bytes, Life] = {
            each.body: life for life in self.lives for each in (*life.publishes, *life.deliveries)
        }
        self.requests = [(life.number, each) for life in self.lives for each in life.requests]
        self.claims: Counter[Any] = Counter()
        self._published: dict[tuple[int, int, int], list[Publish]] = {}
        self._delivered: dict[tuple[int, int, int], list[Delivery]] = {}

    def check(self, events: list[TraceEvent]) -> None:
        for event in events:
            match event:
                case MessagePublished():
                    self._published_event(event)
                case PublishesSettled():
                    self._settled(event, self._published, SERVER)
                case MessageReturned():
                    self._returned(event)
                case MessageDelivered():
                    self._delivered_event(event)
                case DeliveriesSettled():
                    self._settled(event, self._delivered, CLIENT)
                case RequestAnswered():
                    self._answered(event)
                case RequestUnanswered():
                    assert (event.channel, event.sender, event.request, event.latency_ns, event.ts_ns) in {
                        (number, each.sender, each.method, life.ended_ts_ns - each.ts_ns, life.ended_ts_ns)
                        for life in self.lives
                        for number, each in ((life.number, each) for each in life.requests)
                        if each.reply is None and life.ended_ts_ns is not None
                    }
                    self.claims["unanswered"] += 1
                case ChannelClosed():
                    closes = [
                        each
                        for life in self.lives
                        for each in life.closes
                        if (life.number, each.by, each.ts_ns) == (event.channel, event.by, event.ts_ns)
                    ]
                    assert closes
                    assert event.cause is None or event.cause in [each.cause for each in closes]
                    self.claims["closed"] += 1
                case ConnectionClosed():
                    assert event.cause is None or event.cause == self.connection_cause
                case _:
                    pass

    def _published_event(self, event: MessagePublished) -> None:
        true = self.publishes[event.body]
        assert (event.method, event.ts_ns, event.size) == (true.method, true.ts_ns, len(true.body))
        assert event.confirm_tag in (None, true.confirm_tag)
        assert event.awaits in (None, true.awaits)
        self.claims["published", event.number == true.number, event.confirm_tag, event.awaits] += 1
        self._published.setdefault((event.channel, event.number, event.ts_ns), []).append(true)

    def _delivered_event(self, event: MessageDelivered) -> None:
        true = self.deliveries[event.body]
        assert (event.method.delivery_tag, event.ts_ns, event.size) == (true.tag, true.ts_ns, len(true.body))
        assert event.queue in (None, true.queue)
        assert event.awaits in (None, true.awaits)
        assert event.latency_ns in (None, true.got_after_ns)
        is_unclear = true.is_ambiguous or self.life_of[event.body].has_unclear_consumers
        is_complete = (event.queue, event.awaits, event.latency_ns) == (true.queue, true.awaits, true.got_after_ns)
        self.claims["delivered", is_complete or is_unclear] += 1
        if event.awaits is not False:
            self._delivered.setdefault((event.channel, event.method.delivery_tag, event.ts_ns), []).append(true)

    def _settled(
        self,
        event: PublishesSettled | DeliveriesSettled,
        messages: dict[tuple[int, int, int], Any],
        sender: Peer,
    ) -> None:
        for span in event.spans:
            for tag in range(span.first, span.last + 1):
                found = messages[event.channel, tag, span.ts_ns]
                if event.outcome is Settlement.UNKNOWN or not getattr(event, "is_certain", True):
                    self.claims["settled", "unknown"] += len(found)
                    continue
                requeue = getattr(event, "requeue", False)
                outcomes = [
                    (each.outcome, each.settled_ts_ns, getattr(each, "requeue", False) if requeue is not None else None)
                    for each in found
                ]
                assert (event.outcome, event.ts_ns, requeue) in outcomes
                self.claims["settled", event.outcome, requeue, event.ts_ns, span.ts_ns] += 1
        if event.outcome not in (Settlement.OPEN, Settlement.UNKNOWN, Settlement.RECOVERED):
            self._unknown_tag(event, sender)

    def _unknown_tag(self, event: PublishesSettled | DeliveriesSettled, sender: Peer) -> None:
        if event.is_unknown_tag is None or event.outcome in (Settlement.COMMITTED, Settlement.ROLLED_BACK):
            return
        alike = [
            each.is_unknown
            for life in self.lives
            for each in life.acknowledgements
            if life.number == event.channel and each.sender is sender
            if isinstance(event, PublishesSettled) or each.tag == event.tag
            if each.ts_ns == event.ts_ns or not event.is_unknown_tag  # a commit comes later than what it commits
        ]
        if event.is_unknown_tag:
            assert True in alike
            self.claims["unknown tag"] += 1
        elif getattr(event, "is_certain", True):
            assert set(alike) & {False, None}

    def _returned(self, event: MessageReturned) -> None:
        life = self.life_of[event.body]
        (true,) = [each for each in life.returns if each.publish.body == event.body]
        assert event.ts_ns == true.ts_ns
        self.claims["returned", event.number is not None or true.is_ambiguous] += 1
        if event.number is not None:
            numbered = [
                each
                for (number, place, _), found in self._published.items()
                for each in found
                if (number, place) == (event.channel, event.number)
            ]
            assert true.publish in numbered

    def _answered(self, event: RequestAnswered) -> None:
        candidates: list[tuple[int, Request]] = [
            (number, each)
            for number, each in self.requests
            if number == event.channel and each.reply == event.reply and each.replied_ts_ns == event.ts_ns
        ]
        if event.channel == 0 or type(event.reply).__name__ == "ChannelOpenOk":
            return
        if event.request is None:
            self.claims["answered by", "nothing"] += 1
            return
        assert (event.sender, event.request, event.latency_ns) in [
            (each.sender, each.method, event.ts_ns - each.ts_ns) for _, each in candidates
        ]
        self.claims["answered", event.sender, event.request.name] += 1

    def expected(self) -> Counter[Any]:
        """The claims of a trace that has seen everything."""
        found: Counter[Any] = Counter()
        for life in self.lives:
            for publish in life.publishes:
                found["published", True, publish.confirm_tag, publish.awaits] += 1
                if publish.outcome is not None:
                    found["settled", publish.outcome, False, publish.settled_ts_ns, publish.ts_ns] += 1
            for delivery in life.deliveries:
                found["delivered", True] += 1
                if delivery.outcome is not None:
                    key = delivery.outcome, delivery.requeue, delivery.settled_ts_ns, delivery.ts_ns
                    found["settled", *key] += 1
            for request in life.requests:
                if request.reply is None:
                    found["unanswered"] += 1
                else:
                    found["answered", request.sender, request.method.name] += 1
            found["closed"] += len(life.closes)
            found["returned", True] += len(life.returns)
            found["unknown tag"] += sum(each.is_unknown is True for each in life.acknowledgements)
        return +found
