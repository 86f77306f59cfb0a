"""Translates delivery tags and publisher confirms of a channel on which the two legs have had different messages.

As long as both legs have had the same messages, nothing is translated. From the first difference on, a channel has a
`ConfirmTranslation`, a `DeliveryTagTranslation`, or both; earlier numbers are the same on both legs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from amqproxy.amqp091.errors import ResourceError

MAX_OPEN = 1_000_000
"""How many numbers of one kind a channel may have to be remembered; one more is an `OverflowError`."""

Result = TypeVar("Result")

Settled = list[tuple[int, bool]]
"""Numbers to settle, each alone or (True) with all before it."""


class ConfirmTranslation:
    """A channel's publishes as the client counts them, and as the broker does, which got some of them, or more.

    `start` is the last number that both have in common. Nothing is kept for a publish that is passed on.
    """

    def __init__(self, start: int) -> None:
        self._starts = [0]  # from each of the broker's numbers on …
        self._shifts = [0]  # … the client's are ahead by this
        self._own: set[int] = set()
        self._first_lost: int | None = None  # from there on, no confirm with `multiple` may be sent
        self._start = start
        self._settled_to = start
        self._settled: set[int] = set()
        self._owes_start = start > 0  # may any up to there be unconfirmed?

    def withhold(self, number: int, *, is_answered: bool = True) -> None:
        """The client's publish of this number does not go to the broker, and is confirmed otherwise, or never."""
        shift = self._shifts[-1]
        if not is_answered:
            self._miss(number)
        self._shift_from(number - shift, shift + 1)

    def insert(self, next_number: int) -> None:
        """A publish of our own goes to the broker, before that of the client's with this number."""
        shift = self._shifts[-1]
        own = next_number - shift
        self._own.add(own)
        self._shift_from(own + 1, shift - 1)

    def lose(self, number: int, multiple: bool, published: int) -> None:
        """Withhold a confirm of the broker from the client, so that no later one stands for it.

        A later confirm with `multiple` may stand for one up to `start`: which of those publishes the client knows to be
        confirmed is unknown, and none may be confirmed to it twice.
        """
        if number <= self._start:
            return
        first_open = self._mine(self._settled_to + 1)
        for mine, is_multiple in self.translate(number, multiple, published):
            self._miss(min(first_open, mine) if is_multiple else mine)

    def translate(self, number: int, multiple: bool, published: int) -> Settled:
        """The confirms to send to the client when the broker confirms `number`, after the client's `published`.

        The broker confirms only what it has received, whatever number it names: so the work for all its confirms is
        bounded by what was published, a constant for each publish.
        """
        if number <= self._start:
            if not multiple:
                return [(number, False)]
            answers = [(number, True)] if self._owes_start else []
            self._owes_start = self._owes_start and number < self._start
            return answers
        sent = published - self._shifts[-1]
        if number > sent:
            if not multiple:
                return []  # there is no such publish
            number = sent
        if number <= self._settled_to:
            return []
        if not multiple:
            self._settled.add(number)
            answers = [(self._mine(number), False)] if number not in self._own else []
        else:
            answers = self._all_up_to(number)
            self._settled = self._above(number, self._settled)
            self._own = self._above(number, self._own)
            self._settled_to = number
            self._owes_start = False
        self._forget()
        self._check()
        return answers

    def _all_up_to(self, number: int) -> Settled:
        """All that are open up to there, in as few confirms as possible without confirming any that was lost."""
        settled, own = self._settled, self._own
        if self._first_lost is None:
            for each in range(number, self._settled_to, -1):
                if each not in settled and each not in own:
                    return [(self._mine(each), True)]
            return [(self._start, True)] if self._owes_start else []
        open_ones = range(self._settled_to + 1, number + 1)
        mine = [self._mine(each) for each in open_ones if each not in settled and each not in own]
        if self._owes_start:
            mine.insert(0, self._start)
        before = [each for each in mine if each < self._first_lost]
        return [(each, True) for each in before[-1:]] + [(each, False) for each in mine if each > self._first_lost]

    def _above(self, number: int, numbers: set[int]) -> set[int]:
        """Those of these numbers that lie above; whichever are fewer, they or what is settled now, are gone through."""
        if number - self._settled_to < len(numbers):
            numbers.difference_update(range(self._settled_to + 1, number + 1))
            return numbers
        return {each for each in numbers if each > number}

    def _mine(self, number: int) -> int:
        """The client's number of the broker's."""
        return number + self._shifts[bisect_right(self._starts, number) - 1]

    def _shift_from(self, start: int, shift: int) -> None:
        if self._starts[-1] == start:  # nothing was published since the last difference
            self._shifts[-1] = shift
        else:
            self._starts.append(start)
            self._shifts.append(shift)
        self._check()

    def _miss(self, number: int) -> None:
        """The client never receives a confirm for its publish of this number."""
        self._first_lost = number if self._first_lost is None else min(self._first_lost, number)

    def _check(self) -> None:
        if max(len(self._starts), len(self._own), len(self._settled)) > MAX_OPEN:
            raise OverflowError(f"more than {MAX_OPEN} confirms differ between the client and the broker")

    def _forget(self) -> None:
        """Drop what lies behind all that may still be confirmed."""
        while self._settled_to + 1 in self._settled:
            self._settled_to += 1
            self._settled.remove(self._settled_to)
            self._own.discard(self._settled_to)
        passed = bisect_right(self._starts, self._settled_to) - 1
        is_full = len(self._starts) > MAX_OPEN
        if passed > len(self._starts) // 2 or (is_full and passed):  # no sooner, so that numbers are seldom moved
            del self._starts[:passed], self._shifts[:passed]


