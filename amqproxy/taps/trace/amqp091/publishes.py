"""Publishes of one channel: their numbers, confirms and returns."""

from __future__ import annotations

from amqproxy.amqp091.channel import ChannelMode
from amqproxy.amqp091.methods import BasicPublish, BasicReturn
from amqproxy.taps.trace.amqp091.frame_order import Missing
from amqproxy.taps.trace.amqp091.returns import MandatoryPublishes
from amqproxy.taps.trace.channel_context import ChannelContext
from amqproxy.taps.trace.content import PartialContent
from amqproxy.taps.trace.events import MessagePublished, MessageReturned, PublishesSettled, Settlement
from amqproxy.taps.trace.open_tags import OpenTags, Span
from amqproxy.taps.trace.snapshot import ChannelSnapshot

_CONFIRM_SELECT = Missing(frozenset(("confirm.select",)))
_PUBLISH = frozenset(("basic.publish",))


class PublishTrace:
    """Publishes of one channel, numbered, and linked to confirms, returns and the ends of transactions.

    `count` is the number of publishes that the client has sent.

    The broker confirms the nth publish since confirm.select with the tag n, so a publish has a tag only if all frames
    of the client since then were seen. If frames of the broker were missed, the tags of later publishes remain known;
    the open ones are reported as unknown, since their confirms may have been missed. If frames of the client were
    missed, or the channel was joined, an unknown number m of publishes precedes those that follow. A confirm with the
    tag t, after s publishes have been seen, proves m ≥ t - s, and nothing gives an upper bound: the client may have
    sent more, whose confirms are still to come (test_resynchronisation). So later publishes have no tag; those before
    the gap keep theirs, up to a confirm with `multiple` and the tag of a publish that was not seen.
    """

    __slots__ = ("_confirms_from", "_context", "_lagging", "_mandatory", "_returnable", "_unconfirmed", "count")

    def __init__(self, context: ChannelContext[ChannelMode]) -> None:
        self.count = 0
        self._context = context
        self._confirms_from: int | None = None
        self._returnable = 0
        self._lagging = 0
        """Number of the last publish whose confirm may have been missed before it was seen."""
        self._unconfirmed = OpenTags(context.budgets.spans)
        self._mandatory = MandatoryPublishes(context.budgets.memory)

    @property
    def unconfirmed(self) -> int:
        """Number of open publishes: not confirmed, or not committed."""
        return self._unconfirmed.count

    def restore(self, snapshot: ChannelSnapshot, *, is_complete: bool) -> None:
        """Take the publishes of a snapshot, with the numbers of all; `is_complete` is whether no content is unknown."""
        context = self._context
        before = snapshot.published_before
        self.count = self._returnable = before + snapshot.published
        self._confirms_from = before if context.mode is ChannelMode.CONFIRM else None
        spans = tuple(_moved(span, before) for span in snapshot.unconfirmed)
        if not self._unconfirmed.restore(spans, self.count):
            context.has_forgotten = True
        are_settled = context.mode is ChannelMode.CONFIRM or not self.count
        self._mandatory.restore(
            spans[-1].last if spans else 0, are_settled=are_settled and is_complete and not context.has_forgotten
        )

    def in_snapshot(self) -> tuple[int, int, tuple[Span, ...]]:
        """Return the numbers of the last publish, and of the last before confirm.select, and what is open."""
        before = self._confirms_from or 0
        return self.count - before, before, tuple(_moved(span, -before) for span in self._unconfirmed.spans)

    def complete_unknown(self, ts_ns: int) -> bool:
        """Count a publish whose beginning is unknown, without a report; return whether it is open."""
        context = self._context
        self.count += 1
        self._mandatory.lose()
        if context.mode in (None, ChannelMode.NORMAL):
            return False
        self._unconfirmed.add(self.count, ts_ns)
        return True

    def begin_confirms(self) -> None:
        """Note the client's confirm.select: the broker counts the publishes after it."""
        if self._context.select_mode(ChannelMode.CONFIRM):
            self._confirms_from = self.count

    def publish(self, publish: BasicPublish, content: PartialContent, ts_ns: int) -> bool:
        """Report a publish of the client; return whether it is open."""
        context = self._context
        self.count = number = self.count + 1
        tag = None
        awaits: bool | None = None
        if context.is_unread:
            awaits = context.knows_client or None  # the close may be of an earlier channel, if an opening was missed
        elif context.knows_start:
            awaits = context.mode is not ChannelMode.NORMAL
            if self._confirms_from is not None:
                tag = number - self._confirms_from
        elif context.knows_client:
            awaits, tag = self._after_gap(number)
        if (publish.mandatory or publish.immediate) and not context.is_unread:
            self._returnable += 1
            self._mandatory.add(
                number,
                publish.exchange,
                publish.routing_key,
                content.size,
                content.properties,
                is_settled=bool(awaits),
            )
        context.events.append(
            MessagePublished(
                ts_ns,
                context.number,
                context.epoch,
                number=number,
                method=publish,
                properties=content.properties,
                size=content.size if content.has_header else None,
                body=content.body,
                digest=content.digest,
                confirm_tag=tag,
                awaits=awaits,
            )
        )
        if not awaits:
            return False
        self._unconfirmed.add(number, ts_ns)
        if context.is_lagging:
            self._lagging = number
        return True

    def _after_gap(self, number: int) -> tuple[bool | None, int | None]:
        """Return whether a publish awaits an outcome, and its tag, if only frames of the broker were missed."""
        base = self._confirms_from
        awaits = self._context.mode is not ChannelMode.NORMAL
        if self._context.may_be_unread:
            return awaits or None, None
        return awaits, None if base is None else number - base

    def end_lag(self) -> None:
        """Note that no confirm of the publishes so far was missed."""
        self._lagging = 0

    def rewrite(self, number: int) -> None:
        """Note that a rule has changed the last publish, which has this number."""
        self._mandatory.rewrite(number)

    def give_back(self, returned: BasicReturn, content: PartialContent, ts_ns: int) -> None:
        """Report a returned message with its publish, if that is certain."""
        self._returnable -= 1
        number = self._mandatory.match(returned.exchange, returned.routing_key, content.size, content.properties)
        self._context.events.append(
            MessageReturned(
                ts_ns,
                *self._context.place,
                number=number,
                method=returned,
                properties=content.properties,
                size=content.size,
                body=content.body,
                digest=content.digest,
            )
        )

    def confirm(self, outcome: Settlement, tag: int, multiple: bool, ts_ns: int) -> None:
        """Settle the publish that the broker numbers `tag`, with `multiple` all up to it."""
        context = self._context
        base = self._confirms_from
        context.learn_mode(ChannelMode.CONFIRM)
        spans: tuple[Span, ...] | None = None
        unknown: bool | None = False
        if base is not None:
            spans = self._unconfirmed.settle(base + tag if tag else 0, multiple=multiple)
        if spans is None:
            unknown = True if context.knows_start and not context.has_forgotten else None
            if base is not None and multiple and base + tag <= self._unconfirmed.last:
                spans = self._unconfirmed.settle_up_to(base + tag)
        self._settle(outcome, spans or (), ts_ns, is_unknown_tag=unknown)
        if base is not None and not context.knows_start:
            self._confirm_after_gap(base + tag, multiple, ts_ns)

    def _confirm_after_gap(self, number: int, multiple: bool, ts_ns: int) -> None:
        """Take a confirm that may be of publishes which were missed, or whose confirm was missed before."""
        if self._context.knows_client:
            self._mandatory.settle(1 if multiple else number, number, self._unconfirmed.first or self.count + 1)
        elif multiple and number > self._unconfirmed.last:
            self.end(Settlement.UNKNOWN, ts_ns)  # no outcome is claimed from a tag whose publish was not seen

    def missing_for_confirm(self, tag: int) -> Missing | None:
        """Return the publishes, or the confirm.select, that a confirm of this tag waits for; `None` if seen."""
        if self._context.mode is ChannelMode.NORMAL:
            return _CONFIRM_SELECT
        if self._confirms_from is None or tag <= self.count - self._confirms_from:
            return None
        return Missing(_PUBLISH, tag - (self.count - self._confirms_from))

    def missing_for_return(self) -> Missing | None:
        """Return the publish that a basic.return waits for; `None` if it was seen."""
        return None if self._returnable > 0 else Missing(_PUBLISH)

    def settle_transaction(self, last: int, outcome: Settlement, ts_ns: int) -> None:
        """Settle the publishes of a transaction that the broker has ended, up to the one with the number `last`."""
        spans = self._unconfirmed.settle_up_to(last)
        if spans:
            self._settle(outcome, spans, ts_ns)

    def _settle(
        self, outcome: Settlement, spans: tuple[Span, ...], ts_ns: int, *, is_unknown_tag: bool | None = False
    ) -> None:
        oldest_open = self._unconfirmed.first or self.count + 1
        for span in spans:
            self._mandatory.settle(span.first, span.last, oldest_open)
        self._report(outcome, spans, ts_ns, is_unknown_tag=is_unknown_tag)

    def _report(
        self, outcome: Settlement, spans: tuple[Span, ...], ts_ns: int, *, is_unknown_tag: bool | None = False
    ) -> None:
        context = self._context
        context.events.append(
            PublishesSettled(
                ts_ns, context.number, context.epoch, outcome=outcome, spans=spans, is_unknown_tag=is_unknown_tag
            )
        )

    def end(self, outcome: Settlement, ts_ns: int) -> None:
        """Report all open publishes with this outcome, since nothing more is seen of them."""
        if self._lagging:
            lagging = self._unconfirmed.settle_up_to(self._lagging)
            self._lagging = 0
            if lagging:
                self._report(Settlement.UNKNOWN, lagging, ts_ns)
        spans = self._unconfirmed.clear()
        if spans:
            self._report(outcome, spans, ts_ns)

    def forget_older_half(self, ts_ns: int) -> bool:
        """Forget the older half of the ranges, if there are several, and report their outcome as unknown."""
        spans = self._unconfirmed.forget_older_half()
        if spans:
            self._report(Settlement.UNKNOWN, spans, ts_ns)
            self._mandatory.lose()
        return bool(spans)

    def lose(self) -> None:
        """Stop linking confirms to publishes, since frames of the channel were missed."""
        self._confirms_from = None

    def lose_broker(self, ts_ns: int) -> None:
        """Report the open publishes as unknown: their confirms may have been missed. Later ones keep their tags."""
        self.end(Settlement.UNKNOWN, ts_ns)

    def forget_mandatory(self) -> None:
        """Forget the mandatory publishes: later returns cannot be linked."""
        self._mandatory.lose()


def _moved(span: Span, by: int) -> Span:
    return Span(span.first + by, span.last + by, span.ts_ns) if by else span
