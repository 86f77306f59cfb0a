"""Where commands of AMQP 0-10 cross from one leg to the other, and verdicts are carried out.

An `Amqp010Interceptor` is what a session has between its legs when there are rules: it takes frames, and gives what is
to be sent to each peer. It shows each leg's `Connection` what really passes on it. It does no input or output; the time
is passed in. What no rule changes leaves as the bytes that came.

Somewhat long, as the one place where the state of sessions on both legs is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    SessionAttach,
    SessionDetach,
    SessionDetached,
)
from amqproxy.amqp010.domains import CloseCode, Track
from amqproxy.amqp010.errors import (
    FramingError,
    ProtocolError,
    ResourceLimitExceeded,
    Scope,
)
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.transitions import MAY_CLOSE, ConnectionState
from amqproxy.amqp091.commands import MAX_BODY
from amqproxy.amqp091.commands import Command as View
from amqproxy.amqp091.errors import Scope as Scope091
from amqproxy.conversion.command_view import view_channel
from amqproxy.conversion.error_codes import connection_code
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.interception.command_gathering import CommandGathering
from amqproxy.proxy.amqp010.interception.evaluation import Evaluation
from amqproxy.proxy.amqp010.interception.joining import UnderWay, join_sessions
from amqproxy.proxy.amqp010.interception.known_exchanges import KnownExchanges
from amqproxy.proxy.amqp010.interception.legs import Legs
from amqproxy.proxy.amqp010.interception.own_commands import OwnCommands
from amqproxy.proxy.amqp010.interception.path import ChannelPaths, Path, Rest, WaitingCommand, cost
from amqproxy.proxy.amqp010.interception.refusal import Amqp010Refusal
from amqproxy.proxy.amqp010.interception.session_closing import SessionClosing
from amqproxy.proxy.amqp010.interception.session_memory import SessionMemory
from amqproxy.proxy.amqp010.interception.verdict_executor import Delayed010, VerdictExecutor
from amqproxy.proxy.interception.delayed_commands import DelayedCommands
from amqproxy.proxy.interception.effects import InterceptorEffects
from amqproxy.proxy.interception.queued_bytes import QueuedBytes
from amqproxy.proxy.interception.session_rules import SessionRules
from amqproxy.proxy.memory_budget import SESSION_MEMORY, MemoryBudget, MemoryShare
from amqproxy.rules.context import ChannelInfo, Client
from amqproxy.rules.verdict import Close, Impairment, Verdict
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.metering.amqp010.meter import AttachmentMeter
from amqproxy.taps.note import LEGS, Note

MAX_HELD = 16 * 1024 * 1024
"""Bytes that may wait in one session behind what is held; above, nothing more is read from their sender."""

_AFTER_CROSSING = frozenset({SessionAttach.index, SessionDetached.index})
"""Of these, the one that a client sends next on a channel where its session.detach and ours have crossed."""


class Amqp010Interceptor:
    """What stands between the legs of a session of AMQP 0-10 with rules.

    `connections` are the legs', by the peer at their other end. `refusal` is set when the connection has to end, for a
    rule; both peers have been sent connection.close then. `met` is called with each method of the connection's own,
    and with what attaches and ends sessions; `saw` with the bytes of all frames that the client sends or is sent. Rules
    look into bodies of `body_limit` bytes at most. What its `gate` does not let by goes no further. `numberings` have
    the ids of commands, by their sender, where some have passed before.
    """

    must_read = is_followed = True
    relays_unseen = False
    fault = None

    def __init__(
        self,
        connections: Mapping[Peer, Connection],
        evaluator: SessionRules,
        client: Client,
        *,
        random: Callable[[], float],
        time: Callable[[], float],
        met: Callable[[Peer, int, Method], None] = lambda sender, channel, method: None,
        saw: Callable[[Peer, bytes], None] = lambda sender, data: None,
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
        self._exchanges = KnownExchanges(self._loads[CLIENT])
        self._delayed: Delayed010 = DelayedCommands(self, ResourceLimitExceeded)
        self._closes: dict[Peer, list[tuple[Frame, int]]] = {}
        """For each peer that has sent connection.close before all else of it went on: the close, and what follows."""
        own = OwnCommands(self._legs, self._is_live, self.close_session)
        self._executor = VerdictExecutor(self, self._legs, self._evaluation, self._exchanges, self._delayed, own)
        self.carry_out = self._executor.carry_out
        self.take_effects = self._executor.take_effects
        self._memory = SessionMemory(self.share)
        self._gathering = CommandGathering(
            self, self._legs, self._evaluation, self._exchanges, self._executor, self._memory
        )
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
        delayed = self._delayed
        if delayed.waiting or delayed.resuming or delayed.paused or self._closes:
            return True
        return any(channel.reopening for channel in self._channels.values())

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
            and not (self._crossed or self._closes)
            and self._delayed.is_idle
            and self._legs.is_transparent
            and all(channel.is_transparent for channel in self._channels.values())
        )

    @property
    def now(self) -> float:
        """The time that was passed in last."""
        return self._evaluation.now

    @now.setter
    def now(self, now: float) -> None:
        self._evaluation.now = now

    def ask_for_frames(self) -> None:
        """The readers hand over all frames: those of one command are gathered whole."""

    def count_unseen(self) -> None:
        """Nothing passes unseen."""

    @property
    def effects(self) -> InterceptorEffects:
        """What rules want besides, since it was taken last."""
        return self._executor.effects

    def facts(self, number: int) -> ChannelInfo:
        """What rules may know of a session, by its channel."""
        return self._evaluation.facts(number)

    # --- in and out

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        """Take all frames that the sender's reader has found in what it has just been fed.

        `ProtocolError` at the first that may not come; those before it have passed then, and both peers have been sent
        connection.close.
        """
        self._begin_turn(now)
        if sender is CLIENT:
            self._legs.count(CLIENT, frames)
        try:
            for frame in frames:
                if self._is_over:
                    self._take_after_end(sender, frame)
                else:
                    self._take(sender, frame)
            self._go_on()
        except ProtocolError as error:
            if not self._is_over:
                self.close(error, f"the {sender} broke the protocol")
            raise

    def take_output(self, to: Peer) -> bytes | memoryview:
        """All that is to be sent to a peer now."""
        return self._legs.take_output(to)

    def take_passed(self, sender: Peer) -> list[tuple[Note, Amqp010Chunk]]:
        """What taps are to see of `sender`, and what they are to know of it."""
        return self._legs.take_passed(sender)

    @property
    def refusal(self) -> Amqp010Refusal | None:
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
        """The session is over, or goes on without rules: refer to nothing that refers to this object."""
        self._delayed.clear()
        self._delayed.end()
        del self._gathering, self._executor, self.carry_out, self.take_effects
        self._closes.clear()
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
        self._closes.clear()
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
            self._memory.add_channel()
        channel = self._channel(frame.channel)
        path = channel.paths[sender]
        position = 0
        if frame.track == Track.COMMAND and frame.begins_assembly:
            position = self._legs.next_position(sender, sender, frame.channel) or 0
        self._legs.receive(sender, sender, frame)
        if not channel.is_named and frame.track == Track.CONTROL and frame.ends_assembly:
            self._memory.name(channel, self._legs.session(CLIENT, channel.number))
        if self.gate is not None and not self.gate(sender, frame):
            return
        path.keep(frame)
        if path.kept[frame.track] and self.share.is_over:
            raise FramingError("there is no memory now for the rest of a control or a command")
        if not frame.channel and self._awaits_others(sender, frame, position):
            return
        if self._gathering.is_of_connection(channel, path, frame):
            self._gathering.process(channel, path, frame, position)
        elif path.is_held_up and frame.index != ConnectionClose.index:
            path.enqueue(frame, position)
        else:
            self._process(channel, path, frame, position)

    def _process(self, channel: ChannelPaths, path: Path, frame: Frame, position: int) -> None:
        """Process a frame before which nothing waits."""
        if channel.closing is None or self._gathering.is_of_connection(channel, path, frame):
            self._gathering.process(channel, path, frame, position)
        else:
            self.take_while_closing(channel, path, frame, position)

    def _awaits_others(self, sender: Peer, frame: Frame, position: int) -> bool:
        """Keep a connection.close, and the controls of its sender behind it, until all has gone on that came before."""
        if frame.track != Track.CONTROL:
            return False
        if frame.index == ConnectionClose.index and sender not in self._closes:
            self._delayed.release_all(sender)
            self._delayed.go_on_releasing()
            if self._is_over or not self._delayed.holds_up(sender):
                return self._is_over
            self._closes[sender] = []
        if sender not in self._closes:
            return False
        self._closes[sender].append((frame, position))
        self._loads[sender].add(cost([frame]))
        return True

    def _channel(self, number: int) -> ChannelPaths:
        channel = self._channels.get(number)
        if channel is None:
            channel = self._channels[number] = ChannelPaths(number, self._loads)
            self._memory.begin(channel)
        return channel

    # --- commands of our own

    def answers_crossing(self, channel: ChannelPaths, frame: Frame) -> bool:
        """Is this the client's answer to our session.detach, which its own has crossed? It goes no further."""
        if channel.number not in self._crossed or frame.index not in _AFTER_CROSSING:
            return False
        self._crossed.remove(channel.number)
        if frame.index != SessionDetached.index or not frame.is_whole_segment:
            return False
        self._legs.met(CLIENT, channel.number, frame.method)
        self._legs.show(CLIENT, [frame], Note(leg=LEGS[CLIENT]))
        return True

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
        for path in channel.paths.values():  # what is queued may end this session, and begin the next
            queue = path.take_queue()
            self._delayed.drop(path)
            path.queue = queue
            self.resume(channel, path)
        if not self._closing.close(channel, close, name, position, index):
            self.forget(channel)

    def take_while_closing(self, channel: ChannelPaths, path: Path, frame: Frame, position: int) -> None:
        """Take a frame on a channel whose session we are closing: nothing of it goes on, but what has begun."""
        closing = channel.closing
        assert closing is not None
        if path.sender not in closing:
            if path.sender is CLIENT:  # it begins the next session
                channel.reopening.append((frame, position))
                self._loads[CLIENT].add(cost([frame]))
            return
        if frame.track == Track.COMMAND:
            if path.is_mid and path.rest is Rest.PASSES and path.sender.other in closing:
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
        queue = channel.reopening
        queue.extend(channel.paths[CLIENT].take_queue())  # all of it counts for the load already
        self.forget(channel)
        self._exchanges.forget(channel.number)
        if queue:
            following = self._channel(channel.number)
            following.paths[CLIENT].queue = queue
            self._begin_next(following)

    def forget(self, channel: ChannelPaths, ended_by: Peer | None = None) -> None:
        """A session has ended, by the session.detached of a peer; what the client has sent behind it goes on."""
        if self._channels.get(channel.number) is not channel:
            return
        del self._channels[channel.number]
        path = channel.paths[CLIENT]
        if not path.has_detached and ended_by is not CLIENT:  # all up to its next attach is of the session that ended
            path = Path(CLIENT, self._loads[CLIENT])
            path.queue = channel.paths[CLIENT].take_queue()
            path.is_stale = bool(path.queue)
            self._delayed.drop(channel.paths[CLIENT])
        self._delayed.drop(channel.paths[SERVER])
        self._exchanges.leave(channel.number)
        channel.destinations.clear()
        self._memory.end(channel)
        self.evaluator.channel_closed(view_channel(channel.number))
        if path.is_empty:
            self._delayed.drop(path)
        else:
            path.has_detached = False
            following = self._channel(channel.number)
            following.paths[CLIENT] = path
            self._begin_next(following)

    def _begin_next(self, channel: ChannelPaths) -> None:
        """Have the frames go on with which the client has begun the next session of a channel."""
        self._delayed.move(channel.paths[CLIENT], channel)
        self._memory.name(channel, self._legs.session(CLIENT, channel.number))

    # --- what an operator wants

    def close_channel(self, number: int, close: Close, now: float) -> None:
        """Close the session on a channel."""
        self._begin_turn(now)
        self.close_session(self._channel(number), close)

    def pause_channel(self, number: int, now: float) -> None:
        """Let the client's commands on a channel wait from the next one on, in order; too many wait as `is_full`."""
        self._begin_turn(now)
        channel = self._channel(number)
        self._delayed.pause(channel, channel.paths[CLIENT])

    def resume_channel(self, number: int, now: float) -> None:
        """Let go on what the client has sent on a paused channel: the first turn of it."""
        self._begin_turn(now)
        self._delayed.end_pauses(self._channel(number))
        self._go_on()

    @property
    def paused_channels(self) -> list[int]:
        """The numbers of the channels that are paused."""
        return [channel.number for channel in self._delayed.paused.values()]

    # --- what waits

    @property
    def next_deadline(self) -> float:
        """When `tick` will next have something to do, in seconds."""
        return self._delayed.next_deadline(self.now)

    @property
    def is_releasing(self) -> bool:
        """Is `go_on_releasing` to go on?"""
        return (self._delayed.is_releasing or bool(self._delayed.resuming)) and not self._is_over

    def tick(self, now: float) -> None:
        """Let go on what has waited long enough, or as much of it as goes on in one turn."""
        self._begin_turn(now)
        self._delayed.tick(now)
        self._go_on()

    def release(self, number: int, verdict: Verdict | None, now: float) -> None:
        """Let a command go on that is held, with another verdict if one is given. `KeyError` when it is not held."""
        self._begin_turn(now)
        self._delayed.release(number, verdict)
        self._go_on()

    def release_all(self, now: float) -> None:
        """Let everything go on that waits now; what is held, as if its timeout had passed.

        That is begun here; while it `is_releasing`, `go_on_releasing` does what is left of it.
        """
        self._delayed.release_all()
        self.go_on_releasing(now)

    def go_on_releasing(self, now: float) -> None:
        """One turn of what `release_all` has begun."""
        self._begin_turn(now)
        self._delayed.go_on_releasing()
        self._go_on()

    def _begin_turn(self, now: float) -> None:
        self.now = now
        self._delayed.begin_turn()

    def _go_on(self) -> None:
        """Do what is left of a turn: resume queues, and send a connection.close for which none is held up any more."""
        self._delayed.go_on_resuming()
        for sender in [sender for sender in self._closes if not self._delayed.holds_up(sender)]:
            channel = self._channel(0)
            for frame, position in self._closes.pop(sender):
                self._loads[sender].remove(cost([frame]))
                with self.blaming(sender):
                    self._process(channel, channel.paths[sender], frame, position)

    def resume(self, channel: ChannelPaths, path: Path) -> None:
        """Have the queue of a path go on, unless a command still waits before it."""
        self._delayed.resume(channel, path)

    def settle(self, channel: ChannelPaths, path: Path, waiting: WaitingCommand) -> None:
        """Carry out the verdict of a command that has waited."""
        self._executor.settle(channel, path, waiting.pending, waiting.verdict)

    def may_go_on(self, path: Path) -> bool:
        """Whether the first frame of a queue may be processed."""
        return not path.is_at_pause

    def process_next(self, channel: ChannelPaths, path: Path) -> None:
        """Process the first frame of a queue."""
        frame, position = path.dequeue()
        if path.is_stale:
            path.is_stale = frame.index != SessionAttach.index and bool(path.queue)
            if frame.index != SessionAttach.index:
                return
        self._process(channel, path, frame, position)

    @contextmanager
    def blaming(self, sender: Peer) -> Iterator[None]:
        """End the connection for what is wrong about something that a peer has sent before."""
        try:
            yield
        except ProtocolError as error:
            if not self._is_over:
                self._executor.refusal = Amqp010Refusal(Close(Scope091.CONNECTION, int(error.code), error.reply_text))
                self.close(error, "a peer broke the protocol")


_CLOSED = frozenset({ConnectionState.CLOSED, ConnectionState.NEW, ConnectionState.GREETED})
