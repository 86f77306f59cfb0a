"""Translation of delivery tags and publisher confirms for a channel whose legs have had different messages.

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
"""Maximum of numbers of one kind remembered for a channel; one more raises `OverflowError`."""

Result = TypeVar("Result")

Settled = list[tuple[int, bool]]
"""Numbers to settle, each alone or (true) with all before it."""


class ConfirmTranslation:
    """Mapping between the client's publish numbers and the broker's, which has received fewer or additional publishes.

    `start` is the last number that is equal on both legs. Nothing is stored for a publish that is forwarded.
    """

    def __init__(self, start: int) -> None:
        self._starts = [0]  # from each of these broker numbers on …
        self._shifts = [0]  # … the client's numbers are higher by this shift
        self._own: set[int] = set()
        self._first_lost: int | None = None  # from this number on, no confirm with `multiple` may be sent
        self._start = start
        self._settled_to = start
        self._settled: set[int] = set()
        self._owes_start = start > 0  # whether publishes up to `start` may be unconfirmed

    def withhold(self, number: int, *, is_answered: bool = True) -> None:
        """Record that a publish is not forwarded to the broker; `is_answered` if the client gets a confirm anyway."""
        shift = self._shifts[-1]
        if not is_answered:
            self._miss(number)
        self._shift_from(number - shift, shift + 1)

    def insert(self, next_number: int) -> None:
        """Record a publish of the proxy, sent to the broker before the client's publish with this number."""
        shift = self._shifts[-1]
        own = next_number - shift
        self._own.add(own)
        self._shift_from(own + 1, shift - 1)

    def lose(self, number: int, multiple: bool, published: int) -> None:
        """Withhold a confirm of the broker from the client, so that no later one covers its publish.

        A publish up to `start` may still be covered by a later confirm with `multiple`: it is unknown which of those
        the client knows to be confirmed, and none may be confirmed to it twice.
        """
        if number <= self._start:
            return
        first_open = self._mine(self._settled_to + 1)
        for mine, is_multiple in self.translate(number, multiple, published):
            self._miss(min(first_open, mine) if is_multiple else mine)

    def translate(self, number: int, multiple: bool, published: int) -> Settled:
        """Return the confirms to send to the client when the broker confirms `number`, after `published` publishes.

        The broker can confirm only publishes that it has received, whatever number it names; the work for all its
        confirms is therefore bounded by a constant for each publish.
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
        """Return as few confirms as possible for all open publishes up to `number`, without confirming a lost one."""
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
        """Return the numbers above `number`, iterating over the smaller of the set and the newly settled range."""
        if number - self._settled_to < len(numbers):
            numbers.difference_update(range(self._settled_to + 1, number + 1))
            return numbers
        return {each for each in numbers if each > number}

    def _mine(self, number: int) -> int:
        """Return the client's number for a number of the broker."""
        return number + self._shifts[bisect_right(self._starts, number) - 1]

    def _shift_from(self, start: int, shift: int) -> None:
        if self._starts[-1] == start:  # no publish since the last difference
            self._shifts[-1] = shift
        else:
            self._starts.append(start)
            self._shifts.append(shift)
        self._check()

    def _miss(self, number: int) -> None:
        """Record that the client will never receive a confirm for its publish of this number."""
        self._first_lost = number if self._first_lost is None else min(self._first_lost, number)

    def _check(self) -> None:
        if max(len(self._starts), len(self._own), len(self._settled)) > MAX_OPEN:
            raise OverflowError(f"more than {MAX_OPEN} confirms differ between the client and the broker")

    def _forget(self) -> None:
        """Discard the entries below the first number that may still be confirmed."""
        while self._settled_to + 1 in self._settled:
            self._settled_to += 1
            self._settled.remove(self._settled_to)
            self._own.discard(self._settled_to)
        passed = bisect_right(self._starts, self._settled_to) - 1
        is_full = len(self._starts) > MAX_OPEN
        if passed > len(self._starts) // 2 or (is_full and passed):  # not sooner, so that lists are seldom copied
            del self._starts[:passed], self._shifts[:passed]


