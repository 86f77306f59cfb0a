"""The server script of a recorded 0-10 connection."""

from __future__ import annotations

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
from amqproxy.amqp010.login import user_of
from amqproxy.amqp010.methods import Command, Method
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.amqp010.wire import Map
from amqproxy.conversion.amqp010.command_view import command_view
from amqproxy.conversion.client_name import QPID_NAMES
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.replay.amqp010.assembly_sent import AssemblySent
from amqproxy.replay.amqp010.session import ids_of
from amqproxy.replay.content_key import content_key
from amqproxy.replay.dialogue import ConnectionSteps
from amqproxy.replay.mocking.script_reading import ChannelReading, ScriptReading
from amqproxy.replay.mocking.server_script import AnswerKind, ChannelScript, Key, ScriptedCommand, ServerScript
from amqproxy.taps.text import pairs

NAMES = ("queue", "exchange", "binding_key", "destination", "name")
"""Fields that name the objects of a command."""

SETTLEMENTS = (MessageAccept, MessageReject, MessageRelease)

COMMITS, RETURNS = (TxCommit, DtxCommit), (TxRollback, DtxRollback, MessageRelease)
"""Commands that release the messages of a transaction, and commands that requeue messages."""

OF_THE_RUN = (ExecutionResult, ExecutionSync, MessageFlow, MessageFlush, MessageSetFlowMode, MessageStop, *SETTLEMENTS)
"""Commands that depend on the speed of deliveries, and are never a difference."""


def read_script(dialogue: ConnectionSteps) -> ServerScript[Assembly]:
    """Read the script of a recorded connection; its channels are the sessions, from their session.attach on."""
    return _Reading(ServerScript(NAME, dialogue.number, dialogue.connection), dialogue).read()


class _Session(ChannelReading[Assembly]):
    """State of a recorded session while it is read."""

    def __init__(self, script: ChannelScript[Assembly]) -> None:
        super().__init__(script)
        self.commands: dict[int, ScriptedCommand[Assembly]] = {}
        """Client commands by their ids, until they are completed."""
        self.unsettled: dict[int, ScriptedCommand[Assembly]] = {}
        """Client transfers by their ids, until they are settled."""
        self.has_failed = False


class _Reading(ScriptReading[Assembly, _Session]):
    """Reader of a connection's script from its steps."""

    CHANNEL = _Session

    # --- the client's commands

    def take_of_client(self, step: AssemblySent, method: Method) -> None:
        script, number = self.script, step.channel
        match method:
            case controls.ConnectionStartOk():
                properties = method.client_properties or Map()
                names = [properties.get(name) for name in QPID_NAMES]
                script.client_name = next((each for each in names if isinstance(each, str)), "")
                script.mechanism = method.mechanism or ""
                script.user = user_of(script.mechanism, method.response)
            case controls.ConnectionSecureOk():
                script.user = user_of(script.mechanism, method.response) or script.user
            case controls.ConnectionOpen():
                script.virtual_host = method.virtual_host or ""
            case controls.ConnectionClose() | controls.ConnectionCloseOk():
                self.is_closed = True
            case controls.SessionAttach():
                self.begin_channel(number)
            case controls.SessionCompleted():
                if number in self.channels:
                    self.channels[number].last_settlement_ns = step.ts_ns
            case _ if isinstance(method, Command):
                self._take_command(step, self.channels.get(number) or self.begin_channel(number))

    def _take_command(self, step: AssemblySent, session: _Session) -> None:
        method = step.command.method
        scripted = self.add_command(session, step.ts_ns, step.command, key_of(step.command))
        if step.command_id is not None:
            session.commands[step.command_id] = scripted
        match method:
            case MessageTransfer():
                if step.command_id is not None:
                    session.unsettled[step.command_id] = scripted
                self.note_publish(session, scripted, _content_key(CLIENT, step.command))
            case TxSelect() | DtxSelect():
                session.is_transacted = True
            case MessageSubscribe():
                session.consumers[method.destination or ""] = scripted
            case _ if isinstance(method, SETTLEMENTS):
                session.last_settlement_ns = step.ts_ns
        if isinstance(method, COMMITS):
            self.committed = scripted
        elif isinstance(method, RETURNS):
            self.returned = scripted

    # --- the server's commands

    def take_of_server(self, step: AssemblySent, method: Method) -> None:
        script = self.script
        match method:
            case controls.ConnectionStart():
                script.start = method
            case controls.ConnectionTune():
                script.tune = method
            case controls.ConnectionOpenOk():
                self.is_open = True
            case controls.ConnectionClose():
                self.is_closed = True
                if self.is_open:
                    self.answer(self.latest, AnswerKind.CONNECTION_CLOSE, step.ts_ns, step.command)
                else:
                    script.refused = method
            case _ if step.channel in self.channels:
                self._take_on_session(step, method, self.channels[step.channel])
            case _:
                pass

    def _take_on_session(self, step: AssemblySent, method: Method, session: _Session) -> None:
        ts_ns = step.ts_ns
        match method:
            case controls.SessionCompleted():
                for ids in ids_of(method.commands):
                    for each in [each for each in session.commands if each in ids]:
                        self.answer(session.commands.pop(each), AnswerKind.CONFIRM, ts_ns)
            case controls.SessionDetach() if not session.has_failed:
                self.answer(session.last, AnswerKind.CHANNEL_CLOSE, ts_ns)
            case ExecutionException():
                session.has_failed = True
                named = session.commands.get(method.command_id) if method.command_id is not None else None
                self.answer(named or session.last, AnswerKind.CHANNEL_CLOSE, ts_ns, step.command)
            case ExecutionResult():
                asked = session.commands.get(method.command_id or 0)
                self.answer(asked, AnswerKind.COMMAND, ts_ns, step.command)
            case MessageTransfer():
                self._take_delivery(step, method, session)
            case _ if isinstance(method, SETTLEMENTS):
                for ids in ids_of(method.transfers):
                    for each in [each for each in session.unsettled if each in ids]:
                        self.answer(session.unsettled.pop(each), AnswerKind.SETTLEMENT, ts_ns, step.command)
            case _ if isinstance(method, Command):  # message.flow, message.stop
                self.answer(session.last, AnswerKind.COMMAND, ts_ns, step.command)
            case _:
                pass

    def _take_delivery(self, step: AssemblySent, method: MessageTransfer, session: _Session) -> None:
        subscribe = session.consumers.get(method.destination or "")
        if subscribe is not None:
            self.add_delivery(
                session,
                subscribe,
                step.ts_ns,
                step.command,
                _content_key(SERVER, step.command),
                is_redelivered=bool(step.command.delivery_properties.redelivered),
                recorded_id=step.command_id,
            )


def _content_key(sender: Peer, assembly: Assembly) -> bytes:
    view = command_view(sender, assembly)
    assert view is not None  # of a transfer
    return content_key(view)


def key_of(command: Assembly) -> Key:
    """Return the key of a client command within its session; the command must have the recorded names."""
    names = _names(command)
    if not command.method.carries_content:  # the subscription's destination, which each client chooses anew
        names["destination"] = None
    return (command.method.name, *names.values())


def described(command: Assembly) -> str:
    """Return a command in a few words: its name, and the names in it."""
    return f"{command.method.name} {pairs({name: each for name, each in _names(command).items() if each})}".rstrip()


def _names(command: Assembly) -> dict[str, Any]:
    fields = command.method.to_dict()
    names = {name: fields.get(name) for name in NAMES}
    return {**names, "routing_key": command.delivery_properties.routing_key}