_OPEN = object()
"""The state of the deliveries up to the start, as long as the client has not settled all of them at once."""


class UnknownDeliveryTag(Exception):
    """A client settles a delivery that it does not have."""


class DeliveryTagTranslation:
    """A channel's deliveries as the broker tags them, and as the client knows them.

    `start` is the last tag that both have in common. Which of the deliveries up to there are open is unknown, so that
    no method can name them: RabbitMQ closes the channel with 406 for a tag that is not open. Where the client settles
    them with later ones, while a delivery that it has not had lies between, they are owed to the broker until a
    settlement of the same kind names the first delivery after the start that is open there.
    """

    def __init__(self, start: int) -> None:
        self.last = start
        self._start = start
        self._open: OrderedDict[int, int | None] = OrderedDict()
        self._upstream: OrderedDict[int, None] = OrderedDict()
        self._taken_back: list[tuple[int, int | None]] = []
        self._before: object = _OPEN if start else None  # the kind of a settlement that is owed; None: all is settled
        self._committed = self._before

    @property
    def open(self) -> int:
        """How many deliveries the client has yet to settle."""
        return len(self._open)

    def receive(self, tag: int, *, is_acked: bool) -> None:
        """The broker has delivered something; `is_acked` is whether it has to be acknowledged."""
        if is_acked:
            self._upstream[tag] = None
            if len(self._upstream) > MAX_OPEN:
                raise OverflowError(f"more than {MAX_OPEN} deliveries are not acknowledged")

    def hand_out(self, tag: int | None, *, is_acked: bool = True) -> int:
        """The client's tag for the delivery that the broker gave `tag`; None for a copy of our own.

        Of a copy, `is_acked` is whether the client has to acknowledge it.
        """
        self.last += 1
        if is_acked if tag is None else tag in self._upstream:
            self._open[self.last] = tag
            if len(self._open) > MAX_OPEN:
                raise OverflowError(f"more than {MAX_OPEN} deliveries are not acknowledged")
        return self.last

    def settle_own(self, tag: int) -> None:
        """We have settled a delivery that the client never had."""
        self._upstream.pop(tag, None)

    def settle(self, tag: int, multiple: bool, *, kind: object = "ack", may_be_taken_back: bool = False) -> Settled:
        """What to send to the broker when the client settles `tag`; `UnknownDeliveryTag` if it has no such delivery.

        Settlements of one `kind` may be combined. In a transaction it `may_be_taken_back`. The work is in proportion to
        the deliveries that are settled by this, whatever tag is named, and so a constant for each delivery that there
        was.
        """
        answers = self._settle(tag, multiple, kind, may_be_taken_back)
        if not may_be_taken_back:
            self._committed = self._before
        return answers

    def _settle(self, tag: int, multiple: bool, kind: object, may_be_taken_back: bool) -> Settled:
        if multiple and tag == 0:
            taken = list(self._open)
        elif tag <= self._start:
            return [(tag, multiple)]
        elif tag not in self._open:
            raise UnknownDeliveryTag(tag)
        else:
            taken = list(self._up_to(tag)) if multiple else [tag]
        pairs = [(each, self._open.pop(each)) for each in taken]
        if may_be_taken_back:
            self._taken_back += pairs
            if len(self._taken_back) > MAX_OPEN:
                raise OverflowError(f"more than {MAX_OPEN} deliveries are settled in one transaction")
        theirs = [theirs for _, theirs in pairs if theirs is not None and theirs in self._upstream]
        if not multiple:
            pays = self._before == kind
            answers = [(each, pays and each == next(iter(self._upstream))) for each in theirs]
            for each, is_multiple in answers:
                del self._upstream[each]
                if is_multiple:
                    self._before = None
            return answers
        if self._before not in (None, _OPEN, kind):  # a settlement of another kind may not stand for what is owed
            for each in theirs:
                del self._upstream[each]
            return [(each, False) for each in theirs]
        if tag == 0 and len(theirs) == len(self._upstream):
            self._upstream.clear()
            self._before = None
            return [(0, True)]  # those before the start, of which nothing is known, are meant too
        answers = self._with_all_before(set(theirs))
        if answers and answers[0][1]:
            self._before = None
        elif self._before is _OPEN:
            self._before = kind
        return answers

    def _up_to(self, tag: int) -> Iterable[int]:
        for each in self._open:
            if each > tag:
                return
            yield each

    def _with_all_before(self, theirs: set[int]) -> Settled:
        """These in as few methods as possible without settling any that the client did not settle."""
        answers: Settled = []
        while self._upstream and next(iter(self._upstream)) in theirs:
            last, _ = self._upstream.popitem(last=False)
            theirs.remove(last)
            answers = [(last, True)]
        for tag in sorted(theirs):
            del self._upstream[tag]
            answers.append((tag, False))
        return answers

    def commit(self) -> None:
        """What was settled in the transaction is settled."""
        self._taken_back = []
        self._committed = self._before

    def roll_back(self) -> None:
        """What was settled in the transaction is open again."""
        pairs, self._taken_back = self._taken_back, []
        self._before = self._committed
        self._open = OrderedDict(sorted([*self._open.items(), *pairs]))
        tags = {tag for _, tag in pairs if tag is not None}
        self._upstream = OrderedDict.fromkeys(sorted([*self._upstream, *tags]))

    def recover(self) -> None:
        """All that is not settled is requeued, and will be delivered under new tags.

        What was settled in the transaction is not: RabbitMQ takes it back at a later rollback all the same.
        """
        self._open.clear()
        self._upstream.clear()
        self._before = None


def within_bounds(do: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """Do it; what is too much to be remembered is a ResourceError."""
    try:
        return do(*arguments, **options)
    except OverflowError as error:
        raise ResourceError(str(error)) from None
