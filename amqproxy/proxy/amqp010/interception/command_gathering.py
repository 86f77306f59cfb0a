"""Gathering of each channel's frames, up to where rules can evaluate a control or command."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionResult, MessageTransfer
from amqproxy.amqp010.controls import ConnectionClose, SessionCompleted, SessionTimeout
from amqproxy.amqp010.domains import Track
from amqproxy.amqp010.errors import (
    FramingError,
    PreconditionFailed,
    ProtocolError,
    ResourceLimitExceeded,
)
from amqproxy.amqp010.frame import BODY, HEADER, Frame
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.amqp091.commands import Command as View
from amqproxy.amqp091.errors import Scope as Scope091
from amqproxy.conversion.amqp010.command_view import command_view
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.interception.actions import Resume, Send, Tell
from amqproxy.proxy.amqp010.interception.evaluation import Amqp010Evaluation
from amqproxy.proxy.amqp010.interception.id_translation import HAS_IDS
from amqproxy.proxy.amqp010.interception.known_exchanges import SHOWS_EXCHANGES, KnownExchanges
from amqproxy.proxy.amqp010.interception.path import Cause, ChannelPaths, Path, Pending, Rest
from amqproxy.proxy.amqp010.interception.session_closing import SessionClosing
from amqproxy.proxy.amqp010.interception.session_memory import SessionMemory
from amqproxy.proxy.amqp010.interception.verdict_actions import WITH_DESTINATION, VerdictActions
from amqproxy.proxy.interception.actions import Actions, CloseChannel, ShowToTaps
from amqproxy.rules.verdict import Close, Stage
from amqproxy.taps.note import LEGS, NOTHING, Note

_UNREAD = frozenset(cls.index for cls in BY_INDEX if cls.name.partition(".")[0] in ("file", "stream"))
"""Message-transferring commands that rules do not support; no known peer implements them."""

_ALWAYS = frozenset(
    cls.index
    for cls in BY_INDEX
    if cls.name
    in (
        "connection.start-ok",
        "connection.secure-ok",
        "connection.open",
        "connection.tune",
        "connection.tune-ok",
        "session.attach",
        "session.detach",
        "session.detached",
    )
)
"""Controls that identify the client, negotiate limits, or begin or end a session."""

_OF_CONNECTION = frozenset(cls.index for cls in BY_INDEX if cls.name.startswith("connection."))

_CUTTING = frozenset(
    cls.index for cls in BY_INDEX if cls.name in ("session.detach", "session.detached", "connection.close")
)
"""Controls after which their sender sends no more frames of an incomplete command."""


class CommandGathering:
    """Forwards frames that no rule concerns, and passes others to the `verdicts` once enough of them was received.

    Frames of sessions that are being closed are taken by `closing`.
    """

    def __init__(
        self,
        evaluation: Amqp010Evaluation,
        exchanges: KnownExchanges,
        verdicts: VerdictActions,
        closing: SessionClosing,
        memory: SessionMemory,
    ) -> None:
        self._evaluation = evaluation
        self._exchanges = exchanges
        self.verdicts = verdicts
        self.closing = closing
        self._memory = memory

    def is_of_connection(self, channel: ChannelPaths, path: Path, frame: Frame) -> bool:
        """Whether a frame concerns only the connection, whatever is queued or being closed on a session of channel 0.

        A control that rules may delay is queued with the session while that is not being closed, and so is a
        connection.close, before which all earlier frames are forwarded.
        """
        if frame.channel or frame.index not in _OF_CONNECTION or not (frame.begins_assembly and frame.ends_assembly):
            return False
        if channel.closing is not None:
            return True
        return frame.index != ConnectionClose.index and not self._evaluation.wants(path.sender, frame.index)

    def process(self, channel: ChannelPaths, path: Path, frame: Frame, position: int) -> Actions:
        """Process the next frame of a peer, before which nothing is queued."""
        if channel.closing is not None and not self.is_of_connection(channel, path, frame):
            return self.closing.take(channel, path, frame, position)
        if frame.track == Track.COMMAND:
            return self._process_command(channel, path, frame, position)
        if path.rest is Rest.IS_GATHERED and not self.is_of_connection(channel, path, frame):
            return self._process_behind_gathered(path, frame)
        return self._process_control(channel, path, frame)

    def _process_behind_gathered(self, path: Path, frame: Frame) -> Actions:
        """Queue a control behind the gathered command, unless it ends that command prematurely."""
        path.put_behind(frame)
        if frame.index in _CUTTING:  # the rest will not come, and no part was forwarded
            path.take_gathered()
            path.rest = Rest.BEGINS
            return self._resume_behind(path)
        if self._memory.share.is_over:
            raise FramingError("there is no memory now for the controls behind a command that is not whole")
        return ()

    def _resume_behind(self, path: Path) -> Actions:
        """Continue with the controls that were received while a command was gathered."""
        if path.behind:
            path.queue_behind()
            return (Resume(path),)
        return ()

    def _concerns(self, channel: ChannelPaths, sender: Peer, index: int) -> bool:
        """Whether a control or command needs more than forwarding."""
        if index < 0:
            return True  # its first frame does not show its index
        if self._evaluation.wants(sender, index) or index in _ALWAYS or index in _UNREAD:
            return True
        if index in HAS_IDS and (channel.insertions[CLIENT] or channel.insertions[SERVER]):
            return True
        if index in SHOWS_EXCHANGES if sender is CLIENT else index == ExecutionResult.index:
            return sender is CLIENT or self._exchanges.is_awaited
        if index == SessionTimeout.index and channel.own_timeouts:
            return True
        if index == SessionCompleted.index and channel.awaited_deletes:
            return True
        return index in WITH_DESTINATION and bool(channel.destinations)

    def _process_control(self, channel: ChannelPaths, path: Path, frame: Frame) -> Actions:
        sender = path.sender
        if sender is CLIENT and self.closing.is_awaited and self.closing.answers_crossing(channel, frame):
            return (Tell(CLIENT, frame.method), ShowToTaps(CLIENT, [frame], Note(leg=LEGS[CLIENT])))
        if path.passes_control:
            path.passes_control = not frame.ends_assembly and not frame.begins_assembly
            if not frame.begins_assembly:
                return (Send(sender, (frame,)),)
        if frame.begins_assembly and frame.ends_assembly and not self._concerns(channel, sender, frame.index):
            return (Send(sender, (frame,)),)
        path.controls.append(frame)
        return self._take_whole_control(channel, path) if frame.ends_assembly else ()

    def _take_whole_control(self, channel: ChannelPaths, path: Path) -> Actions:
        frames, path.controls = path.controls, []
        assembly, sender = Assembly.received(frames), path.sender
        if channel.own_timeouts and sender is SERVER and isinstance(assembly.method, SessionTimeout):
            channel.own_timeouts -= 1  # the answer to the proxy's own request
            return ()
        view = command_view(sender, assembly)
        if view is None:
            return self.verdicts.forward(channel, path, frames, assembly)
        return self.verdicts.judge(channel, path, Pending(sender, frames, assembly, 0, view))

    def _process_command(self, channel: ChannelPaths, path: Path, frame: Frame, position: int) -> Actions:
        if frame.begins_assembly:
            path.take_gathered()  # a detach may have interrupted the command before
            path.position, path.note, path.left = position, NOTHING, None
            concerns = self._concerns(channel, path.sender, frame.index)
            path.rest = Rest.IS_GATHERED if concerns else Rest.PASSES
        elif path.rest is Rest.BEGINS:  # its first part was sent on another channel, or to a session that has ended
            text = "the rest of a command, whose begin rules have not seen here"
            return (CloseChannel(None, Close(Scope091.CHANNEL, 540, text)),)
        if path.rest is Rest.IS_GATHERED:
            path.gather(frame)
            return self._gather(channel, path, frame)
        if path.rest is Rest.IS_SWALLOWED:
            passed: Actions = ()
        else:
            passed = self._pass_rest(path, frame)
        if frame.ends_assembly:
            path.rest = Rest.BEGINS
        return passed

    def _pass_rest(self, path: Path, frame: Frame) -> Actions:
        if path.left is not None and frame.kind == BODY:
            path.left -= frame.size
            if path.left < 0:
                raise FramingError(
                    "a body longer than its content-length, by which rules judged it",
                    channel=frame.channel,
                    offset=frame.offset,
                    section="10.2 message.message-properties, content-length",
                )
        return (Send(path.sender, (frame,), path.note),)

    def _gather(self, channel: ChannelPaths, path: Path, frame: Frame) -> Actions:
        """Evaluate a command once enough of it was received."""
        frames = path.gathered
        excess = self._excess(path)
        if excess is not None:
            path.take_gathered()
            path.rest = Rest.BEGINS if frame.ends_assembly else Rest.IS_SWALLOWED
            return (CloseChannel(Cause(path.position, frames[0].index), excess),)
        if frame.ends_assembly:
            return self._consider(channel, path, Assembly.received(list(frames)), None)
        if frames[0].index == MessageTransfer.index and _ends_header(frames):
            return self._consider_early(channel, path, Assembly.received(list(frames)))
        return ()

    def _excess(self, path: Path) -> Close | None:
        """Return the close for a too large gathered command: 406 for its size, 506 if it may fit another time."""
        limit = self._memory.body_limit
        if len(path.gathered) > 1 and path.gathered_size > limit:
            text = f"a message of more than the {limit} bytes that rules can look at"
            error: ProtocolError = PreconditionFailed(text)
        elif self._memory.share.is_over:
            error = ResourceLimitExceeded("there is no memory now for all messages that rules are to look at")
        else:
            return None
        return Close(Scope091.CHANNEL, int(error.code), error.reply_text)

    def _consider_early(self, channel: ChannelPaths, path: Path, assembly: Assembly) -> Actions:
        """Evaluate a message whose header was received, unless its body is needed."""
        message = None if assembly.header is None else assembly.header.message
        size = None if message is None else message.content_length
        view = self._view(path.sender, assembly, path.position, size or 0)
        assert view is not None
        stage = self._evaluation.stage(path.sender, view, assembly)
        if stage is Stage.BODY or (stage is Stage.HEADER and size is None):
            return ()
        if stage is Stage.HEADER:
            path.left = size
        return self._consider(channel, path, assembly, size or 0, stage)

    def _consider(
        self, channel: ChannelPaths, path: Path, assembly: Assembly, body_size: int | None, stage: Stage | None = None
    ) -> Actions:
        """Evaluate a command; `body_size` is the announced size of a body that is incomplete."""
        frames = path.take_gathered()
        is_complete = body_size is None
        path.rest = Rest.BEGINS if is_complete else Rest.IS_SWALLOWED
        sender = path.sender
        if frames[0].index in _UNREAD:
            text = f"{assembly.method.name} is not known to rules"
            yield CloseChannel(Cause(path.position, frames[0].index), Close(Scope091.CHANNEL, 540, text))
        else:
            view = self._view(sender, assembly, path.position, body_size)
            if view is None:
                yield from self.verdicts.forward(channel, path, frames, assembly)
            else:
                pending = Pending(sender, frames, assembly, path.position, view)
                yield from self.verdicts.judge(channel, path, pending, stage)
        yield from self._resume_behind(path)

    def _view(self, sender: Peer, assembly: Assembly, position: int, body_size: int | None) -> View | None:
        """Return a command's view as a 0-9-1 command."""
        falls_back = sender is CLIENT and self._exchanges.falls_back(assembly.channel, assembly.method)
        return command_view(sender, assembly, position, body_size, falls_back=falls_back)


def _ends_header(frames: Sequence[Frame]) -> bool:
    """Whether the last frame ends a message's header, or begins a body without one."""
    last = frames[-1]
    if last.kind == HEADER:
        return last.is_last_frame
    return last.kind == BODY and frames[-2].kind not in (BODY, HEADER)
