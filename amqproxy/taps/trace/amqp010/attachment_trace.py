"""Trace of one session while it is attached to a channel: its life, its commands and their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.commands import (
    DtxCommit,
    DtxEnd,
    DtxRollback,
    DtxSelect,
    DtxStart,
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp010.controls import (
    SessionCommandPoint,
    SessionCompleted,
    SessionDetached,
    SessionGap,
    SessionRequestTimeout,
    SessionTimeout,
)
from amqproxy.amqp010.domains import DetachCode, XaStatus
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import COMMAND, OVERHEAD, Frame, decode_method
from amqproxy.amqp010.methods import METHODS, Command, Control
from amqproxy.amqp010.results import XaResult
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.transaction import TransactionMode
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp010.branches import Branches, BranchKey, BranchWork, key_of
from amqproxy.taps.trace.amqp010.command_numbers import CommandNumbers
from amqproxy.taps.trace.amqp010.delivered_transfers import DeliveredTransfers
from amqproxy.taps.trace.amqp010.partial_command import PartialCommand
from amqproxy.taps.trace.amqp010.pending_commands import PendingCommand, PendingCommands
from amqproxy.taps.trace.amqp010.published_transfers import PublishedTransfers
from amqproxy.taps.trace.amqp010.transactions import SessionTransactions
from amqproxy.taps.trace.budget import Budgets
from amqproxy.taps.trace.channel_context import ChannelContext
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ChannelOpened,
    RequestAnswered,
    RequestSent,
    RequestUnanswered,
    Settlement,
    TraceEvent,
)
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ContentSnapshot, RequestSnapshot
from amqproxy.taps.trace.traced_channel import TracedChannel

CREDIT = (MessageFlow, MessageSetFlowMode, MessageStop)
"""Commands about credit, which is granted all the time: their completion is not awaited."""


class AttachmentTrace(TracedChannel):
    """Trace of a session on channel `number`, attached at `ts_ns` under `name`; both `None` if that was not seen.

    Each part owns its state; this hands each control and command to the parts that it concerns.
    """

    __slots__ = (
        "_attached_ts_ns",
        "_body",
        "_branch",
        "_branches",
        "_closed_by",
        "_detaching",
        "_digests",
        "_last_lagging",
        "_numbers",
        "_partial",
        "_pending",
        "_timeouts",
        "_transactions",
        "is_opened",
        "name",
    )

    _context: ChannelContext[TransactionMode]
    _deliveries: DeliveredTransfers
    _publishes: PublishedTransfers

    def __init__(
        self,
        number: int,
        name: bytes | None,
        events: list[TraceEvent],
        budgets: Budgets,
        branches: Branches,
        *,
        epoch: int,
        ts_ns: int | None = None,
        body: int = 0,
        digests: bool = False,
    ) -> None:
        self.name = name
        self.is_opened = name is None
        self._attached_ts_ns = ts_ns
        self._context = context = ChannelContext(
            number, events, budgets, TransactionMode.NONE, knows_start=name is not None, epoch=epoch
        )
        self._branches = branches
        self._branch: BranchWork | None = None
        self._numbers = {peer: CommandNumbers() for peer in Peer}
        self._pending = {peer: PendingCommands(budgets.memory) for peer in Peer}
        self._partial: dict[Peer, PartialCommand] = {}
        self._timeouts: dict[Peer, tuple[int, SessionRequestTimeout]] = {}
        self._transactions = SessionTransactions(budgets.spans)
        self._publishes = PublishedTransfers(context)
        self._deliveries = DeliveredTransfers(context, self._numbers[SERVER], self._transactions)
        self._closed_by: list[Peer] = []
        """Peers that have begun to close the session, by session.detach, or by an exception."""
        self._detaching: list[Peer] = []
        self._last_lagging: int | None = None
        """Position of the client's last command whose completion may have been missed before it was seen."""
        self._body = body
        self._digests = digests

    @property
    def unconfirmed(self) -> int:
        return self._publishes.unconfirmed + sum([each.publishes.count for each in self._branches.of(self)])

    def queue_of(self, consumer_tag: str) -> str | None:
        return self._deliveries.queue_of(consumer_tag)

    def has_sent(self, sender: Peer, command_ids: SequenceSet | None) -> bool:
        """Whether all of these commands of `sender` were seen, or may have been sent unseen."""
        numbers = self._numbers[sender]
        if numbers.next is None and command_ids:
            return not self._context.knows_start
        return all(numbers.has_sent(positions[-1]) for positions in numbers.ranges(command_ids))

    def has_asked(self, sender: Peer, reply: SessionDetached | SessionTimeout) -> bool:
        """Whether `sender` has sent the control that `reply` of the other peer answers, or may have sent it unseen."""
        if not self._context.knows_start:
            return True
        if isinstance(reply, SessionTimeout):
            return sender in self._timeouts
        return sender in self._detaching or bool(reply.code)

    def has_subscription(self, destination: str) -> bool:
        """Whether a subscription with this destination exists, or may have begun unseen."""
        return self._deliveries.has_subscription(destination)

    # --- snapshots

    def snapshot(self, *, is_unread: bool) -> ChannelSnapshot:
        """Return the state of the session, on a connection that the broker no longer reads if it `is_unread`.

        The mode is "dtx" while the outcome of its messages may depend on a branch, and `None` if anything else is
        unknown that outcomes depend on.
        """
        context, client, server = self._context, self._numbers[CLIENT].last, self._numbers[SERVER].last
        is_known = context.knows_start and context.mode is not None
        knows_ids = is_known or not (client is None or server is None)
        if context.is_unread and not (is_unread or self._closed_by):
            is_known = False
        unconfirmed, has_all = self._publishes.in_snapshot()
        unacked, subscriptions, knows_subscriptions = self._deliveries.in_snapshot()
        is_distributed = bool(self._branch or self._branches.of(self))
        has_all = has_all and not is_distributed and self._transactions.is_idle
        mode = "dtx" if is_distributed else "tx" if context.mode is TransactionMode.TX else "normal"
        return ChannelSnapshot(
            number=context.number,
            epoch=context.epoch,
            mode=mode if is_known else None,
            published=-1 if client is None else client,
            delivered=server if knows_ids else None,
            unconfirmed=unconfirmed if is_known else (),
            unacked=unacked if knows_ids else (),
            has_forgotten=context.has_forgotten or not (is_known and has_all),
            consumers=subscriptions,
            knows_consumers=knows_subscriptions,
            requests=tuple(self._requests_in_snapshot()) if knows_ids else (),
            contents=tuple(_content_in_snapshot(sender, each) for sender, each in self._partial.items()),
            opening_ts_ns=None if self.is_opened else self._attached_ts_ns,
            closing=tuple(map(str, self._closed_by)),
            name=self.name,
        )

    def _requests_in_snapshot(self) -> Iterator[RequestSnapshot]:
        for sender, pending in self._pending.items():
            for position, asked in pending.in_order:
                yield RequestSnapshot(
                    ts_ns=asked.ts_ns, sender=str(sender), method=asked.command.encode(), number=position
                )

    def restore(self, snapshot: ChannelSnapshot) -> None:
        """Take the state of a session of which nothing was seen. Raises `ValueError` if it is impossible."""
        if snapshot.mode not in _MODES:
            raise ValueError(f"channel {snapshot.number} is in the mode {snapshot.mode}, which no session has")
        context = self._context
        context.is_restored = True
        context.has_forgotten = snapshot.has_forgotten
        context.mode = _MODES[snapshot.mode]
        context.knows_start = context.knows_client = is_known = snapshot.mode is not None
        context.may_be_unread = not is_known
        self.name = snapshot.name
        self.is_opened = snapshot.opening_ts_ns is None
        self._attached_ts_ns = snapshot.opening_ts_ns
        self._closed_by = [Peer(each) for each in snapshot.closing]
        context.is_unread = bool(self._closed_by)
        under_way = {Peer(each.sender): each for each in snapshot.contents}
        if is_known or snapshot.delivered is not None:
            for sender, last in ((CLIENT, snapshot.published), (SERVER, snapshot.delivered)):
                if last is not None:
                    first = 0 if is_known else last + 1
                    self._numbers[sender].restore(first, last, is_under_way=last >= 0 and sender in under_way)
        for sender, content in under_way.items():
            self._restore_content(sender, content)
        self._deliveries.restore(snapshot)
        if is_known:
            self._publishes.restore(snapshot)
        for each in snapshot.requests:
            self._restore_request(each)
        pending = self._pending[CLIENT].in_order
        unanswered = {position for position, _ in pending}
        for position, asked in reversed(pending):
            if isinstance(asked.command, (MessageSubscribe, MessageCancel)):
                self._deliveries.restore_request(asked.command, position, unanswered)

    def _restore_content(self, sender: Peer, snapshot: ContentSnapshot) -> None:
        method = None if snapshot.method is None else _decoded(snapshot.method)
        if method is not None and not isinstance(method, MessageTransfer):
            raise ValueError(f"{method.name} in a snapshot is not a message")
        command = self._partial[sender] = PartialCommand(self._numbers[sender].begun, 0, is_digested=False)
        command.join(method, OVERHEAD + len(snapshot.method or b""))

    def _restore_request(self, snapshot: RequestSnapshot) -> None:
        method, position, sender = _decoded(snapshot.method), snapshot.number or 0, Peer(snapshot.sender)
        size = OVERHEAD + len(snapshot.method)
        is_kept = self._pending[sender].add(position, snapshot.ts_ns, method, size)
        if is_kept and sender is CLIENT and isinstance(method, _ENDS):
            self._transactions.commit(position)

    def _complete_joined(self, sender: Peer, command: PartialCommand, ts_ns: int) -> None:
        """Take a command whose beginning was not seen: without content, it may have been any, such as an accept."""
        if command.method is None and not command.has_content:
            self._lose_track(sender, "the beginning of a command was not seen", ts_ns)
        elif sender is SERVER:
            self._deliveries.complete_unknown(command, ts_ns)
        else:
            self._publishes.complete_unknown(command.position, ts_ns)

    # --- frames

    def feed_command_frame(self, sender: Peer, frame: Frame, ts_ns: int) -> None:
        """Take a frame of a command. Raises `ProtocolError` if it is malformed."""
        self._note_read(sender)
        if frame.begins_assembly:
            command = PartialCommand(self._numbers[sender].begin(), self._body, is_digested=self._digests)
            self._partial[sender] = command
        else:
            found = self._partial.get(sender)
            if found is None:
                return
            command = found
        try:
            is_complete = command.add(frame)
        except BaseException:
            self._partial.pop(sender, None)
            self._numbers[sender].finish()
            raise
        if is_complete:
            self._complete(sender, ts_ns)

    def _note_read(self, sender: Peer) -> None:
        """Note a frame of the server that none would follow if it had closed the session."""
        if sender is SERVER:
            self._context.may_be_unread = False

    def end_content(self, sender: Peer, ts_ns: int) -> None:
        if sender in self._partial and self._partial[sender].method is not None:
            self._complete(sender, ts_ns)

    def _complete(self, sender: Peer, ts_ns: int) -> None:
        command = self._partial.pop(sender)
        self._numbers[sender].finish()
        if command.is_joined:
            self._complete_joined(sender, command, ts_ns)
            return
        method: Command = command.method
        position = command.position
        if sender is CLIENT and self._context.is_lagging:
            self._last_lagging = position
        if sender is CLIENT and position is not None and not self._context.is_unread:
            self._pending[CLIENT].note(position, method, command.wire_size)
        handler = _COMMANDS[sender].get(type(method))
        if handler is not None:
            handler(self, command, ts_ns)
        else:
            self._request(sender, command, ts_ns)
        if self._context.budgets.spans.left < 0:
            self._keep_budget(ts_ns)

    def feed_control(self, sender: Peer, control: Control, ts_ns: int) -> None:
        """Take a control of the class session, except those that attach and detach."""
        self._note_read(sender)
        numbers = self._numbers
        match control:
            case SessionCommandPoint():
                self._point(sender, control)
            case SessionCompleted():
                for positions in numbers[sender.other].ranges(control.commands):
                    self._completed(sender, positions, ts_ns)
            case SessionGap():
                for positions in numbers[sender].ranges(control.commands):
                    if sender is CLIENT:
                        self._publishes.settle(Settlement.UNKNOWN, positions, self._branches.of(self), ts_ns)
                    self._pending[sender].take_all(positions)
            case SessionRequestTimeout():
                self._timeouts[sender] = (ts_ns, control)
            case SessionTimeout():
                asked = self._timeouts.pop(sender.other, None)
                self._answer(sender, asked, control, ts_ns)
            case _:
                pass

    def _point(self, sender: Peer, control: SessionCommandPoint) -> None:
        self._numbers[sender].point(control.command_id or 0)
        if control.command_id and sender is CLIENT and self._context.knows_start:
            self._context.lose_client()  # the session was attached before

    # --- the life of the session

    def attached(self, ts_ns: int) -> None:
        """Note the server's session.attached, and report it."""
        if self.is_opened:
            return
        self.is_opened = True
        context = self._context
        context.is_lagging, self._last_lagging = False, None  # the server has sent nothing on this session before
        latency = None if self._attached_ts_ns is None else ts_ns - self._attached_ts_ns
        name = None if self.name is None else self.name.decode("utf-8", "surrogateescape")
        context.events.append(ChannelOpened(ts_ns, *context.place, latency_ns=latency, session_name=name))

    def detach(self, sender: Peer, ts_ns: int) -> None:
        """Note session.detach of `sender`, and report it."""
        self._detaching.append(sender)
        self._close(sender, 0, "", ts_ns)

    def detached(self, sender: Peer, control: SessionDetached, ts_ns: int) -> None:
        """Report session.detached of `sender`; the caller has to `end` the session.

        A normal one answers a session.detach: if that was missed, the session was closed earlier.
        """
        code = control.code or 0
        if code or self._context.knows_start or self._closed_by:
            self._close(sender, code, _DETACH_TEXTS.get(code, ""), ts_ns)

    def _on_exception(self, sender: Peer, command: PartialCommand, ts_ns: int) -> None:
        exception: ExecutionException = command.method
        cause: Command | None = None
        if exception.command_id is not None:
            position = self._numbers[sender.other].position(exception.command_id)
            cause = None if position is None else self._pending[sender.other].find(position)
        named = METHODS.get((exception.failing_class_code or 0) << 8 | (exception.failing_command_code or 0))
        name = cause.name if cause is not None else None if named is None else named.name
        self._close(sender, exception.error_code or 0, exception.description or "", ts_ns, name, cause)

    def _close(
        self,
        sender: Peer,
        code: int,
        text: str,
        ts_ns: int,
        method: str | None = None,
        cause: Command | None = None,
    ) -> None:
        context = self._context
        context.is_unread = True
        is_first = not self._closed_by
        if sender not in self._closed_by:
            self._closed_by.append(sender)
        if not is_first:
            return
        context.events.append(
            ChannelClosed(ts_ns, *context.place, by=sender, code=code, text=text, method=method, cause=cause)
        )

    @property
    def is_closing(self) -> bool:
        return bool(self._closed_by)

    def lose(self, ts_ns: int, sender: Peer | None = None) -> None:
        context = self._context
        is_simple = context.mode is TransactionMode.NONE and not context.is_unread and not self._branches.of(self)
        if sender is SERVER and is_simple and context.knows_client and self.is_opened:
            self._lose_server(ts_ns)
        elif sender is CLIENT and is_simple and not context.may_be_unread:
            self._lose_client(ts_ns)
        else:
            self._lose_all(ts_ns)

    def _lose_server(self, ts_ns: int) -> None:
        """Forget what missed frames of the server may have settled; the ids of the client's commands remain known.

        Ids of later deliveries are unknown: transfers do not carry them, and accepts only name some of them.
        """
        self._publishes.end(Settlement.UNKNOWN, ts_ns)
        self._deliveries.end(Settlement.UNKNOWN, ts_ns)
        for pending in self._pending.values():
            pending.clear()
        self._numbers[SERVER].lose()
        self._partial.pop(SERVER, None)
        self._timeouts.clear()
        self._context.lose_broker()

    def _lose_client(self, ts_ns: int) -> None:
        """Forget what missed frames of the client may have changed; earlier commands are still answered by id."""
        self._deliveries.end(Settlement.UNKNOWN, ts_ns)
        self._deliveries.forget()
        self._pending[SERVER].clear()
        self._numbers[CLIENT].stop()
        self._partial.pop(CLIENT, None)
        self._timeouts.clear()
        self._context.lose_client()

    def _lose_all(self, ts_ns: int) -> None:
        self._settle_open(Settlement.UNKNOWN, ts_ns)
        for peer in Peer:
            self._pending[peer].clear()
            self._numbers[peer].lose()
        self._forget()
        self._context.lose()
        self.is_opened = True

    def end(self, ts_ns: int) -> None:
        context = self._context
        if self._last_lagging is not None:
            lagging = range(self._last_lagging + 1)
            self._pending[CLIENT].take_all(lagging)
            self._publishes.settle(Settlement.UNKNOWN, lagging, self._branches.of(self), ts_ns)
        unanswered = [
            (asked.ts_ns, peer, asked.command) for peer, pending in self._pending.items() for asked in pending.clear()
        ]
        # Missed frames may hide an exception: the session then has ended earlier than it seems.
        may_have_ended = context.may_be_unread
        for sent_ns, peer, request in () if may_have_ended else sorted(unanswered, key=lambda each: each[0]):
            context.events.append(
                RequestUnanswered(ts_ns, *context.place, sender=peer, request=request, latency_ns=ts_ns - sent_ns)
            )
        self._settle_open(Settlement.UNKNOWN if may_have_ended else Settlement.OPEN, ts_ns)
        self._forget()

    def _settle_open(self, outcome: Settlement, ts_ns: int) -> None:
        for work in self._branches.forget(self):
            # A prepared branch may yet be committed; the current one is rolled back.
            ending = outcome if work is self._branch else Settlement.UNKNOWN
            self._end_work(work, ending, ts_ns)
        self._branch = None
        self._deliveries.give_up(self._transactions.clear(), outcome, ts_ns)
        self._publishes.end(outcome, ts_ns)
        self._deliveries.end(outcome, ts_ns)

    def _forget(self) -> None:
        self._partial.clear()
        self._timeouts.clear()
        self._deliveries.forget()

    def _keep_budget(self, ts_ns: int) -> None:
        """Forget the older half of the runs, while there are too many: their outcome is unknown."""
        while self._context.budgets.spans.left < 0:
            has_published = self._publishes.forget_older_half(ts_ns)
            has_delivered = self._deliveries.forget_older_half(ts_ns)
            self._context.has_forgotten = True
            if not (has_published or has_delivered):
                self._deliveries.give_up(self._transactions.give_up(), Settlement.UNKNOWN, ts_ns)
                for work in self._branches.of(self):
                    self._end_work(work, Settlement.UNKNOWN, ts_ns)
                break

    # --- requests and replies

    def _request(self, sender: Peer, command: PartialCommand, ts_ns: int) -> None:
        context = self._context
        method: Command = command.method
        if sender is CLIENT and not context.is_unread:
            self._note_request(method, command.position, ts_ns)
            if self._transactions.are_too_many:
                self._lose_track(sender, "too many transactions are under way", ts_ns)
                return
        position = command.position
        is_awaited = position is not None and type(method) not in CREDIT
        if not (is_awaited and self._pending[sender].add(position or 0, ts_ns, method, command.wire_size)):
            context.events.append(RequestSent(ts_ns, *context.place, sender=sender, request=method))

    def _note_request(self, method: Command, position: int | None, ts_ns: int) -> None:
        """Pass a request of the client to the parts of the trace that it concerns."""
        context = self._context
        match method:
            case MessageSubscribe():
                self._deliveries.subscribe(method, position)
            case TxSelect():
                context.mode = TransactionMode.TX
            case DtxSelect():
                context.mode = TransactionMode.DTX
            case TxCommit() if position is not None:
                self._transactions.commit(position)
            case TxCommit():  # its completion cannot be told, since commands before it were missed
                self._deliveries.give_up(self._transactions.take(), Settlement.UNKNOWN, ts_ns)
            case TxRollback():
                ended = self._transactions
                self._deliveries.reopen(ended.take() if position is None else ended.roll_back(position))
            case DtxStart():
                context.mode = TransactionMode.DTX
                self._branch = self._branches.begin(key_of(method.xid), self, context.budgets.spans)
            case DtxEnd():
                context.learn_mode(TransactionMode.DTX)
                self._branch = None
            case _:
                pass

    def _completed(self, sender: Peer, positions: range, ts_ns: int) -> None:
        """Report commands of the other peer that `sender` has completed."""
        answered = self._pending[sender.other].take_all(positions)
        ends = [each for each in answered if type(each[1].command) in _ENDS]
        if sender is SERVER:
            self._confirm(positions, ts_ns)
            self._deliveries.completed(positions)
        for position, asked in answered:
            number = id_of(position)
            reply = SessionCompleted(commands=SequenceSet([(number, number)]))
            self._answer(sender, (asked.ts_ns, asked.command), reply, ts_ns)
            if isinstance(asked.command, MessageCancel):
                self._deliveries.cancelled(asked.command.destination or "", position)
        for position, asked in ends:
            self._end_transaction(position, asked, ts_ns)

    def _confirm(self, positions: range, ts_ns: int) -> None:
        """Report the publishes among completed commands: the server may have rejected one before, in missed frames."""
        known = 0 if self._last_lagging is None else self._last_lagging + 1
        if positions.start < known:
            doubted = range(positions.start, min(known, positions.stop))
            self._publishes.confirm(doubted, ts_ns, Settlement.UNKNOWN)
        self._publishes.confirm(range(max(known, positions.start), positions.stop), ts_ns)

    def _answer(
        self, sender: Peer, asked: tuple[int, Command | Control] | None, reply: Command | Control, ts_ns: int
    ) -> None:
        context = self._context
        context.events.append(
            RequestAnswered(
                ts_ns,
                context.number,
                context.epoch,
                sender=sender.other,
                request=None if asked is None else asked[1],
                reply=reply,
                latency_ns=None if asked is None else ts_ns - asked[0],
            )
        )

    def _on_result(self, sender: Peer, command: PartialCommand, ts_ns: int) -> None:
        result: ExecutionResult = command.method
        position = None if result.command_id is None else self._numbers[sender.other].position(result.command_id)
        asked = None if position is None else self._pending[sender.other].take(position)
        self._answer(sender, None if asked is None else (asked.ts_ns, asked.command), result, ts_ns)
        if asked is not None and isinstance(result.value, XaResult):
            self._note_branch(asked.command, result.value.status or 0, ts_ns)

    # --- publishes and deliveries

    def _on_publish(self, command: PartialCommand, ts_ns: int) -> None:
        self._publishes.publish(command, None if self._context.is_unread else self._branch, ts_ns)

    def _on_server_accept(self, command: PartialCommand, ts_ns: int) -> None:
        for positions in self._numbers[CLIENT].ranges(command.method.transfers):
            self._publishes.confirm(positions, ts_ns)

    def _on_server_reject(self, command: PartialCommand, ts_ns: int) -> None:
        reject: MessageReject = command.method
        for positions in self._numbers[CLIENT].ranges(reject.transfers):
            works = self._branches.of(self)
            self._publishes.reject(positions, reject.code or 0, reject.text or "", works, ts_ns)

    def _on_server_release(self, command: PartialCommand, ts_ns: int) -> None:
        for positions in self._numbers[CLIENT].ranges(command.method.transfers):
            self._publishes.settle(Settlement.NACKED, positions, self._branches.of(self), ts_ns)

    def _settle(self, outcome: Settlement, command: PartialCommand, ts_ns: int) -> None:
        if self._context.is_unread:
            return
        if not self._context.knows_start and command.method.transfers:
            self._numbers[SERVER].name(command.method.transfers)
        ranges = list(self._numbers[SERVER].ranges(command.method.transfers))
        work = self._branch if outcome is Settlement.ACKED else None
        self._deliveries.settle(outcome, command.method.name, ranges, work, ts_ns)

    # --- transactions

    def _end_transaction(self, position: int, asked: PendingCommand, ts_ns: int) -> None:
        """End a transaction whose tx.commit or tx.rollback the server has completed."""
        outcome = Settlement.COMMITTED if isinstance(asked.command, TxCommit) else Settlement.ROLLED_BACK
        self._publishes.end_transaction(position, outcome, ts_ns)
        for each in self._transactions.ended(position):
            self._context.events.append(msgspec.structs.replace(each.event, ts_ns=ts_ns))

    def _note_branch(self, method: Command, status: int, ts_ns: int) -> None:
        """Take the server's answer to a command about a branch."""
        match method:
            case DtxStart() if status != XaStatus.XA_OK:
                self._end_branch(key_of(method.xid), Settlement.UNKNOWN, ts_ns)
                self._branch = None
            case DtxCommit():
                self._end_branch(key_of(method.xid), _COMMITTED.get(status, Settlement.UNKNOWN), ts_ns)
            case DtxRollback():
                outcome = Settlement.COMMITTED if status == XaStatus.XA_HEURCOM else Settlement.ROLLED_BACK
                self._end_branch(key_of(method.xid), outcome, ts_ns)
            case _:
                pass

    def _end_branch(self, key: BranchKey, outcome: Settlement, ts_ns: int) -> None:
        for work in self._branches.end(key):
            owner = work.owner
            assert isinstance(owner, AttachmentTrace)
            owner._end_work(work, outcome, ts_ns)

    def _end_work(self, work: BranchWork, outcome: Settlement, ts_ns: int) -> None:
        self._publishes.end_branch(work, outcome, ts_ns)
        accepted = work.take_accepted()
        if outcome is Settlement.COMMITTED:
            for each in accepted:
                self._context.events.append(msgspec.structs.replace(each.event, ts_ns=ts_ns))
        else:  # brokers differ in who holds the deliveries after that
            ending = Settlement.OPEN if outcome is Settlement.OPEN else Settlement.UNKNOWN
            self._deliveries.give_up(accepted, ending, ts_ns)


