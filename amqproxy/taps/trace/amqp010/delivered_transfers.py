"""Deliveries of one session: the server's transfers, and their settlement by the client."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.commands import MessageSubscribe
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

    __slots__ = ("_context", "_knows_subscriptions", "_numbers", "_subscriptions", "_transactions", "_unaccepted")

    def __init__(
        self, context: ChannelContext[TransactionMode], numbers: CommandNumbers, transactions: SessionTransactions
    ) -> None:
        self._context = context
        self._numbers = numbers
        self._transactions = transactions
        self._subscriptions: dict[str, ConsumerSnapshot] = {}
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
        return self._unaccepted.spans, tuple(self._subscriptions.values()), knows_all

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

    def subscribe(self, subscribe: MessageSubscribe) -> None:
        """Remember the queue that the client subscribes to, if the budget allows."""
        self._subscribe(
            ConsumerSnapshot(
                tag=subscribe.destination or "",
                queue=subscribe.queue or "",
                no_ack=subscribe.accept_mode == AcceptMode.NONE,
                exclusive=subscribe.exclusive,
            )
        )

    def _subscribe(self, subscription: ConsumerSnapshot) -> None:
        destination = subscription.tag
        if destination not in self._subscriptions and not self._context.budgets.memory.take(CONSUMER_COST):
            self._knows_subscriptions = False
            return
        self._subscriptions[destination] = subscription

    def cancelled(self, destination: str) -> None:
        """Forget a subscription that the server has ended."""
        if self._subscriptions.pop(destination, None) is not None:
            self._context.budgets.memory.give(CONSUMER_COST)

    def queue_of(self, destination: str) -> str | None:
        """Return the queue of a subscription; `None` if it is unknown."""
        found = self._subscriptions.get(destination)
        return None if found is None else found.queue

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
        self._context.budgets.memory.give(CONSUMER_COST * len(self._subscriptions))
        self._subscriptions.clear()

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
