"""Deliveries of one session: the server's transfers, and their settlement by the client."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container
from operator import attrgetter

import msgspec

from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.commands import MessageCancel, MessageSubscribe
from amqproxy.amqp010.domains import AcceptMode, AcquireMode
from amqproxy.amqp010.transaction import TransactionMode
from amqproxy.taps.amqp010.transfers import TransferDelivery, TransferProperties
from amqproxy.taps.trace.amqp010.branches import BranchWork
from amqproxy.taps.trace.amqp010.command_numbers import CommandNumbers
from amqproxy.taps.trace.amqp010.open_transfers import OpenTransfers, TransferRun, spans_of
from amqproxy.taps.trace.amqp010.partial_command import PartialCommand
from amqproxy.taps.trace.amqp010.transactions import Accepted, SessionTransactions
from amqproxy.taps.trace.channel_context import ChannelContext
from amqproxy.taps.trace.consumers import CONSUMER_COST
from amqproxy.taps.trace.events import DeliveriesSettled, MessageDelivered, Settlement
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConsumerSnapshot

_stop = attrgetter("stop")


class DeliveredTransfers:
    """Deliveries of one session, linked to the queues of their subscriptions, and to the client's settlements."""

    __slots__ = (
        "_context",
        "_knows_subscriptions",
        "_numbers",
        "_reused",
        "_subscriptions",
        "_transactions",
        "_unaccepted",
    )

    def __init__(
        self, context: ChannelContext[TransactionMode], numbers: CommandNumbers, transactions: SessionTransactions
    ) -> None:
        self._context = context
        self._numbers = numbers
        self._transactions = transactions
        self._subscriptions: dict[str, tuple[ConsumerSnapshot, ...]] = {}
        """Subscriptions by destination: several while deliveries to an earlier one may be under way.

        The `number` of each is the position of its message.subscribe plus one, 0 if that is unknown.
        """
        self._reused: set[str] = set()
        """Destinations with several subscriptions."""
        self._knows_subscriptions = True
        self._unaccepted = OpenTransfers(context.budgets.spans)

    @property
    def unacked(self) -> int:
        """Number of open deliveries."""
        return self._unaccepted.count

    @property
    def oldest_unacked(self) -> Span | None:
        """The range of the oldest open delivery."""
        return self._unaccepted.oldest

    def is_unacked(self, command_id: int) -> bool:
        """Whether the delivery with this command id is open."""
        position = self._numbers.position(command_id)
        return position is not None and position in self._unaccepted

    # --- snapshots

    def in_snapshot(self) -> tuple[tuple[Span, ...], tuple[ConsumerSnapshot, ...], bool]:
        """Return the open deliveries by position, and the subscriptions, and whether these are all."""
        knows_all = self._context.knows_start and self._knows_subscriptions
        subscriptions = tuple([each for alike in self._subscriptions.values() for each in alike])
        return self._unaccepted.spans, subscriptions, knows_all

    def restore(self, snapshot: ChannelSnapshot) -> None:
        """Take the deliveries and subscriptions of a snapshot."""
        runs = [
            TransferRun(each.first, each.last, id_of(each.first), each.ts_ns, each.consumer_tag)
            for each in snapshot.unacked
        ]
        if not self._unaccepted.restore(runs):
            self._context.has_forgotten = True
        self._knows_subscriptions = snapshot.knows_consumers
        for each in snapshot.consumers:
            self._subscribe(each)

    # --- subscriptions

    def subscribe(self, subscribe: MessageSubscribe, position: int | None) -> None:
        """Remember the queue that the client subscribes to, if the budget allows.

        After missed frames of the client, an earlier subscription may have had the same destination: it is unknown.
        """
        if not self._context.knows_client:
            return
        self._subscribe(
            ConsumerSnapshot(
                tag=subscribe.destination or "",
                queue=subscribe.queue or "",
                no_ack=subscribe.accept_mode == AcceptMode.NONE,
                exclusive=subscribe.exclusive,
                number=0 if position is None else position + 1,
            )
        )

    def _subscribe(self, subscription: ConsumerSnapshot) -> None:
        destination = subscription.tag
        if not self._context.budgets.memory.take(CONSUMER_COST):
            self._knows_subscriptions = False
            self._keep(destination, ())
            return
        self._keep(destination, (*self._subscriptions.get(destination, ()), subscription))

    def restore_request(
        self, request: MessageSubscribe | MessageCancel, position: int, unanswered: Container[int]
    ) -> None:
        """Take an unanswered request of a snapshot, the newest first; `unanswered` are the positions of all.

        A proxy's snapshot has only the last subscription to each destination, unnumbered, and none that is cancelled.
        """
        destination = request.destination or ""
        alike = self._subscriptions.get(destination, ())
        if isinstance(request, MessageSubscribe):
            renumbered = [msgspec.structs.replace(each, number=each.number or position + 1) for each in alike[-1:]]
            self._keep(destination, (*alike[:-1], *renumbered))
        elif all(
            each.number > position + 1 and each.number - 1 in unanswered for each in alike
        ) and self._context.budgets.memory.take(CONSUMER_COST):
            self._keep(destination, (ConsumerSnapshot(tag=destination, number=position + 1), *alike))

    def completed(self, positions: range) -> None:
        """Forget the subscriptions that had ended before the broker has completed one with their destination."""
        for destination in tuple(self._reused):
            alike = self._subscriptions[destination]
            last = max((each.number for each in alike if each.number - 1 in positions), default=0)
            self._keep(destination, tuple([each for each in alike if each.number >= last]))

    def cancelled(self, destination: str, position: int) -> None:
        """Forget the subscriptions that the server has ended with the message.cancel at this position."""
        alike = self._subscriptions.get(destination, ())
        self._keep(destination, tuple([each for each in alike if each.number > position + 1]))

    def _keep(self, destination: str, kept: tuple[ConsumerSnapshot, ...]) -> None:
        """Replace the subscriptions of a destination; the memory of added ones is taken."""
        before = len(self._subscriptions.pop(destination, ()))
        self._context.budgets.memory.give(CONSUMER_COST * max(0, before - len(kept)))
        if kept:
            self._subscriptions[destination] = kept
        if len(kept) > 1:
            self._reused.add(destination)
        else:
            self._reused.discard(destination)

    def queue_of(self, destination: str) -> str | None:
        """Return the queue of a subscription; `None` if it is unknown."""
        alike = self._subscriptions.get(destination)
        if alike is None:
            return None
        queue = alike[0].queue
        return queue if len(alike) == 1 or all(each.queue == queue for each in alike) else None

    def has_subscription(self, destination: str) -> bool:
        """Whether a subscription with this destination exists, or may have begun unseen."""
        return not (self._context.knows_start and self._knows_subscriptions) or destination in self._subscriptions

    # --- what the server sends

    def deliver(self, command: PartialCommand, ts_ns: int) -> None:
        """Report a message of the server, and open it if the client has to settle it."""
        context = self._context
        position = command.position
        command_id = None if position is None else id_of(position)
        method = TransferDelivery.of(command.method, command.header, command_id)
        awaits: bool | None = command.method.accept_mode != AcceptMode.NONE
        if awaits and position is None:
            awaits = None
        if awaits and position is not None and position in self._unaccepted:
            # Sent again: it cannot be known which of the two is settled.
            self._report(Settlement.UNKNOWN, self._unaccepted.settle(range(position, position + 1)), ts_ns)
        context.events.append(
            MessageDelivered(
                ts_ns,
                context.number,
                context.epoch,
                method=method,
                properties=TransferProperties(command.header),
                size=command.size,
                body=command.body,
                digest=command.digest,
                queue=self.queue_of(method.consumer_tag),
                awaits=awaits,
                is_browsed=command.method.acquire_mode == AcquireMode.NOT_ACQUIRED,
            )
        )
        if awaits and position is not None:
            self._open(position, ts_ns, method.consumer_tag)
            if self._numbers.is_named(position) or ts_ns <= context.settled_until_ns:
                self._report(Settlement.UNKNOWN, self._unaccepted.settle(range(position, position + 1)), ts_ns)

    def complete_unknown(self, command: PartialCommand, ts_ns: int) -> None:
        """Open a delivery whose beginning was not seen, without a report, if it has to be settled."""
        position, transfer = command.position, command.method
        if transfer is None or position is None:
            self._context.has_forgotten = True
        elif transfer.accept_mode != AcceptMode.NONE and position not in self._unaccepted:
            self._open(position, ts_ns, transfer.destination or "")

    def _open(self, position: int, ts_ns: int, destination: str) -> None:
        if not self._unaccepted.add(position, id_of(position), ts_ns, destination):
            self._unaccepted.reopen([TransferRun(position, position, id_of(position), ts_ns, destination)])

    # --- what the client settles

    def settle(self, outcome: Settlement, by: str, ranges: list[range], work: BranchWork | None, ts_ns: int) -> None:
        """Settle deliveries by the client's command `by`; accepts belong to the transaction, if there is one."""
        if not ranges:
            return
        context = self._context
        runs = [run for positions in ranges for run in self._unaccepted.settle(positions)]
        unknown, tag = self._unknown(ranges, runs)
        event = DeliveriesSettled(
            ts_ns,
            context.number,
            context.epoch,
            outcome=outcome,
            spans=spans_of(runs),
            tag=id_of(ranges[-1][-1] if tag is None else tag),
            multiple=sum(map(len, ranges)) > 1,
            requeue=outcome is Settlement.RECOVERED,
            command=by,
            is_unknown_tag=unknown,
            is_certain=context.mode is not None,
        )
        if outcome is Settlement.ACKED and runs:
            if work is not None:
                work.add(Accepted(event, runs))
                return
            if context.mode is TransactionMode.TX:
                self._transactions.add(Accepted(event, runs))
                return
        context.events.append(event)

    def _unknown(self, ranges: list[range], runs: list[TransferRun]) -> tuple[bool | None, int | None]:
        """Return whether one of these positions is not open (`None` if uncertain), and the first of those, if any."""
        if sum(map(len, ranges)) == sum([run.size for run in runs]):
            return False, None
        covered: list[range] = []
        for run in sorted(runs):
            if covered and run.first == covered[-1].stop:
                covered[-1] = range(covered[-1].start, run.last + 1)
            else:
                covered.append(range(run.first, run.last + 1))
        for positions in ranges:
            position = positions.start
            place = bisect_right(covered, position, key=_stop)
            if place < len(covered) and position in covered[place]:
                position = covered[place].stop
            if position < positions.stop:
                has_missed = self._numbers.is_before(position)
                if not self._context.knows_start and not self._numbers.has_sent(position):
                    has_missed = True  # missing bytes may not have been noticed
                if self._context.has_forgotten or has_missed:
                    return None, position
                return True, position
        return False, None

    def reopen(self, accepted: list[Accepted]) -> None:
        """Reopen deliveries accepted in a transaction that was rolled back: the client holds them as before."""
        self._unaccepted.reopen([run for each in accepted for run in each.runs])

    # --- the end, and forgetting

    def give_up(self, accepted: list[Accepted], outcome: Settlement, ts_ns: int) -> None:
        """Report deliveries that were accepted in a transaction which has not ended."""
        for each in accepted:
            self._report(outcome, each.runs, ts_ns, command=each.event.command, tag=each.event.tag)

    def end(self, outcome: Settlement, ts_ns: int) -> None:
        """Report all open deliveries with this outcome, since nothing more is seen of them."""
        self._report(outcome, self._unaccepted.clear(), ts_ns)

    def forget_older_half(self, ts_ns: int) -> bool:
        """Forget the older half of the runs, if there are several, and report their outcome as unknown."""
        runs = self._unaccepted.forget_older_half()
        self._report(Settlement.UNKNOWN, runs, ts_ns)
        return bool(runs)

    def forget(self) -> None:
        """Forget the subscriptions that later deliveries would be linked to."""
        for destination in tuple(self._subscriptions):
            self._keep(destination, ())

    def _report(
        self, outcome: Settlement, runs: list[TransferRun], ts_ns: int, *, command: str = "", tag: int | None = None
    ) -> None:
        if not runs:
            return
        context = self._context
        context.events.append(
            DeliveriesSettled(
                ts_ns, context.number, context.epoch, outcome=outcome, spans=spans_of(runs), tag=tag, command=command
            )
        )
