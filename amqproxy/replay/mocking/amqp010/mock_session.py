"""One session of a live client of AMQP 0-10: what answers its commands, and which messages it gets."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any, NamedTuple, Protocol

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
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.results import Acquired, RecoverResult, Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.structs import Struct
from amqproxy.amqp010.wire import Array
from amqproxy.peer import SERVER
from amqproxy.replay.amqp010.names import with_live_names
from amqproxy.replay.amqp010.session import ids_of, remember, set_of
from amqproxy.replay.mocking.amqp010.server_script import (
    COMMITS,
    RETURNS,
    SETTLEMENTS,
    Answer,
    AnswerKind,
    ScriptedAssembly,
    SessionScript,
)
from amqproxy.replay.mocking.live_contents import LiveContents
from amqproxy.replay.mocking.waiting_commands import WaitingCommands
from amqproxy.replay.names import ConnectionNames
from amqproxy.rules.rewriting.name_fields import NameKind

AGAIN = frozenset({AnswerKind.COMPLETION, AnswerKind.SETTLEMENT, AnswerKind.COMMAND})
"""What a command gets that is sent once more."""


class SessionOwner(Protocol):
    """The connection, to which a session says what is to be sent, and when."""

    names: ConnectionNames
    contents: LiveContents
    xids: dict[Xid, Xid]
    """Of recorded branches, the live ones."""

    def send(self, assembly: Assembly) -> None:
        """Send a control or command of the server."""

    def close_connection(self, close: controls.ConnectionClose) -> None:
        """Close the connection as the recorded server did."""

    def hang_up(self) -> None:
        """Close the socket without a word."""

    def later(self, when: float, order: int, session: Amqp010MockSession, task: Task) -> None:
        """Have `session` perform a task at that time, in the order of the recording."""


class Task(NamedTuple):
    """What is to be done later: an answer to a live command, or, without one, the next message of a subscription."""

    answer: Answer | None = None
    live_id: int = 0
    subscription: MockSubscription | None = None


class MockSubscription:
    """A live subscription, and what the recorded one got."""

    __slots__ = ("credit", "deliveries", "destination", "due", "is_on", "place", "since", "waits_for")

    def __init__(self, destination: str, deliveries: list[Answer], now: float) -> None:
        self.destination = destination
        self.deliveries = deliveries
        self.credit = Credit()
        self.place = 0
        self.is_on = True
        self.since = now
        """When the latest of what leads to the next message happened."""
        self.due: float | None = None
        """When it is next to be looked whether there is something to send."""
        self.waits_for: ScriptedAssembly | None = None
        """The command without which nothing more comes."""

    def has_credit(self, size: int) -> bool:
        """May a message of so many bytes be sent?"""
        messages, left = self.credit.messages, self.credit.size
        return (messages is None or messages > 0) and (left is None or left >= size)


class Amqp010MockSession:
    """Plays the server's side of a recorded session; `speed` is how many times as fast, 0 without any delay.

    `script` is None until the live client has done what shows which session it is. It `has_news` where commands are
    completed that the client does not know of.
    """

    def __init__(self, number: int, name: bytes, owner: SessionOwner, speed: float) -> None:
        self.number = number
        self.name = name
        self.script: SessionScript | None = None
        self.waiting: WaitingCommands[ScriptedAssembly] = WaitingCommands([])
        self.is_over = self.has_news = False
        self._owner = owner
        self._speed = speed
        self._next_live = self._next_own = 0
        self._has_point = False
        self._done = CommandIds()
        self._subscriptions: dict[str, MockSubscription] = {}
        self._delivered: OrderedDict[int, int] = OrderedDict()
        """Of recorded messages, the ids of the live ones."""

    def bind(self, script: SessionScript) -> None:
        """Play this one."""
        self.script = script
        self.waiting = WaitingCommands(script.commands)

    # --- what the client sends

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
                    for each in self._subscriptions.values():
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

    def number_command(self) -> int:
        """The id of a command that the client sends now."""
        number = self._next_live
        self._next_live = (number + 1) & 0xFFFF_FFFF
        return number

    def note(self, live: Assembly, scripted: ScriptedAssembly | None, now: float) -> None:
        """Take what the client has sent, before it is answered: what it changes in this session."""
        method = live.method
        if scripted is not None and isinstance(method, (*COMMITS, *RETURNS)):
            self._owner.contents.note(scripted, now)
        xid = getattr(method, "xid", None)
        if scripted is not None and xid is not None:
            self._owner.xids[scripted.command.method.xid] = xid
        match method:
            case MessageTransfer():
                if scripted is not None:
                    recorded = scripted.command
                    contents = (live.header, live.body), (recorded.header, recorded.body)
                    self._owner.contents.add_content(scripted, *contents, now)
            case MessageSubscribe():
                deliveries = scripted.deliveries if scripted is not None else []
                destination = method.destination or ""
                self._subscriptions[destination] = MockSubscription(destination, deliveries, now)
            case MessageCancel():
                self._end_subscription(method.destination or "")
            case QueueDeclare() | ExchangeDeclare():
                if scripted is not None:
                    self._learn_name(scripted.command.method, method)
            case MessageSetFlowMode() | MessageFlow() | MessageStop() | MessageFlush():
                found = self._subscriptions.get(method.destination or "")
                if found is not None:
                    self._set_credit(found, method, now)
            case _ if isinstance(method, SETTLEMENTS):
                self._go_on_with_all(now)

    def _learn_name(self, recorded: Any, live: Any) -> None:
        kind, field = (NameKind.QUEUE, "queue") if isinstance(live, QueueDeclare) else (NameKind.EXCHANGE, "exchange")
        one, other = getattr(recorded, field, None), getattr(live, field)
        if one and other and one != other:
            self._owner.names.shared.learn(kind, one, other)

    def _end_subscription(self, destination: str) -> None:
        ended = self._subscriptions.pop(destination, None)
        if ended is not None:
            ended.is_on = False

    def _set_credit(self, subscription: MockSubscription, method: Method, now: float) -> None:
        credit = subscription.credit
        match method:
            case MessageSetFlowMode():
                credit.mode = FlowMode.WINDOW if method.flow_mode == FlowMode.WINDOW else FlowMode.CREDIT
            case MessageFlow():
                credit.add(method.unit or 0, method.value)
                self._go_on(subscription, now)
            case _:  # message.stop; message.flush, by which all has been sent that was due
                credit.messages = credit.size = 0

    # --- what answers it

    def answer(self, live_id: int, scripted: ScriptedAssembly | None, now: float, *, is_repeated: bool = False) -> None:
        """Answer a live command as the recorded one was; without one, it is completed."""
        answers = scripted.answers if scripted is not None else []
        kinds = {each.kind for each in answers}
        for answer in answers:
            if not is_repeated or answer.kind in AGAIN:
                when = now + (answer.delay / self._speed if self._speed else 0.0)
                self._owner.later(when, answer.order, self, Task(answer, live_id))
        if not kinds & {AnswerKind.COMPLETION, AnswerKind.EXCEPTION, AnswerKind.DETACH}:
            self._complete(live_id)

    def refuse(self, live_id: int, code: int, text: str) -> None:
        """End the session with an exception."""
        self._send_command(ExecutionException(code, live_id, description=text))
        self._end()

    def _end(self) -> None:
        self.announce()
        self._send(controls.SessionDetach(self.name))
        self.is_over = True

    def _complete(self, live_id: int) -> None:
        self._done.extend(live_id, live_id + 1)
        self.has_news = True

    def announce(self) -> None:
        """Tell the client which of its commands are completed."""
        self.has_news = False
        self._send(controls.SessionCompleted(set_of(self._done)))

    def perform(self, task: Task, now: float) -> None:
        """Do what was to be done at this time."""
        if task.subscription is not None:
            task.subscription.due = None
            self._go_on(task.subscription, now)
            return
        answer = task.answer
        assert answer is not None
        match answer.kind:
            case AnswerKind.COMPLETION:
                self._complete(task.live_id)
            case AnswerKind.HANG_UP:
                self._owner.hang_up()
            case AnswerKind.DETACH:
                self._end()
            case _:
                assert answer.assembly is not None
                self._perform(answer.kind, answer.assembly.method, task.live_id)

    def _perform(self, kind: AnswerKind, method: Any, live_id: int) -> None:
        match kind:
            case AnswerKind.CONNECTION_CLOSE:
                self._owner.close_connection(method)
            case AnswerKind.EXCEPTION:
                self._send_command(replace(method, command_id=None if method.command_id is None else live_id))
                self._end()
            case AnswerKind.SETTLEMENT:
                self._send_command(replace(method, transfers=SequenceSet([(live_id, live_id)])))
            case _ if isinstance(method, ExecutionResult):
                self._send_command(replace(method, command_id=live_id, value=self._live_result(method.value)))
            case _:
                self._send_command(method)

    def _live_result(self, value: Any) -> Any:
        """A result with the live names and ids."""
        if isinstance(value, Acquired):
            recorded = [each for ids in ids_of(value.transfers) for each in ids if each in self._delivered]
            live = sorted(self._delivered[each] for each in recorded)
            return replace(value, transfers=set_of(CommandIds.of(range(each, each + 1) for each in live)))
        if isinstance(value, RecoverResult):
            branches = [self._owner.xids.get(each, each) for each in value.in_doubt or ()]
            return replace(value, in_doubt=Array("struct32", branches))
        queue = getattr(value, "queue", None)
        return replace(value, queue=self._owner.names.shared.to_live(NameKind.QUEUE, queue)) if queue else value

    # --- messages

    def _go_on_with_all(self, now: float) -> None:
        for each in list(self._subscriptions.values()):
            each.since = max(each.since, now)
            self._go_on(each, now)

    def _go_on(self, subscription: MockSubscription, now: float) -> None:
        """Send what a subscription may have now, and come back when it may have the next."""
        while subscription.is_on and subscription.place < len(subscription.deliveries) and not self.is_over:
            delivery = subscription.deliveries[subscription.place]
            since = subscription.since
            if delivery.cause is not None:
                happened = self._owner.contents.when(delivery.cause)
                if happened is None:
                    if subscription.waits_for is not delivery.cause:
                        subscription.waits_for = delivery.cause
                        self._owner.contents.wait(delivery.cause, partial(self._go_on, subscription))
                    return
                since = max(since, happened)
            due = since + (delivery.delay / self._speed if self._speed else 0.0)
            if now < due:
                if subscription.due is None or due < subscription.due:
                    subscription.due = due
                    self._owner.later(due, delivery.order, self, Task(subscription=subscription))
                return
            message = self._live_message(delivery, subscription)
            header = message.header
            size = message.body_size + (len(header.encode()) if header is not None else 0)
            if not subscription.has_credit(size):
                return
            subscription.credit.spend(self._next_own, size)
            subscription.place += 1
            subscription.since = due
            if delivery.recorded_id is not None:
                remember(self._delivered, delivery.recorded_id, self._next_own)
            self._send_command(message.method, message)

    def _live_message(self, delivery: Answer, subscription: MockSubscription) -> Assembly:
        """A recorded message with the live names, and what the live client has published in its place."""
        assert delivery.assembly is not None
        recorded = delivery.assembly
        other = None if delivery.source is None else self._owner.contents.other_content(delivery.source)
        header, body = recorded.header, recorded.body
        if delivery.source is not None and other is not None:
            source = delivery.source.command
            header = _with_live(header, source.header, other[0])
            body = other[1] if body == source.body else body
        named = with_live_names(self._owner.names, SERVER, recorded.altered(header=header))
        method = replace(named.method, destination=subscription.destination)
        return Assembly(self.number, method, named.header, body if recorded.has_body or body else None)

    # --- to send

    def _send(self, control: Method) -> None:
        self._owner.send(Assembly(self.number, control))

    def _send_command(self, method: Method, whole: Assembly | None = None) -> None:
        """Send a command; `whole` is it with its content."""
        if not self._has_point:
            self._has_point = True
            self._send(controls.SessionCommandPoint(0, 0))
        self._next_own += 1
        self._owner.send(whole or Assembly(self.number, method))


def _with_live(delivered: Header | None, published: Header | None, live: Header | None) -> Header | None:
    """A recorded message's header, with what was published live of all that was the same as what was published then."""
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
