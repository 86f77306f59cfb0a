"""One session of a live 0-10 client: the answers to its commands, and its deliveries."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Protocol

from msgspec.structs import replace

from amqproxy.amqp010 import controls
from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.commands import (
    ExchangeDeclare,
    ExecutionException,
    ExecutionResult,
    MessageCancel,
    MessageFlow,
    MessageFlush,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
)
from amqproxy.amqp010.credit import Credit
from amqproxy.amqp010.domains import FlowMode
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.results import Acquired, RecoverResult, Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.structs import Struct
from amqproxy.amqp010.wire import Array
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.peer import SERVER
from amqproxy.replay.amqp010.names import with_live_names, with_recorded_names
from amqproxy.replay.amqp010.session import ids_of, remember, set_of
from amqproxy.replay.mocking.amqp010.server_script import COMMITS, RETURNS, SETTLEMENTS
from amqproxy.replay.mocking.mock_channel import ChannelOwner, MockChannel, MockConsumer, Task
from amqproxy.replay.mocking.server_script import Answer, AnswerKind, ScriptedCommand
from amqproxy.replay.names import ConnectionNames
from amqproxy.rules.rewriting.name_fields import NameKind

AGAIN = frozenset({AnswerKind.CONFIRM, AnswerKind.SETTLEMENT, AnswerKind.COMMAND})
"""Kinds of answers that a repeated command gets again."""


class _Subscription(MockConsumer):
    """A live subscription, with its credit."""

    __slots__ = ("credit",)

    def __init__(self, destination: str, deliveries: list[Answer[Assembly]], now: float) -> None:
        super().__init__(destination, deliveries)
        self.credit = Credit()
        self.is_on = True
        self.since = now

    def has_credit(self, size: int) -> bool:
        """Return whether a message of this size in bytes may be sent."""
        messages, left = self.credit.messages, self.credit.size
        return (messages is None or messages > 0) and (left is None or left >= size)


class Amqp010SessionOwner(ChannelOwner[Assembly], Protocol):
    """The connection of a session."""

    xids: dict[Xid, Xid]
    """Live transaction branches, by the recorded ones."""


class Amqp010MockSession(MockChannel[Assembly]):
    """The server's side of a recorded session. It `has_news` while completions are unannounced."""

    _owner: Amqp010SessionOwner

    def __init__(self, number: int, name: bytes, owner: Amqp010SessionOwner, speed: float) -> None:
        super().__init__(number, owner, speed)
        self.name = name
        self._next_live = self._next_own = 0
        self._live_id = 0
        """The id of the client's latest command."""
        self._has_point = False
        self._done = CommandIds()
        self._delivered: OrderedDict[int, int] = OrderedDict()
        """Live command ids of delivered messages, by the recorded ones."""

    # --- the client's controls and commands

    def take_control(self, control: Method, now: float) -> None:
        """Take a control of the client."""
        match control:
            case controls.SessionCommandPoint():
                self._next_live = control.command_id or 0
            case controls.SessionRequestTimeout():
                self._send(controls.SessionTimeout(control.timeout))
            case controls.SessionFlush():
                self._answer_flush(control)
            case controls.SessionCompleted():
                for ids in ids_of(control.commands):
                    for each in self._consumers.values():
                        each.credit.completed(ids)
                if control.timely_reply:
                    self._send(controls.SessionKnownCompleted(control.commands))
                self._go_on_with_all(now)
            case controls.SessionDetach():
                self.is_over = True
                self._send(controls.SessionDetached(control.name_, 0))
            case controls.SessionDetached():
                self.is_over = True
            case _:
                pass

    def _answer_flush(self, flush: controls.SessionFlush) -> None:
        if flush.expected:
            self._send(controls.SessionExpected(SequenceSet([(self._next_live, self._next_live)])))
        if flush.confirmed:
            self._send(controls.SessionConfirmed(set_of(self._done)))
        if flush.completed:
            self.announce()

    def receive(self, live: Assembly) -> Assembly:
        self._live_id = self._next_live
        self._next_live = (self._live_id + 1) & 0xFFFF_FFFF
        return recorded_names(self._owner.names, live)

    def note(
        self,
        live: Assembly,
        scripted: ScriptedCommand[Assembly] | None,
        used: ScriptedCommand[Assembly] | None,
        now: float,
    ) -> None:
        method = live.method
        if isinstance(method, (*COMMITS, *RETURNS)):
            self._note_cause(scripted, now, is_return=isinstance(method, RETURNS))
        scripted = scripted or used
        xid = getattr(method, "xid", None)
        if scripted is not None and xid is not None:
            self._owner.xids[scripted.command.method.xid] = xid
        match method:
            case MessageTransfer():
                if scripted is not None:
                    recorded = scripted.command
                    contents = (live.header, live.body), (recorded.header, recorded.body)
                    self._owner.contents.add(scripted, *contents, now)
            case MessageSubscribe():
                deliveries = scripted.deliveries if scripted is not None else []
                destination = method.destination or ""
                self._consumers[destination] = _Subscription(destination, deliveries, now)
            case MessageCancel():
                self._end_subscription(method.destination or "")
            case QueueDeclare() | ExchangeDeclare() if scripted is not None:
                self._learn_declared(scripted.command.method, method)
            case MessageSetFlowMode() | MessageFlow() | MessageStop() | MessageFlush():
                found = self._consumers.get(method.destination or "")
                if found is not None:
                    self._set_credit(found, method, now)
            case _ if isinstance(method, SETTLEMENTS):
                self._go_on_with_all(now)

    def _end_subscription(self, destination: str) -> None:
        ended = self._consumers.pop(destination, None)
        if ended is not None:
            ended.is_on = False

    def _set_credit(self, subscription: _Subscription, method: Method, now: float) -> None:
        credit = subscription.credit
        match method:
            case MessageSetFlowMode():
                credit.mode = FlowMode.WINDOW if method.flow_mode == FlowMode.WINDOW else FlowMode.CREDIT
            case MessageFlow():
                credit.add(method.unit or 0, method.value)
                self._go_on(subscription, now)
            case _:  # message.stop, or message.flush, after which the unused credit is void
                credit.messages = credit.size = 0

    # --- answers

    def answer(
        self, live: Assembly, scripted: ScriptedCommand[Assembly] | None, now: float, *, is_repeated: bool = False
    ) -> None:
        answers = scripted.answers if scripted is not None else []
        for answer in answers:
            if scripted is not None and (not is_repeated or answer.kind in AGAIN):
                self._later(answer, scripted, now, self._live_id)
        if not {each.kind for each in answers} & {AnswerKind.CONFIRM, AnswerKind.CHANNEL_CLOSE}:
            self._complete(self._live_id)

    def refuse(self, code: int, text: str) -> None:
        """End the session with an execution.exception for its latest command."""
        self._send_command(ExecutionException(code, self._live_id, description=text))
        self._end()

    def _end(self) -> None:
        self.announce()
        self._send(controls.SessionDetach(self.name))
        self.is_over = True

    def _complete(self, live_id: int) -> None:
        self._done.extend(live_id, live_id + 1)
        self.has_news = True

    def announce(self) -> None:
        """Send session.completed with all completed commands of the client."""
        self.has_news = False
        self._send(controls.SessionCompleted(set_of(self._done)))

    def _answer_now(self, answer: Answer[Assembly], task: Task, now: float) -> None:
        live_id = task.live_id
        method: Any = None if answer.command is None else answer.command.method
        match answer.kind:
            case AnswerKind.CONFIRM:
                self._complete(live_id)
            case AnswerKind.CONNECTION_CLOSE:
                self._owner.close_connection(method)
            case AnswerKind.CHANNEL_CLOSE:
                if method is not None:
                    self._send_command(replace(method, command_id=None if method.command_id is None else live_id))
                self._end()
            case AnswerKind.SETTLEMENT:
                self._send_command(replace(method, transfers=SequenceSet([(live_id, live_id)])))
            case _ if isinstance(method, ExecutionResult):
                self._send_command(replace(method, command_id=live_id, value=self._live_result(method.value)))
            case _:
                self._send_command(method)

    def _live_result(self, value: Any) -> Any:
        """Return a result with the live names and ids."""
        if isinstance(value, Acquired):
            recorded = [each for ids in ids_of(value.transfers) for each in ids if each in self._delivered]
            live = sorted(self._delivered[each] for each in recorded)
            return replace(value, transfers=set_of(CommandIds.of(range(each, each + 1) for each in live)))
        if isinstance(value, RecoverResult):
            branches = [self._owner.xids.get(each, each) for each in value.in_doubt or ()]
            return replace(value, in_doubt=Array("struct32", branches))
        queue = getattr(value, "queue", None)
        return replace(value, queue=self._owner.names.shared.to_live(NameKind.QUEUE, queue)) if queue else value

    # --- deliveries

    def _is_return(self, scripted: ScriptedCommand[Assembly]) -> bool:
        return isinstance(scripted.command.method, RETURNS)

    def _deliver(self, delivery: Answer[Assembly], consumer: _Subscription) -> bool:
        message = self._live_message(delivery, consumer)
        header = message.header
        size = message.body_size + (len(header.encode()) if header is not None else 0)
        if not consumer.has_credit(size):
            return False
        consumer.credit.spend(self._next_own, size)
        if delivery.recorded_id is not None:
            remember(self._delivered, delivery.recorded_id, self._next_own)
        self._send_command(message.method, message)
        return True

    def _live_message(self, delivery: Answer[Assembly], subscription: _Subscription) -> Assembly:
        """Return a recorded message with the live names, and the content that the live client published instead."""
        assert delivery.command is not None
        recorded = delivery.command
        other = None if delivery.source is None else self._owner.contents.other_content(delivery.source)
        header, body = recorded.header, recorded.body
        if delivery.source is not None and other is not None:
            source = delivery.source.command
            header = _with_live(header, source.header, other[0])
            body = other[1] if body == source.body else body
        named = with_live_names(self._owner.names, SERVER, recorded.altered(header=header))
        method = replace(named.method, destination=subscription.tag)
        return Assembly(self.number, method, named.header, body if recorded.has_body or body else None)

    # --- sending

    def _send(self, control: Method) -> None:
        self._owner.send(Assembly(self.number, control))

    def _send_command(self, method: Method, whole: Assembly | None = None) -> None:
        """Send a command; `whole` is the command with its content."""
        if not self._has_point:
            self._has_point = True
            self._send(controls.SessionCommandPoint(0, 0))
        self._next_own += 1
        self._owner.send(whole or Assembly(self.number, method))


def recorded_names(names: ConnectionNames, live: Assembly) -> Assembly:
    """Return a client command with the recorded names; unchanged if they cannot be inserted."""
    try:
        return with_recorded_names(names, live)
    except (Inexpressible, ProtocolError, ProtocolError091):
        return live


def _with_live(delivered: Header | None, published: Header | None, live: Header | None) -> Header | None:
    """Return a delivered header, with the live publish's value of each field that equals the recorded publish's."""
    if delivered is None or published is None or live is None:
        return delivered
    then = {type(each): each for each in published.entries}
    now = {type(each): each for each in live.entries}
    entries = []
    for entry in delivered.entries:
        before, after = then.get(type(entry)), now.get(type(entry))
        if not isinstance(entry, Struct) or before is None or after is None:
            entries.append(entry)
            continue
        same = {name for name in entry.__struct_fields__ if getattr(entry, name) == getattr(before, name)}
        entries.append(replace(entry, **{name: getattr(after, name) for name in same}))
    return Header(tuple(entries))
