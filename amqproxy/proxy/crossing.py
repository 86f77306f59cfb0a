"""Where commands cross from one leg to the other, and verdicts are carried out.

A `Crossing` is what a session has between its legs when there are rules. It takes the frames that were handed over,
has them judged, and gives what is to be sent to each peer. It keeps both legs' `Connection`s true: each is shown what
really passes on it, so that neither peer ever gets what it may not. It does no input or output, and is told the time.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec

from amqproxy.amqp091.channel import ChannelMode
from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import (
    ProtocolError,
    Scope,
)
from amqproxy.amqp091.frames import (
    BODY,
    EVERY_METHOD,
    HEADER,
    HEARTBEAT,
    METHOD,
    OVERHEAD,
    Frame,
    FrameReader,
    Passes,
    Unseen,
    encode_frame,
    every_frame,
)
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BY_NAME,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    Method,
)
from amqproxy.amqp091.transitions import CLIENT, CONNECTION_CLOSING, SERVER, ConnectionState, Peer
from amqproxy.proxy.flow import Flow, Load, cost, cost_of_own
from amqproxy.proxy.judge import Judge, Passing
from amqproxy.proxy.memory import SESSION_MEMORY, Memory, Share
from amqproxy.proxy.reframing import check, method_frame
from amqproxy.proxy.renumbering import within_bounds
from amqproxy.proxy.strait import DELIVERIES, Strait
from amqproxy.proxy.timers import Timer, Timers
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.decision_cache import changes_traffic
from amqproxy.rules.engine.outcome import Outcome, outcome
from amqproxy.rules.verdict import Close, Impairment, Insertion, MirroredCopy, Stage, Verdict
from amqproxy.taps.note import NOTHING, Note

MAX_HELD = 16 * 1024 * 1024
"""Bytes that may wait in one session behind what is held; above, or above its share of all memory, nothing more is
read from their sender."""

TURN = 64
"""Commands and frames that go on in one turn of what has waited; the rest goes on in the next."""

MAX_UNSEEN = 1024
"""Methods of one direction that are known to pass; beyond, all are forgotten and judged again."""

INTRODUCTIONS = (ConnectionStartOk.index, ConnectionOpen.index)
"""What makes a client known: it must be, before such a method itself is judged."""


LEGS = {CLIENT: "client", SERVER: "upstream"}
"""What taps call the leg to each peer."""


def _all_but(*names: str) -> bytes:
    wanted = bytearray(EVERY_METHOD)
    for name in names:
        wanted[BY_NAME[name].index] = 0
    return bytes(wanted)


STATEFUL = {
    CLIENT: _all_but("basic.publish", "basic.ack", "basic.nack", "basic.reject"),
    SERVER: _all_but("basic.deliver", "basic.return", "basic.ack", "basic.nack"),
}
"""Of each sender, the methods that change what the legs have agreed. The others, which are nearly
all there are, need not be handed over to be relayed."""


class Effects(msgspec.Struct):
    """What a crossing wants done that is not said to the two peers: for the session to take and carry out."""

    impairments: list[Impairment] = []
    mirrored: list[MirroredCopy] = []
    logged: list[tuple[str, str]] = []
    failed: list[str] = []
    """The names of rules that have failed."""
    refused: list[tuple[Peer, Command, Verdict]] = []
    """Commands that go no further, and whose they were."""
    held: list[int] = []
    """The numbers of commands that wait for somebody's word from now on."""


class Refusal(ProtocolError):
    """A rule wants the connection closed, with any code and text there may be."""

    name = "REFUSED"

    def __init__(self, close: Close) -> None:
        super().__init__(close.text, scope=Scope.CONNECTION)
        self.code = close.code  # type: ignore[misc]

    @property
    def reply_text(self) -> str:
        return self.text


class Fault(Exception):
    """What `sender` has said, and what waited since, cannot go on for `error`."""

    def __init__(self, sender: Peer, error: ProtocolError) -> None:
        super().__init__(str(error))
        self.sender = sender
        self.error = error


