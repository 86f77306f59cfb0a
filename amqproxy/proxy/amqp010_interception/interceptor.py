"""Where commands of AMQP 0-10 cross from one leg to the other, and verdicts are carried out.

An `AMQP010Interceptor` is what a session has between its legs when there are rules: it takes frames, and gives what is
to be sent to each peer. It shows each leg's `Connection` what really passes on it. It does no input or output; the time
is passed in. What no rule changes leaves as the bytes that came.

Somewhat long, since a command's life, from its first frame to its last, is in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.commands import ExecutionResult, MessageTransfer
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    SessionAttach,
    SessionDetach,
    SessionDetached,
    SessionTimeout,
)
from amqproxy.amqp010.domains import CloseCode, Track
from amqproxy.amqp010.errors import (
    FramingError,
    IllegalArgument,
    PreconditionFailed,
    ProtocolError,
    ResourceLimitExceeded,
    Scope,
)
from amqproxy.amqp010.frame import BODY, HEADER, Frame
from amqproxy.amqp010.methods import BY_INDEX, Method
from amqproxy.amqp010.transitions import MAY_CLOSE, ConnectionState
from amqproxy.amqp091.commands import MAX_BODY
from amqproxy.amqp091.commands import Command as View
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.amqp091.errors import Scope as Scope091
from amqproxy.conversion.command_view import command_view, view_channel
from amqproxy.conversion.error_codes import connection_code
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010_interception.delayed_commands import TURN, DelayedCommands
from amqproxy.proxy.amqp010_interception.evaluation import Evaluation
from amqproxy.proxy.amqp010_interception.id_translation import HAS_IDS
from amqproxy.proxy.amqp010_interception.joining import UnderWay, join_sessions
from amqproxy.proxy.amqp010_interception.known_exchanges import SHOWS_EXCHANGES, KnownExchanges
from amqproxy.proxy.amqp010_interception.legs import Legs
from amqproxy.proxy.amqp010_interception.own_commands import OwnCommands
from amqproxy.proxy.amqp010_interception.path import ChannelPaths, Path, Pending, Rest, WaitingCommand, cost
from amqproxy.proxy.amqp010_interception.refusal import AMQP010Refusal
from amqproxy.proxy.amqp010_interception.session_closing import SessionClosing
from amqproxy.proxy.amqp010_interception.verdict_executor import WITH_DESTINATION, VerdictExecutor
from amqproxy.proxy.interception.channel_direction import QueuedBytes
from amqproxy.proxy.interception.channel_owner import LEGS
from amqproxy.proxy.interception.session_rules import SessionRules
from amqproxy.proxy.memory_budget import SESSION_MEMORY, MemoryBudget, MemoryShare
from amqproxy.rules.context import ChannelInfo, Client
from amqproxy.rules.verdict import Close, Impairment, Stage, Verdict
from amqproxy.taps.amqp010_chunk import AMQP010Chunk
from amqproxy.taps.metering.amqp010_meter import AttachmentMeter
from amqproxy.taps.note import NOTHING, Note

MAX_HELD = 16 * 1024 * 1024
"""Bytes that may wait in one session behind what is held; above, nothing more is read from their sender."""

SESSION_COST, CHANNEL_COST = 20 * 1024, 4 * 1024
"""About how many bytes a session costs while it is attached, and what both legs keep of a channel till the end."""

_UNREAD = frozenset(cls.index for cls in BY_INDEX if cls.name.partition(".")[0] in ("file", "stream"))
"""Commands that move messages, and that rules do not know: no known peer has them."""

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
        "session.detached",
    )
)
"""What makes the client known, agrees on limits, or ends a session."""

_CUTTING = frozenset(
    cls.index for cls in BY_INDEX if cls.name in ("session.detach", "session.detached", "connection.close")
)
"""Behind what its sender sends no more of a command that is not whole."""

_AFTER_CROSSING = frozenset({SessionAttach.index, SessionDetached.index})
"""Of these, the one that a client sends next on a channel where its session.detach and ours have crossed."""


class AMQP010Interceptor:
    """What stands between the legs of a session of AMQP 0-10 with rules.

    `connections` are the legs', by the peer at their other end. `refusal` is set when the connection has to end, for a
    rule; both peers have been sent connection.close then. `met` is called with each method of the connection's own,
    and with what attaches and ends sessions; `saw` with all frames that the client sends or is sent, and the ids of
    their commands there. Rules look into bodies of `body_limit` bytes at most. What its `gate` does not let by goes no
    further. `numberings` have the ids of commands, by their sender, where some have passed before.
    """

    must_read = is_followed = True

    def __init__(
        self,
        connections: Mapping[Peer, Connection],
        evaluator: SessionRules,
        client: Client,
        *,
        random: Callable[[], float],
        time: Callable[[], float],
        met: Callable[[Peer, int, Method], None] = lambda sender, channel, method: None,
        saw: Callable[[Peer, list[Frame], Sequence[int | None]], None] = lambda sender, frames, ids: None,
        is_tapped: bool = False,
        share: MemoryShare | None = None,
        body_limit: int = MAX_BODY,
        numberings: Mapping[Peer, CommandNumbering] | None = None,
    ) -> None:
        self.connections = connections
        self.share = share or MemoryShare(MemoryBudget(share_limit=SESSION_MEMORY))
        self._loads = {peer: QueuedBytes(self.share) for peer in Peer}
        self._evaluation = Evaluation(
            evaluator, client, connections[CLIENT], random=random, time=time, body_limit=body_limit
        )
        self.random, self.time = random, time
        self._channels: dict[int, ChannelPaths] = {}
        self._legs = Legs(connections, met, saw, is_tapped=is_tapped, numberings=numberings)
        self._closing = SessionClosing(connections, self._legs.send_own)
        self._exchanges = KnownExchanges()
        self._delayed = DelayedCommands(self._go_on, lambda: self._executor.effects)
        own = OwnCommands(self._legs, self._is_live, self.close_session)
        self._executor = VerdictExecutor(self, self._legs, self._evaluation, self._exchanges, self._delayed, own)
        self.carry_out = self._executor.carry_out
        self.take_effects = self._executor.take_effects
        self._standing = 0  # bytes of the share that are not of what waits
        self._crossed: set[int] = set()
        self._is_over = False
        self.gate: Callable[[Peer, Frame], bool] | None = None

    # --- what is known

    @property
    def is_tapped(self) -> bool:
        """Are taps to see what passes?"""
        return self._legs.is_tapped

    @is_tapped.setter
    def is_tapped(self, is_tapped: bool) -> None:
        self._legs.is_tapped = is_tapped

    @property
    def waiting(self) -> Mapping[int, tuple[ChannelPaths, Path]]:
        """The commands that wait, by a number of each."""
        return self._delayed.waiting

    @property
    def evaluator(self) -> SessionRules:
        return self._evaluation.evaluator

    @evaluator.setter
    def evaluator(self, evaluator: SessionRules) -> None:
        self._evaluation.evaluator = evaluator
        self._evaluation.refresh()

    @property
    def client(self) -> Client:
        """What is known of the client so far."""
        return self._evaluation.client

    @property
    def shown_client(self) -> Client:
        """The same as logs and operators may see it."""
        return self.evaluator.shown_client

    def covered_method(self, sender: Peer, command: View) -> View | None:
        """A command as logs may show it, without its body; None: not at all."""
        return self.evaluator.covered(sender, command, 0)

    def start(self, now: float, *, is_open: bool) -> tuple[Impairment, ...]:
        """What rules about connections as such want to be done to the bytes of this one."""
        return self.evaluator.start(now=now, time=self.time(), random=self.random, is_open=is_open)

    def is_full(self, sender: Peer) -> bool:
        """Does so much wait of what a peer has sent that nothing more is to be read from it for now?"""
        size = self._loads[sender].size
        if size <= MAX_HELD and not (size > 0 and self.share.is_over):
            return False
        return any(path.is_waiting for _, path in self.waiting.values()) or any(
            channel.reopening or channel.paths[CLIENT].is_paused for channel in self._channels.values()
        )

    def join(self, under_way: UnderWay, metered: Callable[[int], AttachmentMeter | None]) -> None:
        """Take what comes from here on, of a connection on which much may have passed: see `join_sessions`.

        On each channel, rules apply from the next control and command on: what is under way goes on to its end.
        """
        join_sessions(self.connections, self.numberings, under_way, metered)
        for sender, tracks in under_way.items():
            for number, track in tracks:
                path = self._channel(number).paths[sender]
                if track == Track.CONTROL:
                    path.passes_control = True
                else:
                    path.rest, path.is_mid = Rest.PASSES, True
                    path.position = self.numberings[sender].current(number) or 0

    @property
    def numberings(self) -> Mapping[Peer, CommandNumbering]:
        """The ids of commands, by their sender."""
        return self._legs.numberings

    @property
    def is_transparent(self) -> bool:
        """Would all go on as it does if there were no interceptor and no rules?"""
        return (
            not self._is_over
            and not self._crossed
            and self._delayed.is_idle
            and self._legs.is_transparent
            and all(channel.is_transparent for channel in self._channels.values())
        )

    @property
    def now(self) -> float:
        """The time that was passed in last."""
        return self._evaluation.now

    def facts(self, number: int) -> ChannelInfo:
        """What rules may know of a session, by its channel."""
        return self._evaluation.facts(number)

    # --- in and out

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        """Take all frames that the sender's reader has found in what it has just been fed.

        `ProtocolError` at the first that may not come; those before it have passed then, and both peers have been sent
        connection.close.
        """
        self._evaluation.now = now
        if sender is CLIENT:
            self._legs.count(CLIENT, frames)
        try:
            for frame in frames:
                if self._is_over:
                    self._take_after_end(sender, frame)
                else:
                    self._take(sender, frame)
        except ProtocolError as error:
            if not self._is_over:
                self.close(error, f"the {sender} broke the protocol")
            raise

    def take_output(self, to: Peer) -> bytes | memoryview:
        """All that is to be sent to a peer now."""
        return self._legs.take_output(to)

    def take_passed(self, sender: Peer) -> list[tuple[Note, AMQP010Chunk]]:
        """What taps are to see of `sender`, and what they are to know of it."""
        return self._legs.take_passed(sender)

    @property
    def refusal(self) -> AMQP010Refusal | None:
        """Set when the connection has to end, for a rule; both peers have been sent connection.close then."""
        return self._executor.refusal

    @property
    def is_over(self) -> bool:
        """Has the connection been closed here?"""
        return self._is_over

    @property
    def is_closed(self) -> bool:
        """Has every peer that was sent connection.close answered it?"""
        return all(connection.state in _CLOSED for connection in self.connections.values())

    def end(self) -> None:
        """The session is over."""
        self._delayed.clear()
        self.gate = None
        self.share.clear()
        self.evaluator.session_over()
        self._channels.clear()

    # --- the end of the connection

    def close(self, error: ProtocolError, farewell: str) -> None:
        """Send both peers connection.close, for `error`: the broker with `farewell`."""
        code = connection_code(int(error.code)) if error.scope is Scope.CONNECTION else CloseCode.FRAMING_ERROR
        self.close_both(ConnectionClose(code, error.reply_text), farewell)

    def close_both(self, close: ConnectionClose, farewell: str) -> None:
        self._is_over = True
        self._delayed.clear()
        for peer, method in (
            (CLIENT, close),
            (SERVER, ConnectionClose(CloseCode.CONNECTION_FORCED, farewell)),
        ):
            if self.connections[peer].state in MAY_CLOSE:
                self._legs.send_own(peer, 0, method)

    def _take_after_end(self, sender: Peer, frame: Frame) -> None:
        """Take a frame of a peer that has been sent connection.close: only its answer counts."""
        with suppress(ProtocolError):
            self.connections[sender].receive(sender, frame)
        if frame.index == ConnectionClose.index and frame.is_whole_segment:
            self._legs.send_own(sender, 0, ConnectionCloseOk())

    # --- one frame

    def _take(self, sender: Peer, frame: Frame) -> None:
        if frame.channel and frame.channel not in self.connections[sender].channels:
            self._standing += CHANNEL_COST
            self.share.add(CHANNEL_COST)
            if self.share.is_over:
                raise ResourceLimitExceeded("there is no memory now for another channel", scope=Scope.CONNECTION)
        channel = self._channel(frame.channel)
        path = channel.paths[sender]
        position = 0
        if frame.track == Track.COMMAND and frame.begins_assembly:
            position = self._legs.next_position(sender, sender, frame.channel) or 0
        self._legs.receive(sender, sender, frame)
        if not channel.is_named and frame.track == Track.CONTROL and frame.ends_assembly:
            self._charge_name(channel)
        if self.gate is not None and not self.gate(sender, frame):
            return
        path.keep(frame)
        if path.kept[frame.track] and self.share.is_over:
            raise FramingError("there is no memory now for the rest of a control or a command")
        if channel.closing is not None:
            self._take_while_closing(channel, path, frame, position)
        elif path.is_held_up and frame.index != ConnectionClose.index:
            path.enqueue(frame, position)
        else:
            self._process(channel, path, frame, position)

    def _channel(self, number: int) -> ChannelPaths:
        channel = self._channels.get(number)
        if channel is None:
            channel = self._channels[number] = ChannelPaths(number, self._loads)
            if number:  # that one is the connection's own, too
                self._charge(channel, SESSION_COST)
        return channel

    def _charge(self, channel: ChannelPaths, size: int) -> None:
        """So much memory more is kept, or no more, of the session on a channel."""
        channel.cost += size
        self._standing += size
        self.share.add(size)

    def _charge_name(self, channel: ChannelPaths) -> None:
        session = self._legs.session(CLIENT, channel.number)
        if session is not None:
            channel.is_named = True
            self._charge(channel, 2 * len(session.name))  # both legs have it

    def _process(self, channel: ChannelPaths, path: Path, frame: Frame, position: int) -> None:
        """Do with the next frame of a peer what is to be done with it."""
        try:
            self._process_frame(channel, path, frame, position)
        except ProtocolError as error:
            if error.scope is Scope.CONNECTION:
                raise
            path.take_gathered()
            path.rest = Rest.BEGINS if frame.ends_assembly else Rest.IS_SWALLOWED
            self.close_session(channel, Close(Scope091.CHANNEL, int(error.code), error.reply_text), path.position)

    def _process_frame(self, channel: ChannelPaths, path: Path, frame: Frame, position: int) -> None:
        try:
            if frame.track == Track.COMMAND:
                self._process_command(channel, path, frame, position)
            elif path.rest is Rest.IS_GATHERED:
                self._process_behind_gathered(channel, path, frame)
            else:
                self._process_control(channel, path, frame)
        except ProtocolError091 as error:  # such as a name that is not UTF-8
            kind = IllegalArgument if frame.track == Track.COMMAND else FramingError
            raise kind(f"rules cannot read it: {error.text}") from None

    def _process_behind_gathered(self, channel: ChannelPaths, path: Path, frame: Frame) -> None:
        """Let a control wait for the command that is gathered, unless it cuts that short."""
        path.put_behind(frame)
        if frame.index in _CUTTING:  # the rest will not come; and nothing of it has gone on
            path.take_gathered()
            path.rest = Rest.BEGINS
            self._process_all_behind(channel, path)
        elif self.share.is_over:
            raise FramingError("there is no memory now for the controls behind a command that is not whole")

    def _process_all_behind(self, channel: ChannelPaths, path: Path) -> None:
        """Go on with the controls that came while a command was gathered."""
        for frame in path.take_behind():
            if channel.closing is not None:
                self._take_while_closing(channel, path, frame, 0)
            elif path.is_held_up:
                path.enqueue(frame, 0)
            else:
                self._process(channel, path, frame, 0)

    def _concerns(self, channel: ChannelPaths, sender: Peer, index: int) -> bool:
        """Is something to be done about a control or command but to send it on?"""
        if index < 0:
            return True  # it does not show in its first frame what it is
        if self._evaluation.wants(sender, index) or index in _ALWAYS or index in _UNREAD:
            return True
        if index in HAS_IDS and (channel.insertions[CLIENT] or channel.insertions[SERVER]):
            return True
        if index in SHOWS_EXCHANGES if sender is CLIENT else index == ExecutionResult.index:
            return sender is CLIENT or self._exchanges.is_awaited
        if index == SessionTimeout.index and channel.own_timeouts:
            return True
        return index in WITH_DESTINATION and bool(channel.destinations)

    def _process_control(self, channel: ChannelPaths, path: Path, frame: Frame) -> None:
        sender = path.sender
        if frame.index == ConnectionClose.index:
            self._release_behind(sender)
        if self._crossed and sender is CLIENT and frame.index in _AFTER_CROSSING and channel.number in self._crossed:
            self._crossed.remove(channel.number)
            if frame.index == SessionDetached.index and frame.is_whole_segment:  # it answers us
                self._legs.met(CLIENT, channel.number, frame.method)
                self._legs.show(CLIENT, [frame], Note(leg=LEGS[CLIENT]))
                return
        if path.passes_control:
            path.passes_control = not frame.ends_assembly and not frame.begins_assembly
            if not frame.begins_assembly:
                self._legs.send(channel, sender, [frame])
                return
        if frame.begins_assembly and frame.ends_assembly and not self._concerns(channel, sender, frame.index):
            self._legs.send(channel, sender, [frame])
            return
        path.controls.append(frame)
        if not frame.ends_assembly:
            return
        frames, path.controls = path.controls, []
        assembly = Assembly.received(frames)
        if channel.own_timeouts and sender is SERVER and isinstance(assembly.method, SessionTimeout):
            channel.own_timeouts -= 1  # it answers us
            return
        view = command_view(sender, assembly)
        if view is None:
            self._executor.forward(channel, path, frames, assembly)
        else:
            self._executor.judge(channel, path, Pending(sender, frames, assembly, 0, view))

    def _process_command(self, channel: ChannelPaths, path: Path, frame: Frame, position: int) -> None:
        if frame.begins_assembly:
            path.take_gathered()  # a detach may have cut the one before short
            path.position, path.note, path.left = position, NOTHING, None
            concerns = self._concerns(channel, path.sender, frame.index)
            path.rest = Rest.IS_GATHERED if concerns else Rest.PASSES
        elif path.rest is Rest.BEGINS:  # its first part came on another channel, or to a session that has ended
            text = "the rest of a command, whose begin rules have not seen here"
            self.close_session(channel, Close(Scope091.CHANNEL, 540, text))
            return
        if path.rest is Rest.IS_GATHERED:
            path.gather(frame)
            self._gather(channel, path, frame)
            return
        if path.rest is not Rest.IS_SWALLOWED:
            self._pass_rest(channel, path, frame)
        if frame.ends_assembly:
            path.rest = Rest.BEGINS

    def _pass_rest(self, channel: ChannelPaths, path: Path, frame: Frame) -> None:
        if path.left is not None and frame.kind == BODY:
            path.left -= frame.size
            if path.left < 0:
                raise FramingError(
                    "a body longer than its content-length, by which rules judged it",
                    channel=frame.channel,
                    offset=frame.offset,
                    section="10.2 message.message-properties, content-length",
                )
        self._legs.send(channel, path.sender, [frame], path.note)

    def _gather(self, channel: ChannelPaths, path: Path, frame: Frame) -> None:
        """Evaluate a command once as much of it has come as rules need."""
        frames = path.gathered
        excess = self._excess(path)
        if excess is not None:
            path.take_gathered()
            path.rest = Rest.BEGINS if frame.ends_assembly else Rest.IS_SWALLOWED
            self.close_session(channel, excess, path.position, frames[0].index)
        elif frame.ends_assembly:
            self._consider(channel, path, Assembly.received(list(frames)), None)
        elif frames[0].index == MessageTransfer.index and _ends_header(frames):
            self._consider_early(channel, path, Assembly.received(list(frames)))

    def _excess(self, path: Path) -> Close | None:
        """What is too much about a command that is gathered: 406 where it is, 506 where it may fit another time."""
        limit = min(max(0, self.share.memory.share_limit - self._standing), MAX_BODY)
        if len(path.gathered) > 1 and path.gathered_size > limit:
            text = f"a message of more than the {limit} bytes that rules can look at"
            error: ProtocolError = PreconditionFailed(text)
        elif self.share.is_over:
            error = ResourceLimitExceeded("there is no memory now for all messages that rules are to look at")
        else:
            return None
        return Close(Scope091.CHANNEL, int(error.code), error.reply_text)

    def _consider_early(self, channel: ChannelPaths, path: Path, assembly: Assembly) -> None:
        """Evaluate a message whose header has come, unless its body is needed."""
        message = None if assembly.header is None else assembly.header.message
        size = None if message is None else message.content_length
        view = self._view(path.sender, assembly, path.position, size or 0)
        assert view is not None
        stage = self._evaluation.stage(path.sender, view, assembly)
        if stage is Stage.BODY or (stage is Stage.HEADER and size is None):
            return
        if stage is Stage.HEADER:
            path.left = size
        self._consider(channel, path, assembly, size or 0, stage)

    def _consider(
        self, channel: ChannelPaths, path: Path, assembly: Assembly, body_size: int | None, stage: Stage | None = None
    ) -> None:
        """Evaluate a command; `body_size` is that of a body that is not all there."""
        frames = path.take_gathered()
        is_complete = body_size is None
        path.rest = Rest.BEGINS if is_complete else Rest.IS_SWALLOWED
        sender = path.sender
        if frames[0].index in _UNREAD:
            text = f"{assembly.method.name} is not known to rules"
            self.close_session(channel, Close(Scope091.CHANNEL, 540, text), path.position, frames[0].index)
        else:
            view = self._view(sender, assembly, path.position, body_size)
            if view is None:
                self._executor.forward(channel, path, frames, assembly)
            else:
                self._executor.judge(channel, path, Pending(sender, frames, assembly, path.position, view), stage)
        self._process_all_behind(channel, path)

    def _view(self, sender: Peer, assembly: Assembly, position: int, body_size: int | None) -> View | None:
        """What a command is in 0-9-1."""
        falls_back = sender is CLIENT and self._exchanges.falls_back(assembly.method)
        return command_view(sender, assembly, position, body_size, falls_back=falls_back)

    # --- commands of our own

    def _is_live(self, channel: ChannelPaths) -> bool:
        """Has a channel still the session that it had?"""
        return channel.closing is None and not self._is_over and self._channels.get(channel.number) is channel

    # --- the end of a session

    def close_session(
        self,
        channel: ChannelPaths,
        close: Close,
        position: int | None = None,
        index: int = -1,
        name: bytes | None = None,
    ) -> None:
        """Close the session on a channel for both peers."""
        if channel.closing is not None or self._is_over:
            return
        if name is None:
            session = self._legs.session(CLIENT, channel.number)
            name = b"" if session is None else session.name
        self._delayed.forget(channel)
        if not self._closing.close(channel, close, name, position, index):
            self.forget(channel)

    def _take_while_closing(self, channel: ChannelPaths, path: Path, frame: Frame, position: int) -> None:
        """Take a frame on a channel whose session we are closing: nothing of it goes on, but what has begun."""
        closing = channel.closing
        assert closing is not None
        if path.sender not in closing:
            if path.sender is CLIENT:  # it begins the next session
                channel.reopening.append((frame, position))
                self._loads[CLIENT].add(cost([frame]))
            return
        if frame.track == Track.COMMAND:
            if path.is_mid and path.rest is Rest.PASSES:
                self._legs.send(channel, path.sender, [frame])
                path.rest = Rest.BEGINS if frame.ends_assembly else Rest.PASSES
            return
        path.controls.append(frame)
        if not frame.ends_assembly:
            return
        frames, path.controls = path.controls, []
        method = Assembly.received(frames).method
        self._closing.take(channel, path.sender, method)
        if path.sender is CLIENT and isinstance(method, SessionDetached):
            self._legs.met(CLIENT, channel.number, method)
        elif path.sender is CLIENT and isinstance(method, SessionDetach):
            self._crossed.add(channel.number)
        self._legs.show(path.sender, frames, Note(leg=LEGS[path.sender]))
        if not closing:
            self._reopen(channel)

    def _reopen(self, channel: ChannelPaths) -> None:
        """Both peers have detached: go on with what the client has sent since."""
        self.forget(channel)
        for frame, position in channel.reopening:
            self._loads[CLIENT].remove(cost([frame]))
            following = self._channel(channel.number)
            path = following.paths[CLIENT]
            if following.closing is not None:
                self._take_while_closing(following, path, frame, position)
            elif path.is_held_up:
                path.enqueue(frame, position)
            else:
                self._process(following, path, frame, position)
            if not following.is_named:
                self._charge_name(following)

    def forget(self, channel: ChannelPaths) -> None:
        """A session has ended."""
        if self._channels.get(channel.number) is not channel:
            return
        del self._channels[channel.number]
        self._delayed.forget(channel)
        self._exchanges.forget(channel.number)
        self._charge(channel, -channel.cost)
        self.evaluator.channel_closed(view_channel(channel.number))

    # --- what an operator wants

    def close_channel(self, number: int, close: Close, now: float) -> None:
        """Close the session on a channel."""
        self._evaluation.now = now
        self.close_session(self._channel(number), close)

    def pause_channel(self, number: int, now: float) -> None:
        """Let the client's commands on a channel wait from the next one on, in order; too many wait as `is_full`."""
        self._evaluation.now = now
        self._channel(number).paths[CLIENT].is_paused = True

    def resume_channel(self, number: int, now: float) -> None:
        """Let go on what the client has sent on a paused channel."""
        self._evaluation.now = now
        channel = self._channel(number)
        self._blamed(lambda: self._resume(channel))

    @property
    def paused_channels(self) -> list[int]:
        """The numbers of the channels that are paused."""
        return [number for number, channel in self._channels.items() if channel.paths[CLIENT].is_paused]

    def _resume(self, channel: ChannelPaths) -> None:
        path = channel.paths[CLIENT]
        path.is_paused = False
        self._go_on_behind(channel, path)

    def _resume_all(self) -> None:
        for number in self.paused_channels:
            self._resume(self._channels[number])

    # --- what waits

    @property
    def next_deadline(self) -> float:
        """When `tick` will next have something to do, in seconds."""
        return self._delayed.next_deadline

    def tick(self, now: float) -> None:
        """Let go on what has waited long enough, or as much of it as goes on in one turn."""
        self._evaluation.now = now
        for _ in range(TURN):
            do = None if self._is_over else self._delayed.take_due(now)
            if do is None:
                break
            self._blamed(do)

    def _blamed(self, do: Callable[[], None]) -> None:
        """Do something that a peer has caused before: what is wrong about it ends the connection."""
        try:
            do()
        except ProtocolError as error:
            if not self._is_over:
                self._executor.refusal = AMQP010Refusal(Close(Scope091.CONNECTION, int(error.code), error.reply_text))
                self.close(error, "a peer broke the protocol")

    def release(self, number: int, verdict: Verdict | None, now: float) -> None:
        """Let a command go on that is held, with another verdict if one is given. `KeyError` when it is not held."""
        self._evaluation.now = now
        if number not in self.waiting:
            raise KeyError(number)
        self._blamed(lambda: self._delayed.release(number, verdict))

    def release_all(self, now: float) -> None:
        """Let everything go on that waits now; what is held, as if its timeout had passed."""
        self._evaluation.now = now
        for peer in Peer:
            self._blamed(lambda peer=peer: self._release_behind(peer))  # type: ignore[misc]

    def _release_behind(self, sender: Peer) -> None:
        """Let go on what waits of a peer, as it closes the connection."""
        if sender is CLIENT:
            self._resume_all()
        while not self._is_over and (found := self._delayed.first_of(sender)) is not None:
            self._delayed.time_out(*found)

    def _go_on(self, channel: ChannelPaths, path: Path, waiting: WaitingCommand) -> None:
        """Go on with what has waited, and with what came behind it, up to the next that waits."""
        self._executor.settle(channel, path, waiting.pending, waiting.verdict)
        self._go_on_behind(channel, path)

    def _go_on_behind(self, channel: ChannelPaths, path: Path) -> None:
        while path.queue and not path.is_waiting and not path.is_paused and not self._is_over:
            frame, position = path.dequeue()
            if channel.closing is not None:
                self._take_while_closing(channel, path, frame, position)
            else:
                self._process(channel, path, frame, position)


_CLOSED = frozenset({ConnectionState.CLOSED, ConnectionState.NEW, ConnectionState.GREETED})


def _ends_header(frames: Sequence[Frame]) -> bool:
    """Has the header of a message just come to its end, or its body begun without one?"""
    last = frames[-1]
    if last.kind == HEADER:
        return last.is_last_frame
    return last.kind == BODY and frames[-2].kind not in (BODY, HEADER)
