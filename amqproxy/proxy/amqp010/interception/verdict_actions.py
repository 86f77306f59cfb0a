"""Translation of rule verdicts on controls and commands into actions."""

from __future__ import annotations

from msgspec.structs import replace

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionResult, MessageCancel, MessageSubscribe, MessageTransfer, QueueDelete
from amqproxy.amqp010.controls import (
    ConnectionTune,
    ConnectionTuneOk,
    SessionAttach,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
)
from amqproxy.amqp010.domains import AcceptMode
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import BY_INDEX, Command, Method
from amqproxy.amqp091.commands import Command as View
from amqproxy.amqp091.errors import Scope as Scope091
from amqproxy.amqp091.errors import reply_text
from amqproxy.conversion.amqp010.awaited_deletes import delete_answer
from amqproxy.conversion.amqp010.command_view import changed_assembly, command_view, view_channel
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.interception.actions import Forget, Insert, Send
from amqproxy.proxy.amqp010.interception.answers import answer_to, inserted
from amqproxy.proxy.amqp010.interception.encoding import altered, encoded, placeholder
from amqproxy.proxy.amqp010.interception.evaluation import Amqp010Evaluation
from amqproxy.proxy.amqp010.interception.id_translation import HAS_IDS, translated
from amqproxy.proxy.amqp010.interception.known_exchanges import SHOWS_EXCHANGES, KnownExchanges
from amqproxy.proxy.amqp010.interception.legs import Legs
from amqproxy.proxy.amqp010.interception.path import Cause, ChannelPaths, Path, Pending, Rest, cost
from amqproxy.proxy.amqp010.interception.tap_notes import note_for
from amqproxy.proxy.interception.actions import Actions, CloseChannel, CloseConnection, Decide, LogVerdict, Wait
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.rules.verdict import Answer, Close, Insertion, Stage, Verdict
from amqproxy.taps.note import NOTHING, Note

INTERNAL_ERROR = 541

WITH_DESTINATION = frozenset(
    cls.index
    for cls in BY_INDEX
    if cls.name in {f"message.{name}" for name in ("set-flow-mode", "flow", "flush", "stop", "resume", "cancel")}
)
"""Commands that name an existing subscription."""