def _content_in_snapshot(sender: Peer, command: PartialCommand) -> ContentSnapshot:
    """Return a command under way; its method is that of a transfer, if its first frame has all of it."""
    method = command.method.encode() if isinstance(command.method, MessageTransfer) else None
    return ContentSnapshot(sender=str(sender), method=method)


def _decoded(payload: bytes) -> Command:
    """Return the command with this payload. Raises `ValueError` if it is malformed."""
    try:
        command: Command = decode_method(COMMAND, payload)
    except ProtocolError as error:
        raise ValueError(f"a command in a snapshot is malformed: {error.reply_text}") from error
    return command


_MODES: dict[str | None, TransactionMode | None] = {
    None: None,
    "normal": TransactionMode.NONE,
    "tx": TransactionMode.TX,
    "dtx": None,
}
"""Mode of a restored session: whether a session in a branch has one is known at the next dtx.start or dtx.end."""

_ENDS = (TxCommit, TxRollback)

_COMMITTED: dict[int, Settlement] = {
    XaStatus.XA_OK: Settlement.COMMITTED,
    XaStatus.XA_RDONLY: Settlement.COMMITTED,
    XaStatus.XA_HEURCOM: Settlement.COMMITTED,
    XaStatus.XA_RBROLLBACK: Settlement.ROLLED_BACK,
    XaStatus.XA_RBTIMEOUT: Settlement.ROLLED_BACK,
    XaStatus.XA_HEURRB: Settlement.ROLLED_BACK,
}

