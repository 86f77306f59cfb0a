"""Where commands cross from one leg to the other, and verdicts are carried out.

An `Interceptor` is what a session has between its legs when there are rules. It takes the frames that were handed over,
has them evaluated, and gives what is to be sent to each peer. It keeps both legs' `Connection`s true: each is shown
what really passes on it, so that neither peer ever gets what it may not. It does no input or output; the time is
passed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from amqproxy.amqp091.channel import ChannelMode
from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError, Scope
from amqproxy.amqp091.frame import BODY, HEADER, METHOD, OVERHEAD, Frame, encode_frame, every_frame
from amqproxy.amqp091.frame_reader import EVERY_METHOD
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    Method,
)
from amqproxy.amqp091.pass_cache import PassCache
from amqproxy.amqp091.transitions import CLIENT, CONNECTION_CLOSING, SERVER, ConnectionState, Peer
from amqproxy.proxy.actions import (
    Action,
    CloseConnection,
    Decide,
    Drop,
    Forget,
    Insert,
    LogVerdict,
    Postpone,
    Reply,
    Send,
    SendDamaged,
    ShowToTaps,
    Wait,
    Watch,
)
from amqproxy.proxy.channel_direction import ChannelDirection, QueuedBytes, cost_of_own
from amqproxy.proxy.channel_interceptor import DELIVERIES, LEGS, Actions, ChannelInterceptor
from amqproxy.proxy.delayed_commands import Delayed, DelayedCommands
from amqproxy.proxy.effects import ConnectionRefusal, InterceptorEffects, InterceptorFault
from amqproxy.proxy.encoding import method_frame
from amqproxy.proxy.leg_output import LegOutput
from amqproxy.proxy.memory_budget import SESSION_MEMORY, MemoryBudget, MemoryShare
from amqproxy.proxy.repeated_publishes import RepeatedPublishes
from amqproxy.proxy.session_rules import SessionRules
from amqproxy.proxy.stateful import STATEFUL
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.decision_cache import changes_traffic
from amqproxy.rules.verdict import Impairment, Insertion, Stage, Verdict
from amqproxy.taps.note import NOTHING, Note

MAX_HELD = 16 * 1024 * 1024
"""Bytes that may wait in one session behind what is held; above, or above its share of all memory, nothing more is
read from their sender."""

INTRODUCTIONS = (ConnectionStartOk.index, ConnectionOpen.index)
"""What makes a client known: it must be, before such a method itself is evaluated."""


class Interceptor:
    """The water between a session's two legs.

    `connections` are the legs', by the peer at their other end. `outputs` hold what is to be sent to each
    peer, `passed` the frames of each sender as taps are to see them, if `is_tapped`. `refusal` is set when the
    connection has to end: what the client is told. `fault` is set when what has waited cannot go on. `waiting` are the
    commands that wait, by a number of each. `met` is called with each method that has passed and counts for the session
    itself. Once it `is_draining`, channels are no longer shown to the legs; what its `gate` does not let by goes no
    further. What is kept here counts for the session's `share`. Rules look into bodies of `body_limit`
    bytes at most.
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
        self.connections = connections
        self.client = client
        self.outputs = {peer: LegOutput() for peer in Peer}
        self.passed: dict[Peer, list[tuple[Note, list[Frame]]]] = {CLIENT: [], SERVER: []}
        self.effects = InterceptorEffects()
        self.refusal: ConnectionRefusal | None = None
        self.fault: InterceptorFault | None = None
        self._delayed = DelayedCommands(self)
        self.is_draining = False
        self.gate: Callable[[Peer, Frame], bool] | None = None
        self.evaluator = evaluator
        self.random = random
        self.time = time
        self._met = met
        self.is_tapped = is_tapped
        self.channels: dict[int, ChannelInterceptor] = {}
        self._body_limit = body_limit
        self.share = share or MemoryShare(MemoryBudget(share_limit=SESSION_MEMORY))
        self.loads = {peer: QueuedBytes(self.share) for peer in Peer}
        self.gathering = QueuedBytes(self.share)
        self._unsure: list[tuple[ChannelInterceptor, ChannelDirection]] = []
        self.now = 0.0
        self._staged: tuple[Frame | None, Stage, ChannelInfo] = _NOT_STAGED
        self._last_facts: tuple[tuple[int, ChannelMode, int, int] | None, ChannelInfo] = (None, ChannelInfo())
        self.current: tuple[Peer, int] | None = None
        self._coming: deque[Frame] = deque()
        self._newly_watched: set[int] = set()
        """The channels of which all frames are wanted since the frames at hand were read."""
        self.counts_unacked = self.numbers_confirms = False
        self.readers = {peer: connections[peer].readers[peer] for peer in Peer}
        self._repeated = RepeatedPublishes(self.readers.values())
        self.ask_for_frames()

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
        self.forget_unseen()
        self._staged = _NOT_STAGED
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

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        """Take what the sender's reader has just been fed, `frames` of which it has handed over.

        `ProtocolError` at the first that may not come; those before it have crossed then.
        """
        self._begin_turn(now)
        reader = self.readers[sender]
        output = self.outputs[sender.other]
        if reader.spending:
            self._repeated.settle(reader, now)
        coming = self._coming = deque(frames)
        self._newly_watched.clear()
        handed_over: dict[int, Frame] | None = None
        output.begin(reader)
        try:
            while coming and self.refusal is None and self.fault is None:
                frame = coming.popleft()
                if (
                    handed_over is not None
                    and frame.offset not in handed_over
                    and not self._is_wanted_after_all(sender, frame)
                ):
                    continue
                if output.position != frame.offset:
                    output.pass_up_to(frame.offset)
                self.current = (sender, frame.channel)
                self._take(sender, frame)
                output.skip_to(_end(frame))
                if self._newly_watched and handed_over is None:
                    handed_over = {each.offset: each for each in coming}
                    coming = self._coming = self._looked_over(sender, handed_over, output.position)
            if not self.is_over:
                output.pass_up_to(reader.offset)
        finally:
            self.current = None
            output.end()
        while self._unsure:
            channel, direction = self._unsure.pop()
            if direction.is_unsure and direction.catch_up(self.readers[sender].content_states.get(channel.number)):
                self.do(channel, channel.complete(direction))
        self._end_if_nothing_waits()

    def take_output(self, to: Peer) -> bytes | memoryview:
        """All that is to be sent to a peer now."""
        return self.outputs[to].take()

    def take_passed(self, sender: Peer) -> list[tuple[Note, list[Frame]]]:
        """What taps are to see of `sender`, and what they are to know of it."""
        frames, self.passed[sender] = self.passed[sender], []
        return frames

    def take_effects(self) -> InterceptorEffects:
        effects, self.effects = self.effects, InterceptorEffects()
        return effects

    def is_full(self, sender: Peer) -> bool:
        """Does so much wait of what a peer has said that nothing more is to be read of it for now?"""
        octets = self.loads[sender].octets
        return octets > MAX_HELD or (octets > 0 and self.share.is_over)

    # --- what waits

    @property
    def waiting(self) -> Mapping[int, Delayed]:
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
        """Let everything go on that waits now; what is held, as if nobody had said a word.

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

    def _begin_turn(self, now: float) -> None:
        self.now = now
        self._staged = _NOT_STAGED  # a command may be evaluated later than it was staged, and its channel changed since
        self._delayed.begin_turn()

    @property
    def is_over(self) -> bool:
        """Does the connection have to end? Then nothing more goes on."""
        return self.refusal is not None or self.fault is not None

    def end(self) -> None:
        """The session is over. Nothing that refers to this object is kept, so that it goes at once."""
        self.share.clear()
        self.count_unseen()
        self.evaluator.session_over()
        self._delayed.clear()
        self.channels.clear()

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
                if self._counts(sender, frame):
                    self.show(sender, frame)
                self.outputs[sender.other].pass_up_to(_end(frame))
                if frame.index == ChannelCloseOk.index:
                    self.forget_if_closed(number)
                return
            channel = self._channel(number)
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
        frames = [frame] if stage <= Stage.METHOD else self._at_hand(frame, stage)
        if frames is None:
            return False
        if stage is not Stage.NOTHING:
            command = Command.received(frames)
            verdict = self._verdict(sender, command)
            if changes_traffic(verdict, command) or not all(self._fits(sender, each) for each in frames[2:]):
                channel = self._channel(frame.channel)
                channel.directions[sender].start(frame, None)
                self._carry_out(channel, channel.directions[sender], command, verdict)
                self.outputs[sender.other].skip_to(_end(frames[-1]))
                return True
        self._take_the_rest(sender, frames)
        self.outputs[sender.other].pass_up_to(_end(frames[-1]))
        if channel is not None:
            channel.pass_by(channel.directions[sender], frames)
        if frame.index == BasicPublish.index:
            self._let_pass_unseen(sender, frame)
        return True

    def _at_hand(self, frame: Frame, stage: Stage) -> list[Frame] | None:
        """The frames of a command that begins with this one, if all that is asked for lies behind it in one piece.

        They are taken from what is coming.
        """
        frames = [frame]
        left = -1
        end = _end(frame)
        for each in self._coming:
            if each.offset != end or each.channel != frame.channel or each.kind == METHOD:
                return None
            frames.append(each)
            size = each.length()
            end += size
            left = each.body_size if each.kind == HEADER else left - size + OVERHEAD
            if left == 0 or stage is Stage.HEADER:
                break
        else:
            return None
        for _ in range(len(frames) - 1):
            self._coming.popleft()
        return frames

    def _take_the_rest(self, sender: Peer, frames: list[Frame]) -> None:
        """Take from what is coming the frames of the same message that lie behind these, in one piece with them."""
        last = frames[-1]
        end = _end(last)
        coming = self._coming
        while coming:
            frame = coming[0]
            if frame.kind == METHOD or frame.offset != end or frame.channel != last.channel:
                break
            if not self._fits(sender, frame):
                break
            frames.append(coming.popleft())
            end += frame.length()

    @property
    def _sees_all(self) -> bool:
        """Is everything to be looked at, for whatever reason?"""
        return self.is_tapped or self.gate is not None

    def _needs_no_interceptor(self, sender: Peer, frame: Frame) -> bool:
        """Does a frame pass, on a channel of which nothing is known but that all has passed?"""
        if self._sees_all:
            return False
        if frame.kind in (HEADER, BODY):
            return self._fits(sender, frame)
        if frame.index == ConnectionClose.index and self.holds_up(sender):
            return False
        if self.counts_unacked and frame.index in DELIVERIES:
            return False
        if self.numbers_confirms and frame.index == ConfirmSelect.index:
            return False
        return frame.index not in INTRODUCTIONS and self.stage(sender, frame) is Stage.NOTHING

    def _fits(self, sender: Peer, frame: Frame) -> bool:
        """Would who is to hear it take a frame of that size? Else it is to be split."""
        frame_max = self.connections[sender.other].frame_max
        return not frame_max or frame.length() <= frame_max + OVERHEAD

    def _let_pass_unseen(self, sender: Peer, frame: Frame) -> None:
        """Need no more be handed publishes that are like this one, if all of them pass, or become alike."""
        reader = self.readers[sender]
        if not self._repeated.is_known(reader, frame):
            passing = self.evaluator.passing(sender, frame, self.facts(frame.channel), self.now)
            self._repeated.learn(reader, frame, passing)

    def count_unseen(self) -> None:
        """Let the rules have counted what has passed unseen so far."""
        self._repeated.count()

    def forget_unseen(self) -> None:
        """Have everything evaluated again, since the evaluator may now see it otherwise."""
        self._repeated.forget()

    def _looked_over(self, sender: Peer, handed_over: Mapping[int, Frame], offset: int) -> deque[Frame]:
        """All frames that are still to come of a chunk, from `offset` on, also those that were not handed over.

        To be asked once a chunk: whichever channels are watched since, what is said on them is there.
        """
        reader = self.readers[sender]
        octets = bytes(reader.taken[offset - reader.taken_from :])
        frames = every_frame(octets, offset, reader.content_states)
        return deque([handed_over.get(frame.offset, frame) for frame in frames])

    def _is_wanted_after_all(self, sender: Peer, frame: Frame) -> bool:
        """Is a frame that was not handed over on a channel that is watched since?"""
        if frame.channel not in self._newly_watched:
            return False
        unseen = self.readers[sender].unseen
        passes = unseen.get(frame.payload) if frame.kind == METHOD and unseen else None
        if passes is not None:
            passes.take_back()
        return True

    def _counts(self, sender: Peer, frame: Frame) -> bool:
        """Do the legs have to see the frame?"""
        if self.is_draining and frame.channel:
            return False
        return not frame.is_in_order or (frame.kind == METHOD and STATEFUL[sender][frame.index] != 0)

    def _arrive(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it came from; False when it belongs to what is closing there."""
        if not self._counts(sender, frame):
            return True
        is_live = True
        try:
            is_live = self.connections[sender].receive(sender, frame)
        except ProtocolError as error:
            if error.scope is Scope.CONNECTION:
                raise
            # What is wrong on its channel only is for the broker to answer.
        if is_live and frame.kind == METHOD and frame.channel == 0:
            self._learn(frame.method)
        return is_live

    def _learn(self, method: Method) -> None:
        """Update what is known of the client from the handshake."""
        known = updated_client(self.client, method)
        if known is not self.client:
            self.client = known
            self.evaluator.know(known)
            self.ask_for_frames()

    def show(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it goes out on; False when it need not go, since that is closing."""
        is_live = True
        if frame.index == ChannelClose.index:
            self._keep_rest(sender.other, frame.channel)
        if self._counts(sender, frame):
            try:
                is_live = self.connections[sender.other].receive(sender, frame)
            except ProtocolError as error:
                if error.scope is Scope.CONNECTION:
                    raise
        if frame.kind == METHOD and is_live:
            if STATEFUL[sender][frame.index]:
                self._met(sender, frame.method)
            if frame.index == ChannelOpen.index:
                channel = self.channels.get(frame.channel)
                if channel is not None and channel.is_watched:
                    self._watch_lanes(channel)  # the broker's side of the channel has been opened only now
        return is_live

    def _keep_rest(self, sender: Peer, number: int) -> None:
        """Note whether a content of `sender` is under way, whose channel the other peer closes: its rest must go on."""
        content_state = self.readers[sender].content_states.get(number)
        if content_state is None or content_state.expects == METHOD:
            return
        channel = self._channel(number)
        self._watch(channel)
        direction = channel.directions[sender]
        if not direction.is_mid:
            self._drop(channel, Drop(direction))

    def _channel(self, number: int) -> ChannelInterceptor:
        """The interceptor of a channel, which may have passed without one so far."""
        channel = self.channels.get(number)
        if channel is None:
            channel = self.channels[number] = ChannelInterceptor(number, self)
            for peer, direction in channel.directions.items():
                if self.current != (peer, number):
                    direction.join(self.readers[peer].content_states.get(number))
        return channel

    def _has_channel(self, peer: Peer, number: int) -> bool:
        return number in self.connections[peer].channels

    def _watch(self, channel: ChannelInterceptor) -> None:
        """Have all frames of a channel handed over from here on."""
        number = channel.number
        if not number:
            return
        if not channel.is_watched:
            channel.is_watched = True
            for peer, reader in self.readers.items():
                content_state = reader.content_states.get(number)
                if self.current != (peer, number) and (content_state is None or not content_state.is_shown):
                    channel.directions[peer].join(content_state)
        self._watch_lanes(channel)

    def _watch_lanes(self, channel: ChannelInterceptor) -> None:
        """Have all frames of a channel handed over, from those on that come behind the present one."""
        for peer, reader in self.readers.items():
            content_state = reader.content_states.get(channel.number)
            if content_state is not None and not content_state.is_watched:
                content_state.is_watched = True
                if self.current == (peer, channel.number):
                    self._newly_watched.add(channel.number)

    def _end_if_nothing_waits(self) -> None:
        """Send on a connection.close that waited for everything sent before it."""
        last = self.channels.get(0)
        if last is not None:
            for direction in last.directions.values():
                self._delayed.go_on(last, direction)

    # --- verdicts

    def stage(self, sender: Peer, frame: Frame) -> Stage:
        """The verdict on a frame; it is asked but once, since it counts."""
        staged, stage, _ = self._staged
        if staged is not frame:
            facts = self.facts(frame.channel)
            stage = self.evaluator.stage(sender, frame, facts)
            self._staged = (frame, stage, facts)
        return stage

    def covered_method(self, sender: Peer, command: Command) -> Command | None:
        """A command as logs may show it, without its body; None: not at all."""
        return self.evaluator.covered(sender, command, 0)

    def covered(self, sender: Peer, command: Command) -> Command | None:
        """A command as taps may see it; None: not at all."""
        return self.evaluator.covered(sender, command, self._body_limit)

    def _decide(self, channel: ChannelInterceptor, action: Decide) -> None:
        self._carry_out(
            channel,
            action.direction,
            action.command,
            self._verdict(action.direction.sender, action.command),
        )

    def _verdict(self, sender: Peer, command: Command) -> Verdict:
        """The verdict on a command, of which as much has come as must have."""
        staged, _, facts = self._staged
        verdict = self.evaluator.evaluate(
            CommandContext(
                sender=sender,
                command=command,
                client=self.client,
                channel=facts if staged is command.frames[0] else self.facts(command.channel),
                now=self.now,
                time=self.time(),
                random=self.random,
                body_limit=self._body_limit,
            )
        )
        if verdict.failures:
            self.effects.failed += [rule for rule, _ in verdict.failures]
        return verdict

    def _carry_out(
        self, channel: ChannelInterceptor, direction: ChannelDirection, command: Command, verdict: Verdict
    ) -> None:
        """Have a channel carry a verdict out, and what it wants done besides."""
        self.effects.add(direction.sender, command, verdict)
        self.do(channel, channel.carry_out(direction, command, verdict))
        if command.index == BasicPublish.index and not channel.is_watched:
            self._let_pass_unseen(direction.sender, command.frames[0])

    def facts(self, number: int) -> ChannelInfo:
        state = self.connections[CLIENT].channels.get(number)
        if state is None:
            return ChannelInfo(number=number)
        channel = self.channels.get(number)
        unacked = 0 if channel is None or channel.tags.deliveries is None else channel.tags.deliveries.open
        key = number, state.mode, len(state.consumers), unacked
        if self._last_facts[0] != key:
            facts = ChannelInfo(
                number=number,
                is_confirming=state.mode is ChannelMode.CONFIRM,
                is_transactional=state.mode is ChannelMode.TX,
                consumers=len(state.consumers),
                unacked=unacked,
            )
            self._last_facts = key, facts
        return self._last_facts[1]

    # --- what channels want done

    def do(self, channel: ChannelInterceptor, actions: Actions) -> None:
        """Do what a channel wants done, one after the other."""
        for action in actions:
            _DO[type(action)](self, channel, action)

    def _wait(self, channel: ChannelInterceptor, action: Wait) -> None:
        self._delayed.wait(channel, action.direction, action.waiting)

    def _postpone(self, channel: ChannelInterceptor, action: Postpone) -> None:
        self._delayed.postpone(channel, action.direction, action.postponed)

    def _drop(self, channel: ChannelInterceptor, action: Drop) -> None:
        direction = action.direction
        self._delayed.drop(direction)
        content_state = self.readers[direction.sender].content_states.get(channel.number)
        if content_state is None or content_state.expects == METHOD or direction.is_mid:
            return
        if self.current is None or self.current[0] is not direction.sender:  # else its reader is further
            direction.swallow(content_state)

    def _insert(self, channel: ChannelInterceptor, action: Insert) -> None:
        if action.insertion.after > 0:
            self._insert_later(action.insertion)
        else:
            self._insert_now(action.insertion, action.tag, action.note)

    # --- commands of our own

    def _insert_now(self, insertion: Insertion, tag: int | None = None, note: Note = NOTHING) -> None:
        """Send a command of our own, or one that others have overtaken, to which the broker gave `tag`."""
        command, to = insertion.command, insertion.to
        number = command.channel
        if number == 0 and self.connections[to].state is not ConnectionState.OPEN:
            return
        if number and not (self._has_channel(to, number) and self.connections[to].channels[number].takes_frames):
            return  # the channel that it is for is no more
        channel = self._channel(number)
        self.do(channel, channel.insert(to, command, tag, note))

    def _insert_later(self, insertion: Insertion) -> None:
        """Send a command of our own in some time, unless its channel is another by then."""
        number = insertion.command.channel
        channel = self._channel(number)
        load, octets = self.loads[insertion.to.other], cost_of_own(insertion.command)

        def insert() -> None:
            load.remove(octets)
            if self.channels.get(number) is channel:
                self._insert_now(insertion)

        self._delayed.at(self.now + insertion.after, insertion.to.other, insert)
        load.add(octets)

    # --- what goes out

    def _send(self, channel: ChannelInterceptor, action: Send) -> None:
        """Send frames to the peer that `sender` talks to, but for what belongs to what is closing there, or closed."""
        sender = action.sender
        to = sender.other
        connection, output = self.connections[to], self.outputs[to]
        frame_max = connection.frame_max
        is_seen = action.is_shown and self.is_tapped
        for frame in action.frames:
            if connection.state is not ConnectionState.OPEN and _is_void(connection.state, frame):
                continue
            if not action.is_rest and not self._passes_on(sender, frame):
                continue
            if frame.kind == BODY and frame_max and frame.length() > frame_max + OVERHEAD:
                payload, step = frame.payload, frame_max - OVERHEAD
                for start in range(0, len(payload), step):
                    output.append(encode_frame(BODY, frame.channel, payload[start : start + step]))
            else:
                output.send(frame)
            if is_seen:
                self._see(sender, frame, action.note)
            if frame.index == ChannelCloseOk.index:
                self.forget_if_closed(frame.channel)  # not before it is sent: the next channel's frames follow it

    def _passes_on(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it goes out on, if that has to see it; False when it need not go."""
        # On a channel that is closing, a whole content does no harm, and one without its method would.
        return self.show(sender, frame) or frame.kind != METHOD or BY_INDEX[frame.index].carries_content

    def _send_damaged(self, channel: ChannelInterceptor, action: SendDamaged) -> None:
        self.outputs[action.sender.other].append(action.octets)

    def _reply(self, channel: ChannelInterceptor, action: Reply) -> None:
        to, frame = action.to, method_frame(channel.number, action.method)
        self.connections[to].receive(to.other, frame)
        self.outputs[to].append(frame.raw)
        if self.is_tapped:
            self._see(to.other, frame, action.note._replace(leg=LEGS[to]))

    # --- what taps see

    def _see(self, sender: Peer, frame: Frame, note: Note) -> None:
        """Let taps see a frame of `sender`, as one of the command that is under way."""
        passed = self.passed[sender]
        if passed and passed[-1][0] is note:
            passed[-1][1].append(frame)
        else:
            passed.append((note, [frame]))

    def _show_to_taps(self, channel: ChannelInterceptor, action: ShowToTaps) -> None:
        if self.is_tapped:
            for frame in action.frames:
                self._see(action.sender, frame, action.note)

    # --- a channel, or the connection, that we close

    def forget_if_closed(self, number: int) -> None:
        """Let a channel's number be used again once neither leg has the channel."""
        if self._has_channel(CLIENT, number) and not (number in self.channels and self.channels[number].reopening):
            return
        channel = self.channels.get(number)
        if self._has_channel(SERVER, number):
            return
        if channel is not None:
            for direction in channel.directions.values():
                self._delayed.drop(direction)
            del self.channels[number]
        self.evaluator.channel_closed(number)
        if channel is not None and channel.reopening:
            new = self.channels[number] = ChannelInterceptor(number, self)
            new.is_watched = True
            direction = new.directions[CLIENT]
            direction.queue.extend([(frame, None) for frame in channel.reopening])  # its load is counted already
            self._delayed.go_on(new, direction)
            self._watch_lanes(new)

    def _close_connection(self, channel: ChannelInterceptor, action: CloseConnection) -> None:
        self.refusal = ConnectionRefusal(action.close)
        self.refusal.class_id, self.refusal.method_id = action.class_and_method


def _end(frame: Frame) -> int:
    """Where the frame ends among what its sender has sent."""
    return frame.offset + frame.length()


def _is_void(state: ConnectionState, frame: Frame) -> bool:
    """Is a frame not to be sent any more in this state of the connection?"""
    return state in CONNECTION_CLOSING and (frame.channel != 0 or state is ConnectionState.CLOSED)


_NOT_STAGED = (None, Stage.NOTHING, ChannelInfo())

_DO: dict[type[Action], Callable[[Interceptor, ChannelInterceptor, Any], None]] = {
    Send: Interceptor._send,
    Decide: Interceptor._decide,
    Insert: Interceptor._insert,
    Reply: Interceptor._reply,
    Wait: Interceptor._wait,
    Postpone: Interceptor._postpone,
    Drop: Interceptor._drop,
    ShowToTaps: Interceptor._show_to_taps,
    SendDamaged: Interceptor._send_damaged,
    CloseConnection: Interceptor._close_connection,
    Watch: lambda interceptor, channel, action: interceptor._watch(channel),
    Forget: lambda interceptor, channel, action: interceptor.forget_if_closed(channel.number),
    LogVerdict: lambda interceptor, channel, action: interceptor.effects.logged.append((action.level, action.text)),
}
