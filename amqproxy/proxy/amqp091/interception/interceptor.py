"""Where commands cross from one leg to the other, and verdicts are carried out.

An `Interceptor` is what a session has between its legs when there are rules. It takes the frames that were handed over,
has them evaluated, and gives what is to be sent to each peer. It keeps both legs' `Connection`s true: each is shown
what really passes on it, so that neither peer ever gets what it may not. It does no input or output; the time is
passed in.

Somewhat long, since all that has to see both directions of all channels in their order meets here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError, ResourceError
from amqproxy.amqp091.frame import BODY, HEADER, METHOD, Frame
from amqproxy.amqp091.frame_reader import EVERY_METHOD
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicDeliver,
    BasicPublish,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    Method,
)
from amqproxy.amqp091.pass_cache import PassCache
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp091.interception.action_executor import ActionExecutor, Delayed091
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection, ContentRest, WaitingCommand
from amqproxy.proxy.amqp091.interception.channel_interceptor import DELIVERIES, ChannelInterceptor
from amqproxy.proxy.amqp091.interception.channel_table import ChannelTable
from amqproxy.proxy.amqp091.interception.chunk_frames import ChunkFrames, end_of, fits
from amqproxy.proxy.amqp091.interception.evaluation import Evaluation
from amqproxy.proxy.amqp091.interception.leg_states import LegStates
from amqproxy.proxy.amqp091.stateful import STATEFUL
from amqproxy.proxy.interception.delayed_commands import DelayedCommands
from amqproxy.proxy.interception.effects import ConnectionRefusal, InterceptorEffects, InterceptorFault
from amqproxy.proxy.interception.queued_bytes import QueuedBytes
from amqproxy.proxy.interception.session_rules import SessionRules
from amqproxy.proxy.memory_budget import SESSION_MEMORY, MemoryBudget, MemoryShare
from amqproxy.rules.context import Client
from amqproxy.rules.engine.decision_cache import changes_traffic
from amqproxy.rules.verdict import Close, Impairment, Stage, Verdict
from amqproxy.taps.note import Note

MAX_HELD = 16 * 1024 * 1024
"""Bytes that may wait in one session behind what is held; above, or above its share of all memory, nothing more is
read from their sender."""

INTRODUCTIONS = (ConnectionStartOk.index, ConnectionOpen.index)
"""What makes a client known: it must be, before such a method itself is evaluated."""


class Interceptor:
    """What stands between the legs of a session with rules: it takes frames, and decides what each peer is sent.

    `connections` are the legs', by the peer at their other end. `refusal` is set when a rule wants the connection
    closed: the error that the client receives. `fault` is set when what has waited cannot go on. `met` is called with
    each method that has passed and counts for the session itself. Once it `is_draining`, channels are no longer shown
    to the legs; what its `gate` does not let by goes no further. What is kept here counts for the session's `share`.
    Rules look into bodies of `body_limit` bytes at most.
    """

    relays_unseen = False

    def __init__(
        self,
        connections: Mapping[Peer, Connection],
        evaluator: SessionRules,
        client: Client,
        *,
        random: Callable[[], float],
        time: Callable[[], float],
        met: Callable[[Peer, Method], None] = lambda sender, method: None,
        is_tapped: bool = False,
        share: MemoryShare | None = None,
        body_limit: int = MAX_BODY,
    ) -> None:
        self._legs = LegStates(connections, met, is_tapped=is_tapped)
        self.connections = connections
        self.readers = self._legs.readers
        self._outputs = self._legs.outputs
        self.fault: InterceptorFault | None = None
        self.gate: Callable[[Peer, Frame], bool] | None = None
        self.share = share or MemoryShare(MemoryBudget(share_limit=SESSION_MEMORY))
        self.loads = {peer: QueuedBytes(self.share) for peer in Peer}
        self.gathering = QueuedBytes(self.share)
        self._delayed: Delayed091 = DelayedCommands(self, ResourceError)
        self._table: ChannelTable = ChannelTable(self)
        self.channels = self._table.by_number
        self._evaluation = Evaluation(
            evaluator,
            client,
            agreed=connections[CLIENT].channels,
            interceptors=self.channels,
            readers=self.readers.values(),
            random=random,
            time=time,
            body_limit=body_limit,
        )
        self._executor = ActionExecutor(self._legs, self._table, self._delayed, self._evaluation, self.loads)
        self.do = self._executor.do
        self.stage = self._evaluation.stage
        self.covered = self._evaluation.covered
        self.facts = self._evaluation.facts
        self.random = random
        self.time = time
        self._unsure: list[tuple[ChannelInterceptor, ChannelDirection]] = []
        self.now = 0.0
        self._chunk = ChunkFrames(self.readers[CLIENT])
        self.counts_unacked = self.numbers_confirms = False
        self._table.join_closing()
        for connection in connections.values():
            # Where a broker ends a body that is too long is not known: rules would see another message than it does.
            connection.readers[CLIENT].set_lenient(False)
        self.ask_for_frames()

    @property
    def evaluator(self) -> SessionRules:
        """The rules of the session; after another is set, `ask_for_frames` is to be called."""
        return self._evaluation.evaluator

    @evaluator.setter
    def evaluator(self, evaluator: SessionRules) -> None:
        self._evaluation.evaluator = evaluator

    @property
    def is_tapped(self) -> bool:
        """Is every frame to be shown to taps? After it is set, `ask_for_frames` is to be called."""
        return self._legs.is_tapped

    @is_tapped.setter
    def is_tapped(self, is_tapped: bool) -> None:
        self._legs.is_tapped = is_tapped

    @property
    def client(self) -> Client:
        """What is known of the client so far."""
        return self._evaluation.client

    @client.setter
    def client(self, client: Client) -> None:
        self._evaluation.client = client

    @property
    def current(self) -> tuple[Peer, int] | None:
        """Whose frame is under way, and on which channel; its reader may be further."""
        return self._legs.current

    @property
    def effects(self) -> InterceptorEffects:
        """What rules want besides, since it was taken last."""
        return self._executor.effects

    @property
    def refusal(self) -> ConnectionRefusal | None:
        """Set when a rule wants the connection closed."""
        return self._executor.refusal

    @property
    def is_draining(self) -> bool:
        return self._legs.is_draining

    @is_draining.setter
    def is_draining(self, value: bool) -> None:
        self._legs.is_draining = value

    @property
    def shown_client(self) -> Client:
        """What is known of the client, as logs and operators may see it."""
        return self.evaluator.shown_client

    def start(self, now: float, *, is_open: bool) -> tuple[Impairment, ...]:
        """What rules about connections as such want to be done to the bytes of this one."""
        return self.evaluator.start(now=now, time=self.time(), random=self.random, is_open=is_open)

    # --- in and out

    def ask_for_frames(self) -> None:
        """Have what is needed handed over, and no more: to be called when the evaluator, or what it knows, changes."""
        self._evaluation.forget()
        for channel in self.channels.values():
            for direction in channel.directions.values():
                channel.stage_again(direction)
        self.counts_unacked = self.evaluator.reads_unacked
        self.numbers_confirms = self.evaluator.drops_confirms
        for peer, reader in self.readers.items():
            if self._sees_all:
                reader.unseen = None
                reader.want(EVERY_METHOD, content=True)
            else:
                if reader.unseen is None:
                    reader.unseen = PassCache()
                wanted = bytearray(a | b for a, b in zip(STATEFUL[peer], self.evaluator.wants(peer), strict=True))
                if self.counts_unacked and peer is SERVER:
                    wanted[BasicDeliver.index] = 1
                reader.want(bytes(wanted), content=self.evaluator.wants_all(peer))
        if self.numbers_confirms:
            self._number_confirms()

    def _number_confirms(self) -> None:
        """Number the confirms of every channel that has asked for them, before rules may drop the first of them."""
        for number, channel in self.connections[SERVER].channels.items():
            if channel.confirms_from is not None and channel.takes_frames:
                interceptor = self._table.channel(number)
                self.do(interceptor, interceptor.tags.number_confirms())

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        """Take what the sender's reader has just been fed, `frames` of which it has handed over.

        `ProtocolError` at the first that may not come; those before it have crossed then.
        """
        self._begin_turn(now)
        reader = self.readers[sender]
        output = self._outputs[sender.other]
        if reader.spending:
            self._evaluation.repeated.settle(reader, now)
        chunk = self._chunk = ChunkFrames(reader, frames)
        legs, executor = self._legs, self._executor
        newly_watched = self._table.newly_watched
        newly_watched.clear()
        output.begin(reader)
        try:
            while chunk.coming and executor.refusal is None and self.fault is None:
                frame = chunk.coming.popleft()
                if newly_watched and not chunk.is_wanted(frame, newly_watched):
                    continue
                if output.position != frame.offset:
                    output.pass_up_to(frame.offset)
                legs.current = (sender, frame.channel)
                self._take(sender, frame)
                output.skip_to(end_of(frame))
                if newly_watched:
                    chunk.read_again(output.position)
            if not self.is_over:
                output.pass_up_to(reader.offset)
        finally:
            legs.current = None
            output.end()
        while self._unsure:
            channel, direction = self._unsure.pop()
            if direction.is_unsure and direction.catch_up(self.readers[sender].content_states.get(channel.number)):
                self.do(channel, channel.complete(direction))
        self._end_if_nothing_waits()

    def take_output(self, to: Peer) -> bytes | memoryview:
        """All that is to be sent to a peer now; nothing to a client that was sent connection.close."""
        output = self._outputs[to].take()
        return b"" if to is CLIENT and self.is_draining else output

    def take_passed(self, sender: Peer) -> list[tuple[Note, list[Frame]]]:
        """What taps are to see of `sender`, and what they are to know of it."""
        return self._legs.take_passed(sender)

    def take_effects(self) -> InterceptorEffects:
        """What rules want besides."""
        return self._executor.take_effects()

    def is_full(self, sender: Peer) -> bool:
        """Does so much wait of what a peer has sent that nothing more is to be read from it for now?"""
        size = self.loads[sender].size
        return size > MAX_HELD or (size > 0 and self.share.is_over)

    # --- what an operator wants

    def close_channel(self, number: int, close: Close, now: float) -> None:
        """Close a channel on both legs, as soon as no content is under way on it."""
        self._begin_turn(now)
        channel = self._table.channel(number)
        self.do(channel, channel.close(None, close))
        self._end_if_nothing_waits()

    def pause_channel(self, number: int, now: float) -> None:
        """Let the client's commands on a channel wait from the next one on, in order; too many wait as `is_full`."""
        self._begin_turn(now)
        channel = self._table.channel(number)
        self._table.watch(channel)
        self._delayed.pause(channel, channel.directions[CLIENT])

    def resume_channel(self, number: int, now: float) -> None:
        """Let go on what the client has sent on a paused channel."""
        channel = self.channels.get(number)
        if channel is not None:
            self._delayed.end_pauses(channel)
        self.tick(now)

    @property
    def paused_channels(self) -> list[int]:
        """The numbers of the channels that are paused."""
        return [channel.number for channel in self._delayed.paused.values()]

    # --- what waits

    @property
    def waiting(self) -> Mapping[int, tuple[ChannelInterceptor, ChannelDirection]]:
        """The commands that wait, by a number of each."""
        return self._delayed.waiting

    @property
    def next_deadline(self) -> float:
        """When `tick` will next have something to do, in seconds."""
        return self._delayed.next_deadline(self.now)

    @property
    def is_releasing(self) -> bool:
        """Is `go_on_releasing` to go on?"""
        return self._delayed.is_releasing and not self.is_over

    def tick(self, now: float) -> None:
        """Let go on what has waited long enough, or as much of it as goes on in one turn."""
        self._begin_turn(now)
        self._delayed.tick(now)
        self._end_if_nothing_waits()

    def release(self, number: int, verdict: Verdict | None, now: float) -> None:
        """Let a command go on that is held, with another verdict if one is given. `KeyError` when it is not held."""
        self._begin_turn(now)
        self._delayed.release(number, verdict)
        self._end_if_nothing_waits()

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
        self._end_if_nothing_waits()

    def holds_up(self, sender: Peer) -> bool:
        """Does anything of the sender's wait, on any channel?"""
        if self._delayed.holds_up(sender):
            return True
        return sender is CLIENT and any(channel.reopening for channel in self.channels.values())

    def settle(self, channel: ChannelInterceptor, direction: ChannelDirection, waiting: WaitingCommand) -> None:
        """Carry out the verdict of a command that has waited."""
        self.do(channel, channel.resume(direction, waiting))

    def may_go_on(self, direction: ChannelDirection) -> bool:
        """Whether the first frame of a queue may be processed: a close waits for all else that its sender has sent."""
        first = direction.queue[0][0]
        if first.index == ConnectionClose.index and self.holds_up(direction.sender):
            return False
        return not (direction.is_paused and first.kind == METHOD)

    def process_next(self, channel: ChannelInterceptor, direction: ChannelDirection) -> None:
        """Process the first frame of a queue."""
        self.do(channel, channel.next_held_up(direction))

    @contextmanager
    def blaming(self, sender: Peer) -> Iterator[None]:
        """What is wrong with what waited is its sender's fault, even if another event caused it to go on."""
        try:
            yield
        except ProtocolError as error:
            if self.fault is None:
                self.fault = InterceptorFault(sender, error)

    def _begin_turn(self, now: float) -> None:
        self.now = now
        self._evaluation.begin_turn(now)
        self._delayed.begin_turn()

    @property
    def is_over(self) -> bool:
        """Does the connection have to end? Then nothing more goes on."""
        return self._executor.refusal is not None or self.fault is not None

    def end(self) -> None:
        """The session is over. Nothing that refers to this object is kept, so that it goes at once."""
        self.share.clear()
        self.count_unseen()
        self.evaluator.session_over()
        self._delayed.end()
        self._table.clear()

    # --- one frame

    def _take(self, sender: Peer, frame: Frame) -> None:
        """Take a frame that has come: to its channel, if there is anything to be done about it there."""
        number = frame.channel
        channel = self.channels.get(number)
        if (
            channel is not None
            and sender is CLIENT
            and (frame.index == ChannelOpen.index or channel.reopening)
            and channel.is_reopening()
        ):
            self._arrive(sender, frame)
            if self.gate is None or self.gate(sender, frame):
                self.do(channel, channel.keep_for_next(frame))
            return
        if frame.kind == METHOD and self._passes_as_it_lies(sender, frame, channel):
            return
        is_live = self._arrive(sender, frame)
        if self.gate is not None and not self.gate(sender, frame):
            return
        if channel is None:
            if is_live and self._needs_no_interceptor(sender, frame):
                if self._legs.count(sender, frame):
                    self._executor.show(sender, frame)
                self._outputs[sender.other].pass_up_to(end_of(frame))
                if frame.index == ChannelCloseOk.index:
                    self._executor.forget_if_closed(number)
                return
            channel = self._table.channel(number)
            if is_live and frame.kind in (HEADER, BODY):
                channel.directions[sender].join_midway(frame)
                self._unsure.append((channel, channel.directions[sender]))
        self.do(channel, channel.take(sender, frame, is_live=is_live))

    def _passes_as_it_lies(self, sender: Peer, frame: Frame, channel: ChannelInterceptor | None) -> bool:
        """The fast path: evaluate a message of which all that is asked for is here, and leave it there if it may pass.

        False when it is for its channel to take.
        """
        if STATEFUL[sender][frame.index] or not frame.is_in_order or self._sees_all:
            return False
        if not BY_INDEX[frame.index].carries_content or (self.counts_unacked and frame.index in DELIVERIES):
            return False
        if channel is not None and not channel.is_idle(channel.directions[sender]):
            return False
        stage = self.stage(sender, frame)
        frames = [frame] if stage <= Stage.METHOD else self._chunk.take_command(frame, stage)
        if frames is None:
            return False
        to = sender.other
        frame_max = self.connections[to].frame_max
        if stage is not Stage.NOTHING:
            command = Command.received(frames)
            verdict = self._evaluation.verdict(sender, command)
            if changes_traffic(verdict, command) or not all(fits(each, frame_max) for each in frames[2:]):
                channel = self._table.channel(frame.channel)
                channel.directions[sender].start(frame, None)
                self._executor.carry_out(channel, channel.directions[sender], command, verdict)
                self._outputs[to].skip_to(end_of(frames[-1]))
                if not self._table.newly_watched:
                    self._take_rest_as_it_lies(channel, channel.directions[sender], frames[-1])
                return True
        self._chunk.take_rest(frames, frame_max)
        self._outputs[to].pass_up_to(end_of(frames[-1]))
        if channel is not None:
            channel.pass_by(channel.directions[sender], frames)
        if frame.index == BasicPublish.index:
            self._evaluation.cache_passing(sender, self.readers[sender], frame)
        return True

    def _take_rest_as_it_lies(self, channel: ChannelInterceptor, direction: ChannelDirection, last: Frame) -> None:
        """Pass or swallow what is here of a content behind its `last` frame, of which a rule has decided."""
        to = direction.sender.other
        if not channel.leaves_rest(direction):
            return
        passes = direction.rest is ContentRest.PASSES
        frames = [last]
        self._chunk.take_rest(frames, self.connections[to].frame_max if passes else 0)
        if len(frames) == 1:
            return
        if passes:
            self._outputs[to].pass_up_to(end_of(frames[-1]))
        else:
            self._outputs[to].skip_to(end_of(frames[-1]))
        if direction.skip(frames[1:]):
            if passes:
                direction.end()
            else:
                self.do(channel, channel.complete(direction))

    @property
    def _sees_all(self) -> bool:
        """Are all frames wanted?"""
        return self._legs.is_tapped or self.gate is not None

    def _needs_no_interceptor(self, sender: Peer, frame: Frame) -> bool:
        """Does a frame pass, on a channel of which nothing is known but that all has passed?"""
        if self._sees_all:
            return False
        if frame.kind in (HEADER, BODY):
            return fits(frame, self.connections[sender.other].frame_max)
        if frame.index == ConnectionClose.index and self.holds_up(sender):
            return False
        if self.counts_unacked and frame.index in DELIVERIES:
            return False
        if self.numbers_confirms and frame.index == ConfirmSelect.index:
            return False
        return frame.index not in INTRODUCTIONS and self.stage(sender, frame) is Stage.NOTHING

    def count_unseen(self) -> None:
        """Let the rules have counted what has passed unseen so far."""
        self._evaluation.repeated.count()

    def _arrive(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it came from; False when it belongs to what is closing there."""
        if not self._legs.count(sender, frame):
            return True
        is_live = self._legs.receive(sender, frame)
        if is_live and frame.kind == METHOD and frame.channel == 0:
            if frame.index == ConnectionClose.index and sender is CLIENT:
                self._delayed.end_pauses()  # all that it has sent goes before its close
            if self._evaluation.learn(frame.method):
                self.ask_for_frames()
        return is_live

    def _end_if_nothing_waits(self) -> None:
        """Send on a connection.close that waited for everything sent before it."""
        last = self.channels.get(0)
        if last is not None:
            for direction in last.directions.values():
                self._delayed.go_on(last, direction)

    # --- verdicts

    def covered_method(self, sender: Peer, command: Command) -> Command | None:
        """A command as logs may show it, without its body; None: not at all."""
        return self.evaluator.covered(sender, command, 0)