class Crossing:
    """The water between a session's two legs.

    `connections` are the legs', by the peer at their other end. `output` holds the octets that are to be sent to each
    peer, `passed` the frames of each sender as taps are to see them, if `is_tapped`. `refusal` is set when the
    connection has to end: what the client is told. `fault` is set when what has waited cannot go on. `waiting` are the
    commands that wait, by a number of each. `met` is called with each method that has passed and counts for the session
    itself. Once it `is_deaf`, as a drain wants it, channels are no longer shown to the legs; what its `gate` does not
    let by goes no further. What is kept here counts for the session's `share`. Rules look into bodies of `body_limit`
    bytes at most.
    """

    def __init__(
        self,
        connections: Mapping[Peer, Connection],
        judge: Judge,
        client: Client,
        *,
        random: Callable[[], float],
        time: Callable[[], float],
        met: Callable[[Peer, Method], None] = lambda sender, method: None,
        is_tapped: bool = False,
        shows_all: bool = False,
        share: Share | None = None,
        body_limit: int = MAX_BODY,
    ) -> None:
        self.connections = connections
        self.client = client
        self.output: dict[Peer, list[bytes | memoryview]] = {CLIENT: [], SERVER: []}
        self.passed: dict[Peer, list[tuple[Note, list[Frame]]]] = {CLIENT: [], SERVER: []}
        self.note = NOTHING
        self.effects = Effects()
        self.refusal: Refusal | None = None
        self.fault: Fault | None = None
        self.waiting: dict[int, tuple[Strait, Flow]] = {}
        self.resuming: dict[Flow, Strait] = {}
        """What waits for nothing but its turn."""
        self._to_release: deque[tuple[Strait, Flow]] = deque()
        self._left = TURN
        self.is_deaf = False
        self.gate: Callable[[Peer, Frame], bool] | None = None
        self.judge = judge
        self.random = random
        self.time = time
        self._met = met
        self.is_tapped = is_tapped
        self._shows_all = shows_all
        self.straits: dict[int, Strait] = {}
        self._body_limit = body_limit
        self.share = share or Share(Memory(share_limit=SESSION_MEMORY))
        self.loads = {peer: Load(self.share) for peer in Peer}
        self.gathering = Load(self.share)
        self._timers = Timers()
        self._unsure: list[tuple[Strait, Flow]] = []
        self.numbers = itertools.count(1)
        self.now = 0.0
        self._staged: tuple[Frame | None, Stage] = (None, Stage.NOTHING)
        self._last_facts: tuple[tuple[int, ChannelMode, int, int] | None, ChannelInfo] = (None, ChannelInfo())
        self._passing: list[tuple[Passing, Passes]] = []
        self.current: tuple[Peer, int] | None = None
        self.is_watching_more = False
        self.newly_watched: set[int] = set()
        """The channels of which all frames are wanted since the frames at hand were read."""
        self.counts_unacked = False
        self.readers = {peer: connections[peer].readers[peer] for peer in Peer}
        self.ask_for_frames()

    # --- in and out

    def ask_for_frames(self) -> None:
        """Have what is needed handed over, and no more: to be called when the judge, or what it knows, is another."""
        self.forget_unseen()
        self._staged = (None, Stage.NOTHING)
        for strait in self.straits.values():
            for flow in strait.flows.values():
                strait.stage_again(flow)
        self.counts_unacked = self.judge.reads_unacked
        for peer, reader in self.readers.items():
            if self.is_tapped or self._shows_all or self.gate is not None:
                reader.unseen = None
                reader.want(EVERY_METHOD, content=True)
            else:
                if reader.unseen is None:
                    reader.unseen = Unseen()
                wanted = bytearray(a | b for a, b in zip(STATEFUL[peer], self.judge.wants(peer), strict=True))
                if self.counts_unacked and peer is SERVER:
                    wanted[BasicDeliver.index] = 1
                reader.want(bytes(wanted), content=self.judge.wants_all(peer))

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        """Take what the sender's reader has just been fed, `frames` of which it has handed over.

        `ProtocolError` at the first that may not come; those before it have crossed then.
        """
        self.now = now
        self._left = TURN
        reader = self.readers[sender]
        output = self.output[sender.other]
        kept_from = reader.taken_from
        if reader.spending:
            self._settle_up(reader)
        coming = deque(frames)
        self.is_watching_more = False
        self.newly_watched.clear()
        handed_over: dict[int, Frame] | None = None
        while coming and not self.is_over:
            frame = coming.popleft()
            if (
                handed_over is not None
                and frame.offset not in handed_over
                and not self._is_wanted_after_all(sender, frame)
            ):
                continue
            self.current = (sender, frame.channel)
            try:
                if self._passes_in_place(sender, frame):
                    continue
                command = self._at_hand(sender, frame, coming)
                if command is not None:
                    verdict = self.judged(sender, command)
                    if not changes_traffic(verdict, command) and all(
                        self._fits(sender, each) for each in command.frames[2:]
                    ):
                        self._let_go_on(sender, command)
                        continue
                if frame.offset > kept_from:
                    output.append(reader.between(kept_from, frame.offset))
                if command is None:
                    kept_from = frame.offset + frame.length()
                    self._cross(sender, frame)
                else:
                    kept_from = command.frames[-1].offset + command.frames[-1].length()
                    self._carry_out(sender, command, verdict)
            except ProtocolError:
                if frame.offset > kept_from:
                    output.append(reader.between(kept_from, frame.offset))
                raise
            finally:
                self.current = None
            if self.is_watching_more and handed_over is None:
                handed_over = {each.offset: each for each in coming}
                coming = self._looked_over(sender, handed_over, kept_from)
        if not self.is_over and kept_from < reader.offset:
            output.append(reader.between(kept_from, reader.offset))
        while self._unsure:
            strait, flow = self._unsure.pop()
            if flow.is_unsure and flow.catch_up(self.readers[sender].lanes.get(strait.number)):
                strait.complete(flow)
        self._end_if_nothing_waits()

    def take_output(self, to: Peer) -> bytes | memoryview:
        """All that is to be sent to a peer now."""
        parts = self.output[to]
        if not parts:
            return b""
        self.output[to] = []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def take_passed(self, sender: Peer) -> list[tuple[Note, list[Frame]]]:
        """What taps are to see of `sender`, and what they are to know of it."""
        frames, self.passed[sender] = self.passed[sender], []
        return frames

    def take_effects(self) -> Effects:
        effects, self.effects = self.effects, Effects()
        return effects

    @property
    def next_deadline(self) -> float:
        """When `tick` will next have something to do, in seconds."""
        return self.now if self.resuming else self._timers.next_deadline

    def tick(self, now: float) -> None:
        """Let go on what has waited long enough, or as much of it as goes on in one turn."""
        self.now = now
        self._left = TURN
        self._resume()
        while not self.is_over and self._left > 0 and (do := self._timers.take_due(now)) is not None:
            self._left -= 1
            do()
        self._end_if_nothing_waits()

    def _resume(self) -> None:
        """Let go on what waits for its turn, each after the other."""
        while self.resuming and self._left > 0 and not self.is_over:
            flow = next(iter(self.resuming))
            self.resuming.pop(flow).go_on(flow)

    def may_go_on(self) -> bool:
        """May one more of what has waited go on in this turn?"""
        self._left -= 1
        return self._left >= 0

    def is_full(self, sender: Peer) -> bool:
        """Does so much wait of what a peer has said that nothing more is to be read of it for now?"""
        octets = self.loads[sender].octets
        return octets > MAX_HELD or (octets > 0 and self.share.is_over)

    def release(self, number: int, verdict: Verdict | None, now: float) -> None:
        """Let a command go on that is held, with another verdict if one is given. `KeyError` when it is not held."""
        self.now = now
        self._left = TURN
        strait, flow = self.waiting[number]
        assert flow.waiting is not None
        if verdict is not None:
            flow.waiting.verdict = verdict
        strait.resume(flow)
        self._end_if_nothing_waits()

    def release_all(self, now: float) -> None:
        """Let everything go on that waits now; what is held, as if nobody had said a word.

        That is begun here; as long as the crossing `is_releasing`, `go_on_releasing` does what is left of it.
        """
        self._to_release += self.waiting.values()
        self._to_release += [(strait, flow) for flow, strait in self.resuming.items()]
        self.go_on_releasing(now)

    @property
    def is_releasing(self) -> bool:
        return bool(self._to_release) and not self.is_over

    def go_on_releasing(self, now: float) -> None:
        """One turn of what `release_all` has begun."""
        self.now = now
        self._left = TURN
        while self._to_release and self._left > 0 and not self.is_over:
            strait, flow = self._to_release[0]
            if flow.is_waiting:
                self._left -= 1
                strait.time_out(flow)
            elif flow in self.resuming:
                del self.resuming[flow]
                strait.go_on(flow)
            else:
                self._to_release.popleft()
        self._end_if_nothing_waits()

    @property
    def is_over(self) -> bool:
        """Does the connection have to end? Then nothing more goes on."""
        return self.refusal is not None or self.fault is not None

    @contextmanager
    def blaming(self, sender: Peer) -> Iterator[None]:
        """What is wrong with what waited is its sender's fault, whoever caused it to go on."""
        try:
            yield
        except ProtocolError as error:
            if self.fault is None:
                self.fault = Fault(sender, error)

    def end(self) -> None:
        """The session is over."""
        self.share.clear()
        self.count_unseen()
        self.judge.session_over()

    # --- one frame

    def _passes_in_place(self, sender: Peer, frame: Frame) -> bool:
        """Does the frame simply pass, as it lies among the octets? Then all has been done about it."""
        if self.is_tapped or self._shows_all or self.gate is not None:
            return False
        strait = self.straits.get(frame.channel)
        flow = None
        if strait is not None:
            flow = strait.flows[sender]
            if not strait.lets_pass(flow):
                return False
        if frame.kind != METHOD:
            if frame.kind == HEARTBEAT:
                return self.stage(sender, frame) is Stage.NOTHING
            if not self._fits(sender, frame):
                return False
            return self._arrive(sender, frame) if flow is None else self._goes_on_in_place(flow, frame)
        carries_content = BY_INDEX[frame.index].carries_content
        if flow is not None and carries_content and (flow.is_mid or not frame.is_in_order):
            return False
        if frame.index == ConnectionClose.index and self.holds_up(sender):
            return False
        if self.counts_unacked and frame.index in DELIVERIES:
            return False
        if frame.index in INTRODUCTIONS or self.stage(sender, frame) is not Stage.NOTHING:
            return False
        if self._counts(sender, frame):
            if not self._arrive(sender, frame):
                return False
            self.show(sender, frame)
        if flow is not None and carries_content:
            flow.pass_by(frame)
        if frame.index == BasicPublish.index:
            self._let_pass_unseen(sender, frame)
        return True

    def _at_hand(self, sender: Peer, frame: Frame, coming: deque[Frame]) -> Command | None:
        """The command that begins with a frame, if as much of it as must be judged lies here in one piece.

        It is taken from what is `coming`.
        """
        if frame.kind != METHOD or not BY_INDEX[frame.index].carries_content or not frame.is_in_order:
            return None
        if self.is_tapped or self._shows_all or self.gate is not None or STATEFUL[sender][frame.index]:
            return None
        if self.counts_unacked and frame.index in DELIVERIES:
            return None
        strait = self.straits.get(frame.channel)
        if strait is not None and not strait.is_idle(strait.flows[sender]):
            return None
        stage = self.stage(sender, frame)
        frames = [frame]
        if stage > Stage.METHOD:
            left = -1
            end = frame.offset + frame.length()
            for each in coming:
                if each.offset != end or each.channel != frame.channel or each.kind == METHOD:
                    return None
                frames.append(each)
                end += each.length()
                left = each.body_size if each.kind == HEADER else left - each.size
                if left == 0 or stage is Stage.HEADER:
                    break
            if left < 0 or (left > 0 and stage is Stage.BODY):
                return None
            for _ in frames[1:]:
                coming.popleft()
        return Command.received(frames) if stage is not Stage.NOTHING else None

    def _let_go_on(self, sender: Peer, command: Command) -> None:
        """Leave a command where it lies, and what is still to come of it."""
        frame = command.frames[0]
        strait = self.straits.get(frame.channel)
        if strait is not None:
            flow = strait.flows[sender]
            flow.pass_by(frame)
            if flow.skip(command.frames[1:]):
                flow.end()
        if frame.index == BasicPublish.index:
            self._let_pass_unseen(sender, frame)

    def _carry_out(self, sender: Peer, command: Command, verdict: Verdict) -> None:
        """Do what a verdict says on a command that was at hand."""
        frame = command.frames[0]
        strait = self.straits.get(frame.channel) or self._strait(frame.channel)
        strait.carry_out(strait.flows[sender], command, verdict)
        if frame.index == BasicPublish.index and not strait.is_watched:
            self._let_pass_unseen(sender, frame)

    def _goes_on_in_place(self, flow: Flow, frame: Frame) -> bool:
        """Does a header or body simply pass, since what it belongs to has gone on?"""
        if not flow.is_mid or flow.is_unsure or not frame.is_in_order:
            return False
        if flow.advance(frame):
            flow.end()
        return True

    def _fits(self, sender: Peer, frame: Frame) -> bool:
        """Would who is to hear it take a frame of that size? Else it is to be split."""
        frame_max = self.connections[sender.other].frame_max
        return not frame_max or frame.length() <= frame_max + OVERHEAD

    def _let_pass_unseen(self, sender: Peer, frame: Frame) -> None:
        """Need no more be handed publishes that are like this one, if all of them pass, or become alike."""
        unseen = self.readers[sender].unseen
        if unseen is None:
            return
        payload = frame.payload
        passes = unseen.get(payload)
        if passes is not None and not any(each.is_over for each in passes.allowances):
            return  # there is not enough left of what it takes
        passing = self.judge.passing(sender, frame, self.facts(frame.channel), self.now)
        if passing is None:
            return
        if len(self._passing) >= MAX_UNSEEN:
            self.forget_unseen()
        instead = None if passing.method is None else passing.method.encode()
        passes = Passes(payload, instead, passing.allowances)
        unseen.add(passes)
        self._passing.append((passing, passes))

    def _settle_up(self, reader: FrameReader) -> None:
        """Have those know by whom allowances are filled what has just been spent of them."""
        spending, reader.spending = reader.spending, []
        for allowance in spending:
            allowance.settle(self.now)

    def count_unseen(self) -> None:
        """Let the rules have counted what has passed unseen so far."""
        for passing, passes in self._passing:
            if passes.count:
                passing.count(passes.count)
                passes.count = 0

    def forget_unseen(self) -> None:
        """Have everything judged again, since the judge may now see it otherwise."""
        self.count_unseen()
        self._passing.clear()
        for reader in self.readers.values():
            if reader.unseen:
                reader.unseen.clear()

    def _looked_over(self, sender: Peer, handed_over: Mapping[int, Frame], offset: int) -> deque[Frame]:
        """All frames that are still to come of a chunk, from `offset` on, also those that were not handed over.

        To be asked once a chunk: whichever channels are watched since, what is said on them is there.
        """
        reader = self.readers[sender]
        octets = bytes(reader.taken[offset - reader.taken_from :])
        frames = every_frame(octets, offset, reader.lanes)
        return deque([handed_over.get(frame.offset, frame) for frame in frames])

    def note_newly_watched(self, number: int) -> None:
        """From the frame under way on, all frames of its channel are wanted."""
        self.is_watching_more = True
        self.newly_watched.add(number)

    def _is_wanted_after_all(self, sender: Peer, frame: Frame) -> bool:
        """Is a frame that was not handed over on a channel that is watched since?"""
        if frame.channel not in self.newly_watched:
            return False
        unseen = self.readers[sender].unseen
        passes = unseen.get(frame.payload) if frame.kind == METHOD and unseen else None
        if passes is not None:
            passes.take_back()
        return True

    def _counts(self, sender: Peer, frame: Frame) -> bool:
        """Do the legs have to see the frame?"""
        if self.is_deaf and frame.channel:
            return False
        return self._shows_all or not frame.is_in_order or (frame.kind == METHOD and STATEFUL[sender][frame.index] != 0)

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
        """Know more of the client by what it says of itself."""
        known = updated_client(self.client, method)
        if known is not self.client:
            self.client = known
            self.judge.know(known)
            self.ask_for_frames()

    def show(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it goes out on; False when it need not go, since that is closing."""
        is_live = True
        if self._counts(sender, frame):
            # Unless all is shown, a leg does not see contents that go out on it, and must not mind their order.
            seen = Frame(frame.raw) if self._shows_all else frame
            try:
                is_live = self.connections[sender.other].receive(sender, seen)
            except ProtocolError as error:
                if error.scope is Scope.CONNECTION:
                    raise
        if frame.kind == METHOD and is_live:
            if STATEFUL[sender][frame.index]:
                self._met(sender, frame.method)
            if frame.index == ChannelCloseOk.index:
                self.forget_if_closed(frame.channel)
            elif frame.index == ChannelOpen.index and frame.channel in self.straits:
                self.straits[frame.channel].watch_new_lanes()
        return is_live

    def _cross(self, sender: Peer, frame: Frame) -> None:
        number = frame.channel
        strait = self.straits.get(number)
        is_reopening = strait is not None and sender is CLIENT and strait.is_reopening()
        is_live = self._arrive(sender, frame)
        if self.gate is not None and not self.gate(sender, frame):
            return
        if strait is None:
            strait = self._strait(number)
            if is_live and frame.kind in (HEADER, BODY):
                strait.flows[sender].join_midway(frame)
                self._unsure.append((strait, strait.flows[sender]))
        if is_reopening:
            check(frame)
            strait.reopening.append(frame)
            self.loads[CLIENT].add(cost([frame]))
            strait.watch_lanes()
            return
        if strait.closing is not None:
            strait.take_while_closing(sender, frame, is_live)
        elif is_live:
            if sender is SERVER and frame.kind == METHOD and frame.index == ChannelClose.index:
                strait.drop(strait.flows[CLIENT])  # the broker would not take it any more
                if strait.is_unheard(CLIENT):
                    strait.close_for_both()
                    return
            strait.admit(strait.flows[sender], frame)
            if frame.index == BasicPublish.index and not strait.is_watched:
                self._let_pass_unseen(sender, frame)

    def _strait(self, number: int) -> Strait:
        """A new strait, for a channel that has passed without one so far."""
        strait = self.straits[number] = Strait(number, self)
        for peer, flow in strait.flows.items():
            if self.current != (peer, number):
                flow.join(self.readers[peer].lanes.get(number))
        return strait

    def has_channel(self, peer: Peer, number: int) -> bool:
        return number in self.connections[peer].channels

    def holds_up(self, sender: Peer) -> bool:
        """Does anything of the sender's wait, on any channel?"""
        if any(flow.sender is sender for _, flow in self.waiting.values()):
            return True
        if any(flow.sender is sender for flow in self.resuming):
            return True
        return sender is CLIENT and any(strait.reopening for strait in self.straits.values())

    def _end_if_nothing_waits(self) -> None:
        """Let a connection.close go on that has waited for all that was said before it."""
        last = self.straits.get(0)
        if last is not None:
            for flow in last.flows.values():
                last.go_on(flow)

    # --- verdicts

    def stage(self, sender: Peer, frame: Frame) -> Stage:
        """What the judge says of a frame; it is asked but once, since it counts."""
        if self._staged[0] is not frame:
            self._staged = (frame, self.judge.stage(sender, frame, self.facts(frame.channel)))
        return self._staged[1]

    def judged(self, sender: Peer, command: Command) -> Verdict:
        """What the judge says of a command, of which as much has come as must have."""
        return self.judge.judge(
            CommandContext(
                sender=sender,
                command=command,
                client=self.client,
                channel=self.facts(command.channel),
                now=self.now,
                time=self.time(),
                random=self.random,
                body_limit=self._body_limit,
            )
        )

    def facts(self, number: int) -> ChannelInfo:
        channel = self.connections[CLIENT].channels.get(number)
        if channel is None:
            return ChannelInfo(number=number)
        strait = self.straits.get(number)
        unacked = 0 if strait is None or strait.deliveries is None else strait.deliveries.open
        key = number, channel.mode, len(channel.consumers), unacked
        if self._last_facts[0] != key:
            facts = ChannelInfo(
                number=number,
                is_confirming=channel.mode is ChannelMode.CONFIRM,
                is_transactional=channel.mode is ChannelMode.TX,
                consumers=len(channel.consumers),
                unacked=unacked,
            )
            self._last_facts = key, facts
        return self._last_facts[1]

    def at(self, when: float, sender: Peer, do: Callable[[], None]) -> Timer:
        """Have something done at `when`, in seconds, because of what `sender` said."""

        def blaming() -> None:
            with self.blaming(sender):
                do()

        return within_bounds(self._timers.at, when, blaming)

    # --- commands of our own

    def insert(self, insertion: Insertion, tag: int | None = None) -> None:
        """Send a command of our own, or one that others have overtaken, to which the broker gave `tag`."""
        if insertion.after > 0:
            self._insert_later(insertion)
            return
        command, to = insertion.command, insertion.to
        number = command.channel
        if number == 0 and self.connections[to].state is not ConnectionState.OPEN:
            return
        if number and not (self.has_channel(to, number) and self.connections[to].channels[number].takes_frames):
            return  # the channel that it is for is no more
        strait = self.straits.get(number) or self._strait(number)
        if strait.closing is not None:
            return
        flow = strait.flows[to.other]
        if strait.is_mid(flow):
            strait.watch()
            flow.put_off(command, tag)
        else:
            strait.send_own(to, command, tag)

    def _insert_later(self, insertion: Insertion) -> None:
        """Send a command of our own in some time, unless its channel is another by then."""
        number = insertion.command.channel
        strait = self.straits.get(number) or self._strait(number)
        load, octets = self.loads[insertion.to.other], cost_of_own(insertion.command)

        def insert() -> None:
            load.remove(octets)
            if self.straits.get(number) is strait:
                self.insert(msgspec.structs.replace(insertion, after=0.0))

        self.at(self.now + insertion.after, insertion.to.other, insert)
        load.add(octets)

    # --- what goes out

    def put(self, sender: Peer, frame: Frame, is_shown: bool = True) -> None:
        """Send a frame to the peer that `sender` talks to, unless what it belongs to is closing there, or is closed."""
        to = sender.other
        connection = self.connections[to]
        if connection.state in CONNECTION_CLOSING and (frame.channel or connection.state is ConnectionState.CLOSED):
            return
        if not self.show(sender, frame):
            return
        frame_max = connection.frame_max
        if frame.kind == BODY and frame_max and len(frame.raw) > frame_max + OVERHEAD:
            payload, step = frame.payload, frame_max - OVERHEAD
            for start in range(0, len(payload), step):
                self.output[to].append(encode_frame(BODY, frame.channel, payload[start : start + step]))
        else:
            self.output[to].append(frame.raw)
        if is_shown and self.is_tapped:
            self.see(sender, frame)

    def put_more(self, flow: Flow, frame: Frame) -> None:
        """Send on a header or body of a content whose method has gone on."""
        self.note = flow.note
        self.put(flow.sender, frame)
        self.note = NOTHING

    # --- what taps see

    def see(self, sender: Peer, frame: Frame) -> None:
        """Let taps see a frame of `sender`, as one of the command that is under way."""
        passed = self.passed[sender]
        if passed and passed[-1][0] is self.note:
            passed[-1][1].append(frame)
        else:
            passed.append((self.note, [frame]))

    def show_instead(self, sender: Peer, shown: Command) -> None:
        """Let taps see a command as redactions leave it. One that cannot be encoded is not shown, and no more."""
        if self.is_tapped:
            with suppress(Exception):
                for frame in every_frame(shown.encode(0), 0):
                    self.see(sender, frame)

    @contextmanager
    def noting(self, flow: Flow, command: Command, verdict: Verdict) -> Iterator[None]:
        """Let taps know what becomes of a command, as it does; and see what was said, where something else goes on."""
        if not verdict.marks and not verdict.tags:
            yield
            return
        sender = flow.sender
        is_shadow = all(mark.endswith("(shadow)") for mark in verdict.marks)
        what = Outcome.SHADOW if verdict.marks and is_shadow else outcome(verdict, command)
        flow.note = self.note = Note(verdict.marks, verdict.tags, what)
        try:
            if verdict.command is not command or verdict.damage:
                self.note = flow.note._replace(leg=LEGS[sender])
                covered = self.judge.covered(sender, command, self._body_limit)
                if covered is command:
                    for frame in command.frames:
                        self.see(sender, frame)
                elif covered is not None:
                    self.show_instead(sender, covered)
                self.note = flow.note._replace(leg=LEGS[sender.other])
            yield
        finally:
            self.note = NOTHING

    @contextmanager
    def noting_own(self, to: Peer) -> Iterator[None]:
        """Let taps know that what is sent to a peer now is ours, and so seen on its leg only."""
        before, self.note = self.note, self.note._replace(leg=LEGS[to])
        try:
            yield
        finally:
            self.note = before

    # --- a channel, or the connection, that we close

    def say(self, to: Peer, number: int, method: Method) -> None:
        frame = method_frame(number, method)
        self.connections[to].receive(to.other, frame)
        self.output[to].append(frame.raw)
        if self.is_tapped:
            with self.noting_own(to):
                self.see(to.other, frame)

    def forget_if_closed(self, number: int) -> None:
        """Let a channel's number be used again once neither leg has the channel."""
        if self.has_channel(CLIENT, number) and not (number in self.straits and self.straits[number].reopening):
            return
        strait = self.straits.get(number)
        if self.has_channel(SERVER, number):
            return
        if strait is not None:
            for flow in strait.flows.values():
                strait.drop(flow)
            del self.straits[number]
        self.judge.channel_closed(number)
        if strait is not None and strait.reopening:
            new = self.straits[number] = Strait(number, self)
            new.is_watched = True
            flow = new.flows[CLIENT]
            flow.queue.extend([(frame, None) for frame in strait.reopening])  # its load is counted already
            new.go_on(flow)
            new.watch_lanes()

    def refuse(self, close: Close, class_and_method: tuple[int, int]) -> None:
        """Let the connection end."""
        self.refusal = Refusal(close)
        self.refusal.class_id, self.refusal.method_id = class_and_method