_OPEN = object()
"""State of the deliveries up to `start` until the client has settled all of them at once."""


class UnknownDeliveryTag(Exception):
    """A client settles a delivery that it does not have."""


class DeliveryTagTranslation:
    """Mapping between the broker's delivery tags and the client's on one channel.

    `start` is the last tag that is equal on both legs. Which of the deliveries up to it are open is unknown, so that no
    method can name them: RabbitMQ closes the channel with 406 for a tag that is not open. If the client settles them
    together with later deliveries, while one that it has not received lies between, their settlement is owed to the
    broker until a settlement of the same kind names the first delivery after `start` that is open there.
    """

    def __init__(self, start: int) -> None:
        self.last = start
        self._start = start
        self._open: OrderedDict[int, int | None] = OrderedDict()
        self._upstream: OrderedDict[int, None] = OrderedDict()
        self._taken_back: list[tuple[int, int | None]] = []
        self._before: object = _OPEN if start else None  # kind of the owed settlement; None: all are settled
        self._committed = self._before

    @property
    def open(self) -> int:
        """Number of deliveries that the client has not settled."""
        return len(self._open)

    def receive(self, tag: int, *, is_acked: bool) -> None:
        """Record a delivery from the broker; `is_acked` tells whether it has to be acknowledged."""
        if is_acked:
            self._upstream[tag] = None
            if len(self._upstream) > MAX_OPEN:
                raise OverflowError(f"more than {MAX_OPEN} deliveries are not acknowledged")

    def hand_out(self, tag: int | None, *, is_acked: bool = True) -> int:
        """Return the client's tag for the delivery that the broker tagged `tag`; `None` for a copy made by the proxy.

        For a copy, `is_acked` tells whether the client has to acknowledge it.
        """
        self.last += 1
        if is_acked if tag is None else tag in self._upstream:
            self._open[self.last] = tag
            if len(self._open) > MAX_OPEN:
                raise OverflowError(f"more than {MAX_OPEN} deliveries are not acknowledged")
        return self.last

    def settle_own(self, tag: int) -> None:
        """Record that the proxy has settled a delivery that the client never received."""
        self._upstream.pop(tag, None)

    def settle(self, tag: int, multiple: bool, *, kind: object = "ack", may_be_taken_back: bool = False) -> Settled:
        """Return the settlements to send to the broker when the client settles `tag`.

        Raises `UnknownDeliveryTag` if the client has no such delivery. Settlements of one `kind` may be combined. In a
        transaction, it `may_be_taken_back`. The work is proportional to the deliveries settled by this call, whatever
        tag is named, and so constant for each delivery.
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
        if self._before not in (None, _OPEN, kind):  # a settlement of another kind must not cover the owed one
            for each in theirs:
                del self._upstream[each]
            return [(each, False) for each in theirs]
        if tag == 0 and len(theirs) == len(self._upstream):
            self._upstream.clear()
            self._before = None
            return [(0, True)]  # also settles those up to `start`, of which nothing is known
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
        """Return as few settlements as possible for these deliveries, without settling any other."""
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
        """Make the settlements of the transaction final."""
        self._taken_back = []
        self._committed = self._before

    def roll_back(self) -> None:
        """Reopen the deliveries settled in the transaction."""
        pairs, self._taken_back = self._taken_back, []
        self._before = self._committed
        self._open = OrderedDict(sorted([*self._open.items(), *pairs]))
        tags = {tag for _, tag in pairs if tag is not None}
        self._upstream = OrderedDict.fromkeys(sorted([*self._upstream, *tags]))

    def recover(self) -> None:
        """Forget all unsettled deliveries, which the broker requeues and delivers under new tags.

        Those settled in the transaction are kept: RabbitMQ still takes their settlements back at a later rollback.
        """
        self._open.clear()
        self._upstream.clear()
        self._before = None


def within_bounds(do: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """Call `do`; raise `ResourceError` if it exceeds the limit of remembered numbers."""
    try:
        return do(*arguments, **options)
    except OverflowError as error:
        raise ResourceError(str(error)) from None