class VerdictActions:
    """Actions for the controls and commands of one connection, given the verdicts of rules."""

    def __init__(self, legs: Legs, evaluation: Amqp010Evaluation, exchanges: KnownExchanges) -> None:
        self._connections = legs.connections
        self._legs = legs
        self._evaluation = evaluation
        self._exchanges = exchanges
        self._tune: ConnectionTune | None = None

    def judge(self, channel: ChannelPaths, path: Path, pending: Pending, stage: Stage | None = None) -> Actions:
        """Evaluate the rules for a command if they concern it, and otherwise forward it."""
        sender, assembly, view = path.sender, pending.assembly, pending.view
        if isinstance(assembly.method, ConnectionTuneOk) and self._tune is not None:
            pending = self._with_offered_limits(pending, assembly.method, self._tune)
            assembly, view = pending.assembly, pending.view
        if view.frames[0].channel == 0 and view.index >= 0 and sender is CLIENT:
            self._evaluation.learn(assembly.method)
        if not self._evaluation.wants(sender, assembly.index):
            stage = Stage.NOTHING
        if stage is None:
            stage = self._evaluation.stage(sender, view, assembly)
        if stage is Stage.NOTHING:
            self._note_command(channel, pending)
            yield from self.forward(channel, path, pending.frames, assembly)
            if not pending.is_complete:
                path.rest = Rest.PASSES
            return
        yield Decide(path, view, pending)

    def _with_offered_limits(self, pending: Pending, answer: ConnectionTuneOk, tune: ConnectionTune) -> Pending:
        """Complete the client's tune-ok with the limits offered to it: the broker may have offered larger ones."""
        full = replace(
            answer,
            channel_max=tune.channel_max if answer.channel_max is None else answer.channel_max,
            max_frame_size=tune.max_frame_size if answer.max_frame_size is None else answer.max_frame_size,
        )
        if full == answer:
            return pending
        assembly = pending.assembly.altered(full)
        view = command_view(CLIENT, assembly)
        assert view is not None
        return Pending(CLIENT, encoded(assembly, 0), assembly, 0, view)

    def carry_out(self, channel: ChannelPaths, path: Path, pending: Pending, verdict: Verdict) -> Actions:
        """Carry out a verdict on a command."""
        for insertion in verdict.insertions:
            if insertion.is_ahead or insertion.after > 0:
                yield from self._send_insertion(path, pending, insertion)
        if verdict.delay > 0 or verdict.hold is not None:
            yield Wait(path, WaitingCommand(pending.view, verdict, cost(pending.frames), pending))
        else:
            yield from self.settle(channel, path, pending, verdict)

    def settle(self, channel: ChannelPaths, path: Path, pending: Pending, verdict: Verdict) -> Actions:
        """Carry out a verdict that is due."""
        is_of_session = pending.view.channel != 0
        if (channel.closing is not None and is_of_session) or self._legs.is_over:
            return
        note = NOTHING
        if self._legs.is_tapped:
            note = yield from note_for(self._evaluation, path.sender, pending, verdict)
        if not pending.is_complete:
            path.rest = Rest.IS_SWALLOWED
        if verdict.close is not None:
            yield from self._refuse(pending, verdict.close)
            return
        if verdict.command is None:
            yield from self._drop(channel, path, pending, verdict, note)
        else:
            try:
                frames, assembly = self._changed(channel, path.sender, pending, verdict)
            except Exception as error:  # noqa: BLE001 - a rule may have put anything there
                yield from self._refuse_made(pending, verdict, error)
                return
            if not pending.is_complete and len(frames) and not frames[-1].ends_assembly:
                path.rest, path.note = Rest.PASSES, note
            self._note_command(channel, pending)
            yield from self.forward(channel, path, frames, assembly, note, verdict)
        for insertion in verdict.insertions:
            if not insertion.is_ahead and insertion.after <= 0:
                yield from self._send_insertion(path, pending, insertion)

    def _changed(
        self, channel: ChannelPaths, sender: Peer, pending: Pending, verdict: Verdict
    ) -> tuple[list[Frame], Assembly]:
        """Return the frames to forward, and their assembly."""
        if verdict.behind:
            raise Inexpressible("commands of AMQP 0-10 cannot be reordered")
        command, original = verdict.command, pending.assembly
        assert command is not None
        if command is pending.view:
            return pending.frames, original
        assembly = changed_assembly(sender, original, pending.view, command)
        if assembly.method is original.method and assembly.header is original.header and not _has_other_body(command):
            return pending.frames, original
        self._note_destination(channel, sender, original.method, assembly)
        frame_max = self._connections[sender.other].frame_max
        return altered(original, assembly, pending.frames, frame_max), assembly

    def _note_command(self, channel: ChannelPaths, pending: Pending) -> None:
        """Record the client's commands on exchanges, by its own names, and its deletions of queues."""
        if pending.sender is not CLIENT:
            return
        if pending.assembly.index in SHOWS_EXCHANGES:
            self._exchanges.note_command(channel.number, pending.position, pending.assembly.method)
        elif pending.assembly.index == QueueDelete.index and self._evaluation.wants(CLIENT, QueueDelete.index):
            channel.awaited_deletes.note(pending.assembly.method, pending.position)

    def _note_destination(self, channel: ChannelPaths, sender: Peer, before: Method, after: Assembly) -> None:
        """Record the broker's name for a renamed subscription until it is cancelled."""
        if isinstance(before, MessageSubscribe) and sender is CLIENT:
            channel.destinations.add(before.destination or "", after.method.destination or "")
        elif isinstance(before, MessageCancel) and sender is CLIENT:
            channel.destinations.remove(before.destination or "")

    def _refuse_made(self, pending: Pending, verdict: Verdict, error: Exception) -> Actions:
        """Refuse a command that rules have turned into one that cannot be encoded or expressed."""
        by = f" by rule '{verdict.marks[-1]}'" if verdict.marks else ""
        what = str(error) if isinstance(error, Inexpressible) else f"it cannot be encoded ({type(error).__name__})"
        yield LogVerdict("error", f"refused what was made{by}: {what}")
        text = reply_text(INTERNAL_ERROR, f"rules made what cannot be sent: {what}")
        yield from self._refuse(pending, Close(Scope091.CHANNEL, INTERNAL_ERROR, text))

    def _refuse(self, pending: Pending, close: Close) -> Actions:
        """Close the session of a command, or the connection."""
        if pending.view.channel == 0 or close.scope is Scope091.CONNECTION:
            yield CloseConnection(close)
            return
        method = pending.assembly.method
        name = method.name_ or b"" if isinstance(method, SessionAttach) else None
        is_of_client = isinstance(method, Command) and pending.sender is CLIENT
        position = pending.position if is_of_client else None
        yield CloseChannel(Cause(position, pending.assembly.index, name), close)

    def _drop(self, channel: ChannelPaths, path: Path, pending: Pending, verdict: Verdict, note: Note) -> Actions:
        """Forward an empty command in place of a dropped one, and send its sender the reply."""
        sender, method = path.sender, pending.assembly.method
        if not isinstance(method, Command):
            return
        is_unanswerable = isinstance(method, MessageTransfer) and method.accept_mode == AcceptMode.NONE
        if is_unanswerable and verdict.answer is Answer.NACK and sender is CLIENT:
            text = "ACCESS_REFUSED - refused by a rule of the proxy"
            yield CloseChannel(Cause(pending.position, method.index), Close(Scope091.CHANNEL, 403, text))
            return
        empty = Assembly(channel.number, placeholder(sender, is_sync=method.sync))
        yield Send(sender, encoded(empty, 0), note, is_shown=False)
        if isinstance(method, MessageTransfer):
            answer = answer_to(sender, method, pending.position, verdict)
            if answer is not None:
                yield Insert(sender, Assembly(channel.number, answer))

    def forward(
        self,
        channel: ChannelPaths,
        path: Path,
        frames: list[Frame],
        assembly: Assembly,
        note: Note = NOTHING,
        verdict: Verdict | None = None,
    ) -> Actions:
        """Forward a control or command with the names and ids that its receiver knows."""
        sender, index = path.sender, assembly.index
        method = renamed = assembly.method
        if isinstance(method, ConnectionTune) and assembly.frames is not frames:
            self._tune = method
        if index in HAS_IDS and (channel.insertions[CLIENT] or channel.insertions[SERVER]):
            near = {peer: self._legs.near(sender, peer, channel.number) for peer in Peer}
            own, partners = channel.insertions[sender], channel.insertions[sender.other]
            renamed = translated(method, own, partners, near[sender], near[sender.other])
            if renamed is None:
                return
        if sender is CLIENT and index in WITH_DESTINATION:
            destination = channel.destinations.get(method.destination or "")
            if destination is not None:
                renamed = replace(method, destination=destination)
            if isinstance(method, MessageCancel):
                channel.destinations.remove(method.destination or "")
        if renamed is not method:
            frames = encoded(assembly.altered(renamed), self._connections[sender.other].frame_max)
        damage = () if verdict is None else verdict.damage
        yield Send(sender, frames, note, verdict is None or verdict.shown is None, damage)
        if isinstance(method, SessionDetach):
            path.has_detached = True
        if isinstance(method, SessionDetached):
            yield Forget(sender)
        if isinstance(method, (SessionAttach, SessionDetach, SessionDetached)):
            if sender is CLIENT:
                self._exchanges.leave(channel.number)
            else:
                self._exchanges.forget(channel.number)
            channel.awaited_deletes.clear()
        elif sender is SERVER and index == ExecutionResult.index:
            self._exchanges.note_result(channel.number, renamed)
        elif sender is SERVER and index == SessionCompleted.index:
            for _ in range(channel.awaited_deletes.completed_by(renamed)):
                self._evaluation.note_answer(delete_answer(view_channel(channel.number)))

    def _send_insertion(self, path: Path, pending: Pending, insertion: Insertion) -> Actions:
        """Insert a rule's command; if 0-10 cannot express it, refuse the command evaluated."""
        to, number = insertion.to, pending.assembly.channel
        try:
            method = insertion.command.method
            if to is path.sender.other and type(method) is type(pending.view.method) and pending.is_complete:
                copy = changed_assembly(path.sender, pending.assembly, pending.view, insertion.command)
                assembly = Assembly(number, copy.method, copy.header, copy.body if copy.has_body else None)
            else:
                assembly = inserted(insertion, self._legs.session(CLIENT, number))
            _ = encoded(assembly, 0)
        except Exception as error:  # noqa: BLE001 - as above
            yield from self._refuse_made(pending, Verdict(command=None), error)
            return
        yield Insert(to, assembly, insertion.after)


def _has_other_body(command: View) -> bool:
    return not command.frames
