"""What the server of a recorded connection of AMQP 0-10 answered to what, as `server_script` has it of 0-9-1."""

from __future__ import annotations

from enum import Enum, auto
from functools import cached_property
from typing import Any

from amqproxy.amqp010 import controls
from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import (
    DtxCommit,
    DtxRollback,
    DtxSelect,
    ExecutionException,
    ExecutionResult,
    ExecutionSync,
    MessageAccept,
    MessageFlow,
    MessageFlush,
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
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.login import NAME_PROPERTIES, user_of
from amqproxy.amqp010.methods import Command, Method
from amqproxy.amqp010.wire import Map
from amqproxy.conversion.command_view import command_view
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.replay.amqp010.session import ids_of
from amqproxy.replay.content_key import content_key
from amqproxy.replay.dialogue import ConnectionSteps
from amqproxy.replay.mocking.command_key import Key, shape_of_key
from amqproxy.replay.steps import AssemblySent, ConnectionEnded
from amqproxy.taps.text import pairs

NAMES = ("queue", "exchange", "binding_key", "destination", "name")
"""Fields that say what a command is about."""

SETTLEMENTS = (MessageAccept, MessageReject, MessageRelease)

COMMITS, RETURNS = (TxCommit, DtxCommit), (TxRollback, DtxRollback, MessageRelease)
"""What lets messages of a transaction go, and what gives messages back."""

OF_THE_RUN = (ExecutionResult, ExecutionSync, MessageFlow, MessageFlush, MessageSetFlowMode, MessageStop, *SETTLEMENTS)
"""Commands that depend on how fast messages come, and are never a difference."""


class AnswerKind(Enum):
    """How an answer goes out."""

    COMMAND = auto()
    """As it is: a result with the id of the live command, or what the server sent unasked."""
    COMPLETION = auto()
    """In the next session.completed."""
    SETTLEMENT = auto()
    """As message.accept, reject or release of the live transfer."""
    EXCEPTION = auto()
    """With the id of the live command, and the end of the session behind it."""
    DETACH = auto()
    """The server has detached without an exception."""
    CONNECTION_CLOSE = auto()
    HANG_UP = auto()
    """The server closed the socket."""


class Answer:
    """What the server sent `delay` seconds after a command of the client.

    `order` numbers what the server did; `recorded_id` is the id of its own command. Of a message, `source` is the
    client's transfer that it came from, if it was on the same connection, and `cause` the command without which it does
    not come: that transfer, the commit of its transaction, or what has given back a message that comes again.
    """

    __slots__ = ("assembly", "cause", "delay", "kind", "order", "recorded_id", "source")

    def __init__(
        self,
        kind: AnswerKind,
        order: int,
        delay: float,
        assembly: Assembly | None = None,
        *,
        recorded_id: int | None = None,
        source: ScriptedAssembly | None = None,
        cause: ScriptedAssembly | None = None,
    ) -> None:
        self.kind = kind
        self.order = order
        self.delay = max(0.0, delay)
        self.assembly = assembly
        self.recorded_id = recorded_id
        self.source = source
        self.cause = cause


class ScriptedAssembly:
    """A command of the recorded client, and what the server answered. `number` is its place among all of them."""

    __slots__ = ("answers", "command", "deliveries", "key", "number", "ts_ns")

    def __init__(self, number: int, ts_ns: int, command: Assembly) -> None:
        self.number = number
        self.ts_ns = ts_ns
        self.command = command
        self.key = key_of(command)
        self.answers: list[Answer] = []
        self.deliveries: list[Answer] = []
        """Of a message.subscribe: what came, each with its delay since the latest of what led to it."""


class SessionScript:
    """One session, from its session.attach on: what the client did on it, in order."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.commands: list[ScriptedAssembly] = []

    @cached_property
    def shapes(self) -> frozenset[Key]:
        """What its commands are known by, without what was generated in names."""
        return frozenset(shape_of_key(each.key) for each in self.commands)


class Amqp010ServerScript:
    """One recorded connection; `channels` are its sessions, and all else is as in `Amqp091ServerScript`."""

    def __init__(self, dialogue: ConnectionSteps) -> None:
        self.stream = dialogue.number
        self.name_of_ends = dialogue.connection
        self.client_name = self.user = self.mechanism = ""
        self.virtual_host: str | None = None
        self.start: controls.ConnectionStart | None = None
        self.tune: controls.ConnectionTune | None = None
        self.refused: controls.ConnectionClose | None = None
        self.channels: list[SessionScript] = []
        _Reading(self, dialogue).read()


class _Session:
    """What is known of a recorded session while it is read."""

    def __init__(self, script: SessionScript) -> None:
        self.script = script
        self.commands: dict[int, ScriptedAssembly] = {}
        """The client's, by their ids, as long as they are not completed."""
        self.unsettled: dict[int, ScriptedAssembly] = {}
        """The client's transfers, by their ids."""
        self.subscriptions: dict[str, ScriptedAssembly] = {}
        self.last: ScriptedAssembly | None = None
        self.last_settlement_ns = 0
        self.has_failed = self.is_transacted = False


class _Reading:
    """Makes the script of a connection from its steps."""

    def __init__(self, script: Amqp010ServerScript, dialogue: ConnectionSteps) -> None:
        self._script = script
        self._dialogue = dialogue
        self._sessions: dict[int, _Session] = {}
        self._latest: ScriptedAssembly | None = None
        self._is_open = self._is_closed = False
        self._numbers = self._orders = 0
        self._published: dict[bytes, list[ScriptedAssembly]] = {}
        self._claimed: dict[tuple[int, bytes], int] = {}
        self._delivered_ns: dict[int, int] = {}
        self._transacted: set[int] = set()
        """The transfers in transactions, by their numbers."""
        self._committed: ScriptedAssembly | None = None
        self._returned: ScriptedAssembly | None = None

    def read(self) -> None:
        for step in self._dialogue.steps:
            if isinstance(step, AssemblySent):
                try:
                    method, _ = step.assembly.method, step.assembly.header
                except ProtocolError:
                    continue
                if step.sender is CLIENT:
                    self._take_of_client(step, method)
                else:
                    self._orders += 1
                    self._take_of_server(step, method)
            elif isinstance(step, ConnectionEnded) and step.by is SERVER and not self._is_closed:
                self._answer(self._latest, AnswerKind.HANG_UP, step.ts_ns)

    # --- what the client sent

    def _take_of_client(self, step: AssemblySent, method: Method) -> None:
        script, number = self._script, step.channel
        match method:
            case controls.ConnectionStartOk():
                properties = method.client_properties or Map()
                names = [properties.get(name) for name in NAME_PROPERTIES]
                script.client_name = next((each for each in names if isinstance(each, str)), "")
                script.mechanism = method.mechanism or ""
                script.user = user_of(script.mechanism, method.response)
            case controls.ConnectionSecureOk():
                script.user = user_of(script.mechanism, method.response) or script.user
            case controls.ConnectionOpen():
                script.virtual_host = method.virtual_host or ""
            case controls.ConnectionClose() | controls.ConnectionCloseOk():
                self._is_closed = True
            case controls.SessionAttach():
                self._begin_session(number)
            case controls.SessionCompleted():
                if number in self._sessions:
                    self._sessions[number].last_settlement_ns = step.ts_ns
            case _ if isinstance(method, Command):
                self._take_command(step, self._sessions.get(number) or self._begin_session(number))

    def _begin_session(self, number: int) -> _Session:
        session = self._sessions[number] = _Session(SessionScript(number))
        self._script.channels.append(session.script)
        return session

    def _take_command(self, step: AssemblySent, session: _Session) -> None:
        method = step.assembly.method
        self._numbers += 1
        scripted = ScriptedAssembly(self._numbers, step.ts_ns, step.assembly)
        session.script.commands.append(scripted)
        session.last = self._latest = scripted
        if step.command_id is not None:
            session.commands[step.command_id] = scripted
        match method:
            case MessageTransfer():
                if step.command_id is not None:
                    session.unsettled[step.command_id] = scripted
                if session.is_transacted:
                    self._transacted.add(scripted.number)
                self._published.setdefault(_content_key(CLIENT, step.assembly), []).append(scripted)
            case TxSelect() | DtxSelect():
                session.is_transacted = True
            case MessageSubscribe():
                session.subscriptions[method.destination or ""] = scripted
            case _ if isinstance(method, SETTLEMENTS):
                session.last_settlement_ns = step.ts_ns
        if isinstance(method, COMMITS):
            self._committed = scripted
        elif isinstance(method, RETURNS):
            self._returned = scripted

    # --- what the server sent

    def _take_of_server(self, step: AssemblySent, method: Method) -> None:
        script = self._script
        match method:
            case controls.ConnectionStart():
                script.start = method
            case controls.ConnectionTune():
                script.tune = method
            case controls.ConnectionOpenOk():
                self._is_open = True
            case controls.ConnectionClose():
                self._is_closed = True
                if self._is_open:
                    self._answer(self._latest, AnswerKind.CONNECTION_CLOSE, step.ts_ns, step.assembly)
                else:
                    script.refused = method
            case _ if step.channel in self._sessions:
                self._take_on_session(step, method, self._sessions[step.channel])
            case _:
                pass

    def _take_on_session(self, step: AssemblySent, method: Method, session: _Session) -> None:
        ts_ns = step.ts_ns
        match method:
            case controls.SessionCompleted():
                for ids in ids_of(method.commands):
                    for each in [each for each in session.commands if each in ids]:
                        self._answer(session.commands.pop(each), AnswerKind.COMPLETION, ts_ns)
            case controls.SessionDetach() if not session.has_failed:
                self._answer(session.last, AnswerKind.DETACH, ts_ns)
            case ExecutionException():
                session.has_failed = True
                named = session.commands.get(method.command_id) if method.command_id is not None else None
                self._answer(named or session.last, AnswerKind.EXCEPTION, ts_ns, step.assembly)
            case ExecutionResult():
                asked = session.commands.get(method.command_id or 0)
                self._answer(asked, AnswerKind.COMMAND, ts_ns, step.assembly)
            case MessageTransfer():
                self._take_delivery(step, method, session)
            case _ if isinstance(method, SETTLEMENTS):
                for ids in ids_of(method.transfers):
                    for each in [each for each in session.unsettled if each in ids]:
                        self._answer(session.unsettled.pop(each), AnswerKind.SETTLEMENT, ts_ns, step.assembly)
            case _ if isinstance(method, Command):  # message.flow, message.stop
                self._answer(session.last, AnswerKind.COMMAND, ts_ns, step.assembly)
            case _:
                pass

    def _answer(
        self, to: ScriptedAssembly | None, kind: AnswerKind, ts_ns: int, assembly: Assembly | None = None
    ) -> None:
        if to is not None:  # else it answers what was not captured
            to.answers.append(Answer(kind, self._orders, (ts_ns - to.ts_ns) / 1e9, assembly))

    def _take_delivery(self, step: AssemblySent, method: MessageTransfer, session: _Session) -> None:
        subscribe = session.subscriptions.get(method.destination or "")
        if subscribe is None:
            return
        source = self._source(step.assembly, subscribe)
        cause = self._cause(step.assembly, source)
        since = [subscribe.ts_ns, self._delivered_ns.get(subscribe.number, 0), session.last_settlement_ns]
        if cause is not None:
            since.append(cause.ts_ns)
        self._delivered_ns[subscribe.number] = step.ts_ns
        delay = (step.ts_ns - max(since)) / 1e9
        subscribe.deliveries.append(
            Answer(
                AnswerKind.COMMAND,
                self._orders,
                delay,
                step.assembly,
                recorded_id=step.command_id,
                source=source,
                cause=cause,
            )
        )

    def _cause(self, delivered: Assembly, source: ScriptedAssembly | None) -> ScriptedAssembly | None:
        if delivered.delivery_properties.redelivered and self._returned is not None:
            return self._returned
        committed = self._committed
        if source is None or committed is None or source.number not in self._transacted:
            return source
        return committed if committed.number > source.number else source

    def _source(self, delivered: Assembly, subscribe: ScriptedAssembly) -> ScriptedAssembly | None:
        """The transfer that a message came from: for each subscription, the nth that is alike of the nth."""
        key = _content_key(SERVER, delivered)
        publishes = self._published.get(key)
        if not publishes:
            return None
        place = (subscribe.number, key)
        number = self._claimed.get(place, 0)
        if not delivered.delivery_properties.redelivered:
            self._claimed[place] = number + 1
        return publishes[min(number, len(publishes) - 1)]


def _content_key(sender: Peer, assembly: Assembly) -> bytes:
    view = command_view(sender, assembly)
    assert view is not None  # of a transfer
    return content_key(view)


def key_of(command: Assembly) -> Key:
    """What a command of a client is known by, among those of its session; it must have the names of the recording."""
    names = _names(command)
    if not command.method.carries_content:  # a subscription's: each client chooses another
        names["destination"] = None
    return (command.method.name, *names.values())


def described(command: Assembly) -> str:
    """A command in a few words: its name, and the names in it."""
    return f"{command.method.name} {pairs({name: each for name, each in _names(command).items() if each})}".rstrip()


def _names(command: Assembly) -> dict[str, Any]:
    fields = command.method.to_dict()
    names = {name: fields.get(name) for name in NAMES}
    return {**names, "routing_key": command.delivery_properties.routing_key}