_DETACH_TEXTS: dict[int, str] = {
    each: each.name.lower().replace("_", "-") for each in DetachCode if each is not DetachCode.NORMAL
}

_Handler = Callable[[AttachmentTrace, PartialCommand, int], object]

_COMMANDS: dict[Peer, dict[type[Any], _Handler]] = {
    CLIENT: {
        ExecutionException: lambda session, command, ts_ns: session._on_exception(CLIENT, command, ts_ns),
        ExecutionResult: lambda session, command, ts_ns: session._on_result(CLIENT, command, ts_ns),
        MessageAccept: lambda session, command, ts_ns: session._settle(Settlement.ACKED, command, ts_ns),
        MessageReject: lambda session, command, ts_ns: session._settle(Settlement.REJECTED, command, ts_ns),
        MessageRelease: lambda session, command, ts_ns: session._settle(Settlement.RECOVERED, command, ts_ns),
        MessageTransfer: AttachmentTrace._on_publish,
    },
    SERVER: {
        ExecutionException: lambda session, command, ts_ns: session._on_exception(SERVER, command, ts_ns),
        ExecutionResult: lambda session, command, ts_ns: session._on_result(SERVER, command, ts_ns),
        MessageAccept: AttachmentTrace._on_server_accept,
        MessageReject: AttachmentTrace._on_server_reject,
        MessageRelease: AttachmentTrace._on_server_release,
        MessageTransfer: lambda session, command, ts_ns: session._deliveries.deliver(command, ts_ns),
    },
}
"""Handler of each command, by its sender; all other commands are requests."""
