"""The 0-9-1 passage with rules, which carries out verdicts on the commands between the legs.

An `Interceptor` takes the frames that were handed over, evaluates them, and returns the bytes to send to each peer. It
keeps both legs' `Connection`s consistent: each is shown the frames that really pass on it, so that neither peer is ever
sent a frame that it does not allow. It does no input or output; the time is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ResourceError
from amqproxy.amqp091.frame import BODY, HEADER, METHOD, Frame
from amqproxy.amqp091.frame_reader import EVERY_METHOD
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicDeliver,
    BasicPublish,
    BasicReturn,
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
from amqproxy.proxy.amqp091.interception.action_executor import Amqp091ActionExecutor
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection, ContentRest
from amqproxy.proxy.amqp091.interception.channel_interceptor import DELIVERIES, ChannelInterceptor
from amqproxy.proxy.amqp091.interception.channel_table import ChannelTable
from amqproxy.proxy.amqp091.interception.chunk_frames import ChunkFrames, end_of, fits
from amqproxy.proxy.amqp091.interception.evaluation import Amqp091Evaluation
from amqproxy.proxy.amqp091.interception.leg_states import LegStates
from amqproxy.proxy.amqp091.stateful import STATEFUL
from amqproxy.proxy.interception.delayed_commands import DelayedCommands
from amqproxy.proxy.interception.interceptor import Interceptor
from amqproxy.proxy.interception.queued_bytes import QueuedBytes
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.rules.context import Client
from amqproxy.rules.engine.decision_cache import changes_traffic
from amqproxy.rules.engine.evaluator import RuleEvaluator
from amqproxy.rules.verdict import Stage

INTRODUCTIONS = (ConnectionStartOk.index, ConnectionOpen.index)
"""Methods that identify a client: what they tell must be known before the methods themselves are evaluated."""


class Amqp091Interceptor(Interceptor[ChannelInterceptor, ChannelDirection]):
    """An `Interceptor` of the frames of a 0-9-1 connection.

    `met` is called with each passed method that matters to the session itself. Once it `is_draining`, frames of
    channels are no longer shown to the legs. Rules inspect bodies of `body_limit` bytes at most.
    """

    _legs: LegStates
    _evaluation: Amqp091Evaluation
    _executor: Amqp091ActionExecutor

    def __init__(
        self,
        connections: Mapping[Peer, Connection],
        evaluator: RuleEvaluator,
        client: Client,
        *,
        random: Callable[[], float],
        time: Callable[[], float],
        met: Callable[[Peer, Method], None] = lambda sender, method: None,
        is_tapped: bool = False,
        share: MemoryShare | None = None,
        body_limit: int = MAX_BODY,
    ) -> None:
        super().__init__(connections, share)
        self._legs = LegStates(connections, met, is_tapped=is_tapped)
        self.readers = self._legs.readers
        self._outputs = self._legs.outputs
        self.gathering = QueuedBytes(self.share)
        self._delayed = DelayedCommands(ResourceError)
        self._table: ChannelTable = ChannelTable(self)
        self.channels = self._table.by_number
        self._evaluation = Amqp091Evaluation(
            evaluator,
            client,
            agreed=connections[CLIENT].channels,
            interceptors=self.channels,
            readers=self.readers.values(),
            random=random,
            time=time,
            body_limit=body_limit,
        )
        self._executor = Amqp091ActionExecutor(self._legs, self._table, self._delayed, self._evaluation, self.loads)
        self.do = self._executor.do
        self.stage = self._evaluation.stage
        self.covered = self._evaluation.covered
        self._unsure: list[tuple[ChannelInterceptor, ChannelDirection]] = []
        self._chunk = ChunkFrames(self.readers[CLIENT])
        self.counts_unacked = self.numbers_confirms = False
        self._table.join_closing()
        for connection in connections.values():
            # It is unknown where the broker ends an overlong body: rules would see another message than the broker.
            connection.readers[CLIENT].set_lenient(False)
        self.ask_for_frames()

    @property
    def current(self) -> tuple[Peer, int] | None:
        """The sender and channel of the frame in progress; its reader may be ahead of it."""
        return self._legs.current

    @property
    def is_draining(self) -> bool:
        return self._legs.is_draining

    @is_draining.setter
    def is_draining(self, value: bool) -> None:
        self._legs.is_draining = value

    @property
    def is_transparent(self) -> bool:
        """Whether frames fit both legs unchanged."""
        return self._legs.is_transparent

    def _channel(self, number: int) -> ChannelInterceptor:
        return self._table.channel(number)

    def _watch(self, channel: ChannelInterceptor) -> None:
        self._table.watch(channel)

    # --- input and output

    def ask_for_frames(self) -> None:
        self._evaluation.refresh()
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
                if peer is SERVER and (self.counts_unacked or self._legs.limit_of_cuts(CLIENT)):
                    wanted[BasicDeliver.index] = 1
                if peer is SERVER and self._legs.limit_of_cuts(CLIENT):
                    wanted[BasicReturn.index] = 1
                reader.want(bytes(wanted), content=self.evaluator.wants_all(peer))
        if self.numbers_confirms:
            self._number_confirms()

    def _number_confirms(self) -> None:
        """Start translating confirms on every channel that has asked for them, before rules may drop the first one."""
        for number, channel in self.connections[SERVER].channels.items():
            if channel.confirms_from is not None and channel.takes_frames:
                interceptor = self._table.channel(number)
                self.do(interceptor, interceptor.tags.number_confirms())

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
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
            while chunk.coming and executor.refusal is None and executor.fault is None:
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
        self._close_connections()

    def take_output(self, to: Peer) -> bytes | memoryview:
        """Take all bytes that are ready to be sent to a peer; none for a client that was sent connection.close."""
        output = self._outputs[to].take()
        return b"" if to is CLIENT and self.is_draining else output

    def holds_up(self, sender: Peer) -> bool:
        """Whether any frame of the sender is queued, on any channel."""
        if self._delayed.holds_up(sender):
            return True
        return sender is CLIENT and any(channel.reopening for channel in self.channels.values())

    def has_output(self, to: Peer) -> bool:
        """Whether bytes are ready to be sent to a peer."""
        return self._outputs[to].is_ready

    def unshown_publishes(self, number: int) -> int | None:
        """Return the number of the client's publishes that wait on a channel, as `ChannelInterceptor` has it."""
        channel = self.channels.get(number)
        return 0 if channel is None else channel.unshown_publishes()

    def end(self) -> None:
        self.count_unseen()
        super().end()
        self._table.clear()

    # --- one frame

    def _take(self, sender: Peer, frame: Frame) -> None:
        """Process a received frame, by its channel's interceptor if it needs more than forwarding."""
        number = frame.channel
        channel = self.channels.get(number)
        is_from_server = sender is SERVER and frame.kind == METHOD
        if is_from_server and self._legs.limit_of_cuts(CLIENT) and BY_INDEX[frame.index].carries_content:
            self._legs.delivering[number] = frame.method
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
                if self.answers is not None and self.answers(sender, frame):
                    return
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
        """Evaluate a message in place if all of it that its stage needs is here, and leave it there if it may pass.

        This is the fast path; return false if the channel's interceptor must take the frame.
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
        largest = self._legs.largest_frame(to)
        if stage is not Stage.NOTHING:
            command = Command.received(frames)
            verdict = self._evaluation.verdict(sender, command)
            if changes_traffic(verdict, command) or not all(fits(each, largest) for each in frames[1:]):
                channel = self._table.channel(frame.channel)
                channel.directions[sender].start(frame, None)
                self._executor.carry_out(channel, channel.directions[sender], command, verdict)
                self._outputs[to].skip_to(end_of(frames[-1]))
                if not self._table.newly_watched and not self.is_over:
                    self._take_rest_as_it_lies(channel, channel.directions[sender], frames[-1])
                return True
        self._chunk.take_rest(frames, largest)
        self._outputs[to].pass_up_to(end_of(frames[-1]))
        if channel is not None:
            channel.pass_by(channel.directions[sender], frames)
        if frame.index == BasicPublish.index:
            self._evaluation.cache_passing(sender, self.readers[sender], frame)
        return True

    def _take_rest_as_it_lies(self, channel: ChannelInterceptor, direction: ChannelDirection, last: Frame) -> None:
        """Forward or discard the frames here that follow the `last` one of a content that was evaluated."""
        to = direction.sender.other
        if not channel.leaves_rest(direction):
            return
        passes = direction.rest is ContentRest.PASSES
        frames = [last]
        self._chunk.take_rest(frames, self._legs.largest_frame(to) if passes else 0)
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
    def answers(self) -> Callable[[Peer, Frame], bool] | None:
        """Whether the proxy answers a frame, which is then not forwarded; rules have seen it before."""
        return self._legs.answers

    @answers.setter
    def answers(self, answers: Callable[[Peer, Frame], bool] | None) -> None:
        self._legs.answers = answers

    @property
    def _sees_all(self) -> bool:
        """Whether all frames must be handed over, for taps or a gate."""
        return self._legs.is_tapped or self.gate is not None

    def _needs_no_interceptor(self, sender: Peer, frame: Frame) -> bool:
        """Whether a frame can be forwarded on a channel without an interceptor."""
        if self._sees_all:
            return False
        if frame.kind in (HEADER, BODY):
            return fits(frame, self._legs.largest_frame(sender.other))
        if frame.index == ConnectionClose.index and self.holds_up(sender):
            return False
        if self.counts_unacked and frame.index in DELIVERIES:
            return False
        if self.numbers_confirms and frame.index == ConfirmSelect.index:
            return False
        return frame.index not in INTRODUCTIONS and self.stage(sender, frame) is Stage.NOTHING

    def count_unseen(self) -> None:
        self._evaluation.repeated.count()

    def _arrive(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it came from; return false if its channel or connection is closing there."""
        if not self._legs.count(sender, frame):
            return True
        is_live = self._legs.receive(sender, frame)
        if is_live and frame.kind == METHOD and frame.channel == 0:
            if frame.index == ConnectionClose.index and sender is CLIENT:
                self._delayed.end_pauses()  # all earlier commands are forwarded before the close
            if self._evaluation.learn(frame.method):
                self.ask_for_frames()
        return is_live

    def _close_connections(self) -> None:
        last = self.channels.get(0)
        if last is not None:
            for direction in last.directions.values():
                self._executor.go_on(self._delayed.go_on(last, direction))
