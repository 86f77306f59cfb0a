"""Publishes of one session: the client's transfers, and their settlement by the server."""

from __future__ import annotations

from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.domains import RejectCode
from amqproxy.amqp010.transaction import TransactionMode
from amqproxy.taps.amqp010.transfers import TransferProperties, TransferPublish, TransferReturn
from amqproxy.taps.trace.amqp010.branches import BranchWork
from amqproxy.taps.trace.amqp010.open_transfers import OpenTransfers, TransferRun, spans_of
from amqproxy.taps.trace.amqp010.partial_command import PartialCommand
from amqproxy.taps.trace.channel_context import ChannelContext
from amqproxy.taps.trace.events import MessagePublished, MessageReturned, PublishesSettled, Settlement
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.requests import REQUEST_COST
from amqproxy.taps.trace.snapshot import ChannelSnapshot

MAX_RETURNABLE = 1024
"""Limit on the publishes of one session remembered in case they are returned; the oldest is forgotten first."""


class PublishedTransfers:
    """Publishes of one session, numbered, and linked to completions, accepts, rejects and the ends of transactions.

    `count` is the number of publishes that the client has sent. Publishes in a transaction are kept apart from others.
    """

    __slots__ = ("_context", "_in_tx", "_open", "_returnable", "count")

    def __init__(self, context: ChannelContext[TransactionMode]) -> None:
        self.count = 0
        self._context = context
        self._open = OpenTransfers(context.budgets.spans)
        self._in_tx = OpenTransfers(context.budgets.spans)
        self._returnable: dict[int, tuple[TransferPublish, TransferProperties, int, int]] = {}
        """Method, properties, size and memory charge of each publish that may be returned, by position."""

    @property
    def unconfirmed(self) -> int:
        """Number of open publishes, without those in branches."""
        return self._open.count + self._in_tx.count

    def in_snapshot(self) -> tuple[tuple[Span, ...], bool]:
        """Return the open publishes by position, and whether these are all: not those sent before tx.select."""
        if self._context.mode is TransactionMode.TX:
            return self._in_tx.spans, not self._open.count
        return self._open.spans, True

    def restore(self, snapshot: ChannelSnapshot) -> None:
        """Take the publishes of a snapshot: each has the number of its position, counted from 1."""
        self.count = snapshot.published + 1
        runs = [TransferRun(each.first, each.last, each.first + 1, each.ts_ns) for each in snapshot.unconfirmed]
        opened = self._in_tx if self._context.mode is TransactionMode.TX else self._open
        if not opened.restore(runs):
            self._context.has_forgotten = True

    def complete_unknown(self, position: int | None, ts_ns: int) -> None:
        """Open a publish whose beginning was not seen, without a report."""
        self.count += 1
        self._opened(position, self.count, None, ts_ns)

    def _opened(
        self, position: int | None, number: int, work: BranchWork | None, ts_ns: int
    ) -> tuple[int | None, bool | None]:
        """Open a publish, and return the command id that confirms it, and whether it awaits an outcome, if known."""
        context = self._context
        if position is None or context.mode is None:
            return None, None
        if work is not None:
            return None, work.publishes.add(position, number, ts_ns) or None
        if context.mode is TransactionMode.TX:
            return None, self._in_tx.add(position, number, ts_ns) or None
        return id_of(position), self._open.add(position, number, ts_ns) or None

    def publish(self, command: PartialCommand, work: BranchWork | None, ts_ns: int) -> None:
        """Report a publish of the client, and open it if it awaits an outcome; `work` is its dtx branch's, if any."""
        context = self._context
        self.count = number = self.count + 1
        position = command.position
        method = TransferPublish.of(command.method, command.header)
        properties = TransferProperties(command.header)
        tag, awaits = self._opened(position, number, work, ts_ns)
        may_return = method.mandatory or method.transfer.accept_mode is None  # for some brokers, none is explicit
        if awaits and may_return and position is not None:
            self._remember(position, method, properties, command)
        context.events.append(
            MessagePublished(
                ts_ns,
                context.number,
                context.epoch,
                number=number,
                method=method,
                properties=properties,
                size=command.size,
                body=command.body,
                digest=command.digest,
                confirm_tag=tag,
                awaits=awaits,
            )
        )

    def confirm(self, positions: range, ts_ns: int, outcome: Settlement = Settlement.CONFIRMED) -> None:
        """Report publishes with this outcome, unless they are in a transaction: the server has completed them."""
        self._report(outcome, self._open.settle(positions), ts_ns)

    def reject(self, positions: range, code: int, text: str, works: list[BranchWork], ts_ns: int) -> None:
        """Report publishes that the server has rejected, and remove them from their transactions."""
        for run in self._taken(positions, works):
            if code in (RejectCode.UNROUTABLE, RejectCode.IMMEDIATE):
                for position in range(run.first, run.last + 1):
                    self._give_back(position, run.number + position - run.first, code, text, ts_ns)
            self._report(Settlement.NACKED, [run], ts_ns)

    def settle(self, outcome: Settlement, positions: range, works: list[BranchWork], ts_ns: int) -> None:
        """Report publishes with this outcome, and remove them from their transactions."""
        self._report(outcome, self._taken(positions, works), ts_ns)

    def _taken(self, positions: range, works: list[BranchWork]) -> list[TransferRun]:
        places = [self._open, self._in_tx, *(each.publishes for each in works)]
        return [run for place in places for run in place.settle(positions)]

    def _give_back(self, position: int, number: int, code: int, text: str, ts_ns: int) -> None:
        found = self._returnable.get(position)
        if found is None:
            return
        context = self._context
        publish, properties, size, _ = found
        context.events.append(
            MessageReturned(
                ts_ns,
                *context.place,
                number=number,
                method=TransferReturn.of(publish, code, text),
                properties=properties,
                size=size,
            )
        )

    def _remember(
        self, position: int, method: TransferPublish, properties: TransferProperties, command: PartialCommand
    ) -> None:
        cost = REQUEST_COST + command.wire_size
        if len(self._returnable) >= MAX_RETURNABLE:
            self._forget_returnable(next(iter(self._returnable)))
        if self._context.budgets.memory.take(cost):
            self._returnable[position] = (method, properties, command.size, cost)

    def _forget_returnable(self, position: int) -> None:
        found = self._returnable.pop(position, None)
        if found is not None:
            self._context.budgets.memory.give(found[3])

    def end_transaction(self, position: int, outcome: Settlement, ts_ns: int) -> None:
        """Report the publishes of the transaction whose tx.commit or tx.rollback is at `position`."""
        self._report(outcome, self._in_tx.settle_up_to(position), ts_ns)

    def end_branch(self, work: BranchWork, outcome: Settlement, ts_ns: int) -> None:
        """Report the publishes of a branch with this outcome."""
        self._report(outcome, work.publishes.clear(), ts_ns)

    def end(self, outcome: Settlement, ts_ns: int) -> None:
        """Report all open publishes with this outcome, since nothing more is seen of them."""
        self._report(outcome, sorted(self._open.clear() + self._in_tx.clear()), ts_ns)
        for position in tuple(self._returnable):
            self._forget_returnable(position)

    def forget_older_half(self, ts_ns: int) -> bool:
        """Forget the older half of the runs, if there are several, and report their outcome as unknown."""
        runs = self._open.forget_older_half() + self._in_tx.forget_older_half()
        self._report(Settlement.UNKNOWN, runs, ts_ns)
        return bool(runs)

    def _report(self, outcome: Settlement, runs: list[TransferRun], ts_ns: int) -> None:
        if not runs:
            return
        for run in runs if self._returnable else ():
            positions = range(run.first, run.last + 1)
            for position in positions if run.size < MAX_RETURNABLE else tuple(self._returnable):
                if position in positions:
                    self._forget_returnable(position)
        context = self._context
        context.events.append(
            PublishesSettled(ts_ns, context.number, context.epoch, outcome=outcome, spans=spans_of(runs))
        )
