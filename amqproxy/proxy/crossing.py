"""Where commands cross from one leg to the other, and verdicts are carried out.

A `Crossing` is what a session has between its legs when there are rules. It takes the frames that were handed over,
has them judged, and gives what is to be sent to each peer. It keeps both legs' `Connection`s true: each is shown what
really passes on it, so that neither peer ever gets what it may not. It does no input or output, and is told the time.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from amqproxy.amqp091.channel import Mode
from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import (
    BY_CODE,
    ContentTooLarge,
    PreconditionFailed,
    ProtocolError,
    ResourceError,
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
    Passes,
    encode_frame,
    encode_method,
    every_frame,
)
from amqproxy.amqp091.grammar import ANSWERS, CLIENT, REPLIES, SERVER, Peer
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BY_NAME,
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    Method,
    TxCommitOk,
    TxRollbackOk,
)
from amqproxy.proxy.flow import Flow, Postponed, Rest, Waiting
from amqproxy.proxy.renumbering import ConfirmNumbers, DeliveryNumbers, Settled, UnknownTag
from amqproxy.proxy.strait import Strait
from amqproxy.rules.introduction import introduced
from amqproxy.rules.seen import ChannelFacts, Client, Seen
from amqproxy.rules.verdict import Answer, Close, Impairment, Insertion, Mirrored, Stage, Verdict

MAX_HELD = 16 * 1024 * 1024
"""Octets that may wait in one session behind what is held; above, nothing more is read from their sender."""

MAX_POSTPONED = 1.0
"""Seconds after which a command that others were to overtake goes on, though they did not come."""

MAX_UNSEEN = 1024
"""Methods of one direction that are known to pass; beyond, all are forgotten and judged again."""

INTRODUCTIONS = (ConnectionStartOk.index, ConnectionOpen.index)
"""What makes a client known: it must be, before such a method itself is judged."""

CLOSED_FOR_THE_CLIENT = "closed by a rule of the proxy"
"""What the broker is told when we close a channel that it knows."""


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


Result = TypeVar("Result")


class Passing(Protocol):
    """What all methods come to that are, to the octet, like one that passed."""

    def count(self, times: int = 1) -> None:
        """So many more have passed."""


class Judge(Protocol):
    """What the crossing needs of the rules of its session; see `rules.judge`."""

    def stage(self, sender: Peer, frame: Frame, channel: ChannelFacts) -> Stage:
        """How much of the command that this method begins must come before it can be judged."""

    def passing(self, sender: Peer, frame: Frame, channel: ChannelFacts) -> Passing | None:
        """What is told how many methods equal to this one have passed without being judged; None where none may."""

    def judge(self, seen: Seen) -> Verdict:
        """What becomes of a command."""

    def wants(self, sender: Peer) -> bytes:
        """A 1 at the index of each method of `sender` that is to be staged."""

    def wants_all(self, sender: Peer) -> bool:
        """Are heartbeats to be staged too?"""

    def know(self, client: Client) -> None:
        """More is known of the client now."""

    def start(
        self, *, now: float, time: float, random: Callable[[], float], is_open: bool = False
    ) -> tuple[Impairment, ...]:
        """What is done to the octets of the session from here on."""

    def channel_closed(self, number: int) -> None:
        """A channel is no more."""

    def session_over(self) -> None:
        """Nothing more will come."""

    def moved(self, ruleset: Any) -> Judge:
        """The judge of the session by other rules, in whose stead this one is no longer asked."""


class Effects(msgspec.Struct):
    """What a crossing wants done that is not said to the two peers: for the session to take and carry out."""

    impairments: list[Impairment] = []
    mirrored: list[Mirrored] = []
    logged: list[tuple[str, str]] = []


class Refusal(ProtocolError):
    """A rule wants the connection closed, with any code and text there may be."""

    name = "REFUSED"

    def __init__(self, close: Close) -> None:
        super().__init__(close.text, scope=Scope.CONNECTION)
        self.code = close.code  # type: ignore[misc]

    @property
    def reply_text(self) -> str:
        return self.text


class Crossing:
    """The water between a session's two legs.

    `connections` are the legs', by the peer at their other end. `output` holds the octets that are to be sent to each
    peer, `passed` the frames of each sender as taps are to see them, if `is_tapped`. `refusal` is set when the
    connection has to end: what the client is told. `waiting` are the commands that wait, by a number of each. `met` is
    called with each method that has passed and counts for the session itself. Once it `is_deaf`, as a drain wants it,
    channels are no longer shown to the legs; what its `gate` does not let by goes no further.
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
    ) -> None:
        self.connections = connections
        self.client = client
        self.output: dict[Peer, list[bytes | memoryview]] = {CLIENT: [], SERVER: []}
        self.passed: dict[Peer, list[Frame]] = {CLIENT: [], SERVER: []}
        self.effects = Effects()
        self.refusal: Refusal | None = None
        self.waiting: dict[int, tuple[Strait, Flow]] = {}
        self.is_deaf = False
        self.gate: Callable[[Peer, Frame], bool] | None = None
        self.judge = judge
        self._random = random
        self._time = time
        self._met = met
        self._is_tapped = is_tapped
        self._shows_all = shows_all
        self._straits: dict[int, Strait] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)
        self._now = 0.0
        self._staged: tuple[Frame | None, Stage] = (None, Stage.NOTHING)
        self._passing: list[tuple[Passing, Passes]] = []
        self._current: tuple[Peer, int] | None = None
        self._is_watching_more = False
        self._readers = {peer: connections[peer].readers[peer] for peer in Peer}
        self.ask_for_frames()

    # --- in and out

    def ask_for_frames(self) -> None:
        """Have what is needed handed over, and no more: to be called when the judge, or what it knows, is another."""
        self.forget_unseen()
        for peer, reader in self._readers.items():
            if self._is_tapped or self._shows_all or self.gate is not None:
                reader.unseen = None
                reader.want(EVERY_METHOD, content=True)
            else:
                if reader.unseen is None:
                    reader.unseen = {}
                wanted = zip(STATEFUL[peer], self.judge.wants(peer), strict=True)
                reader.want(bytes([a | b for a, b in wanted]), content=self.judge.wants_all(peer))

    def take(self, sender: Peer, octets: bytes | memoryview, offset: int, frames: list[Frame], now: float) -> None:
        """Take whole frames of `sender`'s: all their `octets`, which lie at `offset`, and those that were handed over.

        `ProtocolError` at the first that may not come; those before it have crossed then.
        """
        self._now = now
        output = self.output[sender.other]
        kept_from = offset
        coming = deque(frames)
        while coming and self.refusal is None:
            frame = coming.popleft()
            self._current = (sender, frame.channel)
            try:
                if self._passes_in_place(sender, frame):
                    continue
                if frame.offset > kept_from:
                    output.append(octets[kept_from - offset : frame.offset - offset])
                kept_from = frame.offset + len(frame.raw)
                self._cross(sender, frame)
            except ProtocolError:
                if frame.offset > kept_from:
                    output.append(octets[kept_from - offset : frame.offset - offset])
                raise
            finally:
                self._current = None
            if self._is_watching_more:
                coming = self._looked_over(coming, octets[kept_from - offset :], kept_from)
        if self.refusal is None and kept_from < offset + len(octets):
            output.append(octets[kept_from - offset :] if kept_from > offset else octets)

    def take_output(self, to: Peer) -> bytes | memoryview:
        """All that is to be sent to a peer now."""
        parts = self.output[to]
        if not parts:
            return b""
        self.output[to] = []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def take_passed(self, sender: Peer) -> list[Frame]:
        """What taps are to see of `sender`."""
        frames, self.passed[sender] = self.passed[sender], []
        return frames

    def take_effects(self) -> Effects:
        effects, self.effects = self.effects, Effects()
        return effects

    @property
    def next_deadline(self) -> float:
        """When `tick` will next have something to do, in seconds."""
        return self._timers[0][0] if self._timers else float("inf")

    def tick(self, now: float) -> None:
        """Let go on what has waited long enough."""
        self._now = now
        while self._timers and self._timers[0][0] <= now and self.refusal is None:
            heapq.heappop(self._timers)[2]()

    @property
    def is_full(self) -> bool:
        """Does so much wait that nothing more is to be read for now?"""
        return bool(self.waiting or self._straits) and sum(each.octets for each in self._straits.values()) > MAX_HELD

    def release(self, number: int, verdict: Verdict | None, now: float) -> None:
        """Let a command go on that is held, with another verdict if one is given. `KeyError` when it is not held."""
        self._now = now
        strait, flow = self.waiting[number]
        assert flow.waiting is not None
        if verdict is not None:
            flow.waiting.verdict = verdict
        self._resume(strait, flow)

    def release_all(self, now: float) -> None:
        """Let everything go on that waits."""
        self._now = now
        for strait, flow in list(self.waiting.values()):
            while flow.is_waiting and self.refusal is None:
                self._resume(strait, flow)

    def end(self) -> None:
        """The session is over."""
        self.count_unseen()
        self.judge.session_over()

    # --- one frame

    def _passes_in_place(self, sender: Peer, frame: Frame) -> bool:
        """Does the frame simply pass, as it lies among the octets? Then all has been done about it."""
        strait = self._straits.get(frame.channel)
        if strait is not None:
            flow = strait.flows[sender]
            if strait.is_watched or strait.closing or flow.gathered or flow.rest is not Rest.PASSES or flow.is_held_up:
                return False
            if strait.reopening or frame.kind != METHOD or BY_INDEX[frame.index].carries_content:
                return False
        if self._is_tapped or self._shows_all or self.gate is not None:
            return False
        if frame.kind != METHOD:
            if frame.kind == HEARTBEAT:
                return self._stage(sender, frame) is Stage.NOTHING
            return strait is None and self._arrive(sender, frame)
        if frame.index == ConnectionClose.index and self._holds_up(sender):
            return False
        if frame.index in (ConfirmSelect.index, *INTRODUCTIONS) or self._stage(sender, frame) is not Stage.NOTHING:
            return False
        if self._counts(sender, frame):
            if not self._arrive(sender, frame):
                return False
            self._show(sender, frame)
        if frame.index == BasicPublish.index:
            self._let_pass_unseen(sender, frame)
        return True

    def _let_pass_unseen(self, sender: Peer, frame: Frame) -> None:
        """Need no more be handed publishes that are like this one, if all of them pass."""
        passing = self.judge.passing(sender, frame, self._facts(frame.channel))
        unseen = self._readers[sender].unseen
        if passing is None or unseen is None:
            return
        if len(unseen) >= MAX_UNSEEN:
            self.forget_unseen()
        passes = unseen[frame.payload] = Passes()
        self._passing.append((passing, passes))

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
        for reader in self._readers.values():
            if reader.unseen:
                reader.unseen.clear()

    def _looked_over(self, coming: deque[Frame], octets: bytes | memoryview, offset: int) -> deque[Frame]:
        """What is still to come of a chunk, with all that is said on channels which are watched since."""
        self._is_watching_more = False
        handed_over = {frame.offset: frame for frame in coming}
        watched = {strait.number for strait in self._straits.values() if strait.is_watched}
        every = every_frame(bytes(octets), offset)
        return deque(
            handed_over.get(frame.offset, frame)
            for frame in every
            if frame.channel in watched or frame.offset in handed_over
        )

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
        known = introduced(self.client, method)
        if known is not self.client:
            self.client = known
            self.judge.know(known)
            self.ask_for_frames()

    def _show(self, sender: Peer, frame: Frame) -> bool:
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
                self._forget_if_closed(frame.channel)
        return is_live

    def _cross(self, sender: Peer, frame: Frame) -> None:
        number = frame.channel
        strait = self._straits.get(number)
        is_reopening = strait is not None and sender is CLIENT and self._is_reopening(strait)
        is_live = self._arrive(sender, frame)
        if self.gate is not None and not self.gate(sender, frame):
            return
        if strait is None:
            strait = self._strait(number)
        if is_reopening:
            strait.reopening.append(frame)
            self._watch_lanes(strait)
            return
        if strait.closing is not None:
            self._cross_closing(strait, sender, frame, is_live)
        elif is_live:
            if sender is SERVER and frame.kind == METHOD and frame.index == ChannelClose.index:
                self._drop(strait.flows[CLIENT])  # the broker would not take it any more
            self._admit(strait, strait.flows[sender], frame)

    def _is_reopening(self, strait: Strait) -> bool:
        """Is what the client says said on the number's next channel, which has to wait for the broker's close-ok?"""
        return bool(strait.reopening) or (strait.is_closed and not self._has_channel(CLIENT, strait.number))

    def _strait(self, number: int) -> Strait:
        """A new strait, for a channel that has passed without one so far."""
        strait = self._straits[number] = Strait(number)
        for peer, flow in strait.flows.items():
            if self._current != (peer, number):
                flow.join(self._readers[peer].lanes.get(number))
        return strait

    def _has_channel(self, peer: Peer, number: int) -> bool:
        return number in self.connections[peer].channels

    def _admit(self, strait: Strait, flow: Flow, frame: Frame) -> None:
        if flow.is_held_up:
            flow.enqueue(frame)
        elif frame.index == ConnectionClose.index and self._holds_up(flow.sender):
            flow.enqueue(frame)  # what was said before must be heard before
        else:
            self._process(strait, flow, frame)

    def _holds_up(self, sender: Peer) -> bool:
        """Does anything of the sender's wait, on any channel?"""
        return any(flow.sender is sender for _, flow in self.waiting.values())

    def _process(self, strait: Strait, flow: Flow, frame: Frame) -> None:
        """Do with the next frame of a flow what is to be done with it."""
        if frame.kind in (METHOD, HEARTBEAT):
            self._begin(strait, flow, frame)
        elif flow.gathered:
            self._gather(strait, flow, frame)
        else:
            is_complete = flow.advance(frame)
            if flow.rest is Rest.PASSES:
                self._put(flow.sender, frame)
            if is_complete:
                self._complete(strait, flow)

    def _begin(self, strait: Strait, flow: Flow, frame: Frame) -> None:
        carries_content = frame.kind == METHOD and BY_INDEX[frame.index].carries_content
        if carries_content:
            flow.ordinal = frame.ordinal or flow.ordinal + 1
        self._insert_waiting(strait, flow)
        stage = self._stage(flow.sender, frame)
        if stage is Stage.NOTHING:
            self._emit(strait, flow.sender, [frame])
            if carries_content and not strait.closing:
                flow.begin(Rest.PASSES)
        elif stage is Stage.METHOD or not carries_content:
            self._decide(strait, flow, [frame])
        else:
            flow.gathered = [frame]
            flow.stage = stage

    def _gather(self, strait: Strait, flow: Flow, frame: Frame) -> None:
        flow.gathered.append(frame)
        command = Command.received(flow.gathered)
        if frame.kind == HEADER and frame.body_size > MAX_BODY and flow.stage is Stage.BODY:
            flow.gathered = []
            text = f"message size {frame.body_size} is larger than the {MAX_BODY} that rules can look at"
            self._close(strait, command, Close(Scope.CHANNEL, ContentTooLarge.code, f"{ContentTooLarge.name} - {text}"))
            self._begin_rest(strait, flow, command.frames, Rest.IS_SWALLOWED)
        elif command.is_complete or (frame.kind == HEADER and flow.stage is Stage.HEADER):
            flow.gathered = []
            decided, flow.decided = flow.decided, None
            if decided is not None:
                self._settle(strait, flow, command, decided)
            else:
                self._decide(strait, flow, command.frames)

    # --- verdicts

    def _decide(self, strait: Strait, flow: Flow, frames: list[Frame]) -> None:
        command = Command.received(frames)
        seen = Seen(
            sender=flow.sender,
            command=command,
            client=self.client,
            channel=self._facts(strait.number),
            now=self._now,
            time=self._time(),
            random=self._random,
        )
        verdict = self.judge.judge(seen)
        self.effects.impairments += verdict.impairments
        self.effects.mirrored += verdict.mirrored
        self.effects.logged += verdict.logged
        self._anticipate(strait, command, verdict)
        for insertion in verdict.insertions:
            if insertion.is_ahead or insertion.after > 0:
                self._insert(insertion)
        if verdict.delay > 0 or verdict.hold is not None:
            self._wait(strait, flow, command, verdict)
        else:
            self._settle(strait, flow, command, verdict)

    def _stage(self, sender: Peer, frame: Frame) -> Stage:
        """What the judge says of a frame; it is asked but once, since it counts."""
        if self._staged[0] is not frame:
            self._staged = (frame, self.judge.stage(sender, frame, self._facts(frame.channel)))
        return self._staged[1]

    def _facts(self, number: int) -> ChannelFacts:
        channel = self.connections[CLIENT].channels.get(number)
        if channel is None:
            return ChannelFacts(number=number)
        strait = self._straits.get(number)
        return ChannelFacts(
            number=number,
            is_confirming=strait is not None and strait.confirms_from is not None,
            is_transactional=channel.mode is Mode.TX,
            consumers=len(channel.consumers),
            unacked=len(channel.unacked),
        )

    def _wait(self, strait: Strait, flow: Flow, command: Command, verdict: Verdict) -> None:
        seconds = verdict.hold.timeout if verdict.hold is not None else verdict.delay
        number = next(self._numbers)
        flow.waiting = Waiting(command, verdict, self._now + seconds, number)
        self.waiting[number] = (strait, flow)
        self._watch(strait)

        def expire() -> None:
            waiting = flow.waiting
            if waiting is None or waiting.number != number:
                return
            if waiting.hold is not None and not waiting.hold.passes_at_timeout:
                text = f"{BY_CODE[403].name} - held by rule '{waiting.hold.name}', and nobody let it go"
                waiting.verdict = Verdict(command=None, close=Close(Scope.CHANNEL, 403, text))
            self._resume(strait, flow)

        self._at(flow.waiting.until, expire)

    def _resume(self, strait: Strait, flow: Flow) -> None:
        """Let what waits in a flow go on, and what came behind it."""
        waiting, flow.waiting = flow.waiting, None
        assert waiting is not None
        del self.waiting[waiting.number]
        self._settle(strait, flow, waiting.original, waiting.verdict)
        self._go_on(strait, flow)
        last = self._straits.get(0)
        if last is not None and not self._holds_up(flow.sender):
            self._go_on(last, last.flows[flow.sender])

    def _go_on(self, strait: Strait, flow: Flow) -> None:
        """Do with what waited behind something what is to be done with it, up to the next that waits."""
        while flow.queue and not flow.is_waiting and self.refusal is None:
            self._process(strait, flow, flow.dequeue())

    def _at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (when, next(self._numbers), do))

    def _settle(self, strait: Strait, flow: Flow, command: Command, verdict: Verdict) -> None:
        """Carry out a verdict whose time has come."""
        if verdict.close is not None:
            self._close(strait, command, verdict.close)
            self._begin_rest(strait, flow, command.frames, Rest.IS_SWALLOWED)
            return
        if (verdict.answer is Answer.RETURN or verdict.behind) and not command.is_complete:
            flow.gathered = command.frames
            flow.stage = Stage.BODY
            flow.decided = verdict
            return
        rest, overtakes = Rest.IS_SWALLOWED, False
        if verdict.command is None:
            if command.index >= 0:
                self._answer(strait, flow, command, verdict)
        elif verdict.behind and isinstance(command.method, BasicDeliver):
            self._postpone(strait, flow, verdict.command, command.method.delivery_tag, verdict.behind)
        else:
            rest, overtakes = self._pass_on(strait, flow, command, verdict.command, verdict), True
        self._begin_rest(strait, flow, command.frames, rest)
        if overtakes:
            self._overtake(flow, command)
        for insertion in verdict.insertions:
            if not insertion.is_ahead and insertion.after <= 0:
                self._insert(insertion)

    def _begin_rest(self, strait: Strait, flow: Flow, frames: list[Frame], rest: Rest) -> None:
        """Note what becomes of the frames that are still to come of a content that was judged."""
        if frames[0].kind != METHOD or not BY_INDEX[frames[0].index].carries_content:
            return
        flow.begin(rest)
        if flow.skip(frames[1:]):
            self._complete(strait, flow)

    def _complete(self, strait: Strait, flow: Flow) -> None:
        """A content has come to its end."""
        flow.end()
        self._insert_waiting(strait, flow)
        if strait.closing is not None:
            self._try_to_close(strait)

    def _pass_on(self, strait: Strait, flow: Flow, original: Command, command: Command, verdict: Verdict) -> Rest:
        """Send a command on, as it came or changed; what becomes of what is still to come of it."""
        sender = flow.sender
        if command is original:
            frames, rest = original.frames, Rest.PASSES
        elif command.frames:
            frames, rest = _altered(command), Rest.PASSES
        else:
            frame_max = self.connections[sender.other].frame_max
            frames, rest = every_frame(command.encode(frame_max), 0), Rest.IS_SWALLOWED
        if verdict.damage:
            self.output[sender.other].append(_damaged(frames[0].raw, verdict.damage))
            frames = frames[1:]
        shown = verdict.shown
        self._emit(strait, sender, frames, None if shown is None else every_frame(shown.encode(0), 0))
        return rest

    # --- messages that go no further

    def _answer(self, strait: Strait, flow: Flow, command: Command, verdict: Verdict) -> None:
        """Tell the sender of a command what became of it, where it has to hear something."""
        method = command.method
        if isinstance(method, BasicPublish):
            self._answer_publish(strait, flow, command, verdict)
        elif isinstance(method, (BasicDeliver, BasicGetOk)):
            self._answer_delivery(strait, method, verdict.answer)
        elif isinstance(method, (BasicAck, BasicNack)) and flow.sender is SERVER:
            if strait.confirms is None:
                strait.confirms = ConfirmNumbers(method.delivery_tag - 1)
                self._watch(strait)
            _within_bounds(strait.confirms.lose, method.delivery_tag, method.multiple)

    def _answer_publish(self, strait: Strait, flow: Flow, command: Command, verdict: Verdict) -> None:
        method, answer = command.method, verdict.answer
        is_confirming = strait.confirms_from is not None
        if answer is Answer.NACK and not is_confirming:
            text = f"{BY_CODE[403].name} - refused by a rule of the proxy"
            self._close(strait, command, Close(Scope.CHANNEL, 403, text))
            return
        if answer is Answer.RETURN:
            code, text = verdict.returned
            returned = BasicReturn(code, text, method.exchange, method.routing_key)
            self._insert(Insertion(CLIENT, Command(strait.number, returned, command.properties, command.body)))
        if not is_confirming:
            return
        assert strait.confirms_from is not None
        number = flow.ordinal - strait.confirms_from
        if strait.confirms is None:
            strait.confirms = ConfirmNumbers(number - 1)
            self._watch(strait)
        _within_bounds(strait.confirms.withhold, number, is_answered=answer is not Answer.NOTHING)
        if answer is Answer.NACK:
            self._confirm(strait, BasicNack(number))
        elif answer is not Answer.NOTHING:
            self._confirm(strait, BasicAck(number, False))

    def _confirm(self, strait: Strait, method: Method) -> None:
        """Confirm a publish ourselves, behind what is to be said to the client before."""
        self._insert(Insertion(CLIENT, Command(strait.number, method)))

    def _answer_delivery(self, strait: Strait, method: BasicDeliver | BasicGetOk, answer: Answer) -> None:
        is_acked = self._is_acked(strait, method)
        self._number_deliveries(strait, method.delivery_tag - 1)
        assert strait.deliveries is not None
        _within_bounds(strait.deliveries.receive, method.delivery_tag, is_acked=is_acked)
        if is_acked and answer is not Answer.NOTHING:
            strait.deliveries.settle_own(method.delivery_tag)
            settling: Method = BasicAck(method.delivery_tag, False)
            if answer is not Answer.ACK:
                settling = BasicReject(method.delivery_tag, answer is Answer.REQUEUE)
            self._insert(Insertion(SERVER, Command(strait.number, settling)))

    def _is_acked(self, strait: Strait, method: BasicDeliver | BasicGetOk) -> bool:
        """Does anybody have to acknowledge this delivery?"""
        channel = self.connections[SERVER].channels.get(strait.number)
        if channel is None:
            return False
        if isinstance(method, BasicDeliver):
            return not channel.consumers.get(method.consumer_tag, channel.consumers.get("", False))
        return not channel.got_without_ack

    def _number_deliveries(self, strait: Strait, start: int) -> None:
        if strait.deliveries is None:
            strait.deliveries = DeliveryNumbers(start)
            self._watch(strait)

    def _anticipate(self, strait: Strait, command: Command, verdict: Verdict) -> None:
        """Begin to number what will differ once the verdict is carried out."""
        method = command.method if command.index >= 0 else None
        inserted = [insertion.command.method for insertion in verdict.insertions]
        copies = any(isinstance(each, BasicDeliver) for each in inserted)
        if isinstance(method, (BasicDeliver, BasicGetOk)) and (verdict.behind or copies):
            self._number_deliveries(strait, method.delivery_tag - 1)
        publishes = any(isinstance(each, BasicPublish) for each in inserted)
        if publishes and strait.confirms is None and strait.confirms_from is not None:
            sent = strait.flows[CLIENT].ordinal - strait.confirms_from
            strait.confirms = ConfirmNumbers(sent - 1 if isinstance(method, BasicPublish) else sent)
            self._watch(strait)

    # --- what others overtake

    def _postpone(self, strait: Strait, flow: Flow, command: Command, tag: int, behind: int) -> None:
        assert strait.deliveries is not None
        is_acked = self._is_acked(strait, command.method)
        _within_bounds(strait.deliveries.receive, tag, is_acked=is_acked)
        postponed = Postponed(command, tag, behind)
        flow.postponed.append(postponed)

        def expire() -> None:
            if postponed in flow.postponed:
                flow.postponed.remove(postponed)
                self._insert(Insertion(CLIENT, command), tag)

        self._at(self._now + MAX_POSTPONED, expire)

    def _overtake(self, flow: Flow, command: Command) -> None:
        """Count a command for those that others are to overtake, and send those that were overtaken enough."""
        for each in flow.overtaken_by(command.index) if flow.postponed else ():
            self._insert(Insertion(CLIENT, each.command), each.tag)

    # --- commands of our own

    def _insert(self, insertion: Insertion, tag: int | None = None) -> None:
        """Send a command of our own, or one that others have overtaken, to which the broker gave `tag`."""
        if insertion.after > 0:
            soon = msgspec.structs.replace(insertion, after=0.0)
            self._at(self._now + insertion.after, lambda: self._insert(soon))
            return
        command, to = insertion.command, insertion.to
        number = command.channel
        if number and not (self._has_channel(to, number) and self.connections[to].channels[number].takes_frames):
            return  # the channel that it is for is no more
        strait = self._straits.get(number) or self._strait(number)
        if strait.closing is not None:
            return
        flow = strait.flows[to.other]
        if self._is_mid(strait, flow):
            self._watch(strait)
            flow.insertions.append((command, tag))
        else:
            self._send_own(strait, to, command, tag, is_ahead=insertion.is_ahead)

    def _is_mid(self, strait: Strait, flow: Flow) -> bool:
        """Has the flow's target had a part of a content, and not all of it?"""
        if strait.number == 0:
            return False
        lane = self._readers[flow.sender].lanes.get(strait.number)
        if strait.is_watched or lane is None or self._current == (flow.sender, strait.number):
            return flow.is_mid
        if lane.expects == METHOD:
            return False
        return flow.is_mid if lane.is_shown else True

    def _insert_waiting(self, strait: Strait, flow: Flow) -> None:
        while flow.insertions and not flow.is_mid:
            command, tag = flow.insertions.popleft()
            self._send_own(strait, flow.sender.other, command, tag)

    def _send_own(self, strait: Strait, to: Peer, command: Command, tag: int | None, *, is_ahead: bool = False) -> None:
        """Send a command that nobody sent us just now. Its number, if it has one, is the next."""
        method = command.method
        if isinstance(method, BasicPublish) and strait.confirms is not None and strait.confirms_from is not None:
            next_number = strait.flows[CLIENT].ordinal - strait.confirms_from + (0 if is_ahead else 1)
            _within_bounds(strait.confirms.insert, next_number)
        elif isinstance(method, BasicDeliver) and strait.deliveries is not None:
            new = _within_bounds(strait.deliveries.hand_out, tag)
            command = Command(
                command.channel,
                msgspec.structs.replace(method, delivery_tag=new),
                command.properties,
                command.body,
            )
        elif method.name in REPLIES and not getattr(method, "no_wait", False):
            outstanding = self.connections[to].channels[command.channel].awaited[to.other].get(method.name, ())
            owners = strait.own_requests.setdefault(method.name, deque([False] * len(outstanding)))
            owners.append(True)
            self._watch(strait)
        for frame in every_frame(command.encode(self.connections[to].frame_max), 0):
            self._put(to.other, frame)

    # --- what goes out

    def _emit(self, strait: Strait, sender: Peer, frames: list[Frame], shown: list[Frame] | None = None) -> None:
        """Send frames of a command on, the method's first, under the numbers that their receiver knows."""
        if not frames:
            return
        first = frames[0]
        if first.kind == METHOD and strait.number:
            translated = self._translated(strait, sender, first)
            if translated != [first]:
                for each in translated:
                    self._put(sender, each)
                frames = frames[1:]
        for frame in frames:
            self._put(sender, frame, shown is None)
        for frame in shown or ():
            self.passed[sender].append(frame)

    def _translated(self, strait: Strait, sender: Peer, frame: Frame) -> list[Frame]:
        """The method as its receiver is to see it: with other numbers, as several, or not at all."""
        name = BY_INDEX[frame.index].name
        if name == "confirm.select" and strait.confirms_from is None:
            strait.confirms_from = frame.ordinal or strait.flows[CLIENT].ordinal
        elif name in ANSWERS and strait.own_requests:
            owners = strait.own_requests.get(ANSWERS[name])
            if owners and owners.popleft():
                return []
        elif name in REPLIES and strait.own_requests.get(name) and not getattr(frame.method, "no_wait", False):
            strait.own_requests[name].append(False)
        if sender is SERVER and strait.confirms is not None and name in ("basic.ack", "basic.nack"):
            settled = _within_bounds(strait.confirms.translate, frame.method.delivery_tag, frame.method.multiple)
            return _settling(strait.number, frame.method, settled)
        if strait.deliveries is not None:
            return self._translated_delivery(strait, strait.deliveries, sender, frame)
        return [frame]

    def _translated_delivery(self, strait: Strait, numbers: DeliveryNumbers, sender: Peer, frame: Frame) -> list[Frame]:
        method = frame.method
        match method:
            case BasicDeliver() | BasicGetOk():
                _within_bounds(numbers.receive, method.delivery_tag, is_acked=self._is_acked(strait, method))
                tag = _within_bounds(numbers.hand_out, method.delivery_tag)
                return [_frame(strait.number, msgspec.structs.replace(method, delivery_tag=tag))]
            case BasicAck() | BasicNack() | BasicReject() if sender is CLIENT:
                channel = self.connections[CLIENT].channels.get(strait.number)
                is_transactional = channel is not None and channel.mode is Mode.TX
                multiple = getattr(method, "multiple", False)
                try:
                    settled = numbers.settle(method.delivery_tag, multiple, may_be_taken_back=is_transactional)
                except UnknownTag:
                    text = f"{PreconditionFailed.name} - unknown delivery tag {method.delivery_tag}"
                    self._close(strait, Command.received([frame]), Close(Scope.CHANNEL, 406, text))
                    return []
                return _settling(strait.number, method, settled)
            case BasicRecoverOk():
                numbers.recover()
            case TxCommitOk():
                numbers.commit()
            case TxRollbackOk():
                numbers.roll_back()
        return [frame]

    def _put(self, sender: Peer, frame: Frame, is_shown: bool = True) -> None:
        """Send a frame to the peer that `sender` talks to, unless what it belongs to is closing there."""
        if not self._show(sender, frame):
            return
        to = sender.other
        frame_max = self.connections[to].frame_max
        if frame.kind == BODY and frame_max and len(frame.raw) > frame_max + OVERHEAD:
            payload, step = frame.payload, frame_max - OVERHEAD
            for start in range(0, len(payload), step):
                self.output[to].append(encode_frame(BODY, frame.channel, payload[start : start + step]))
        else:
            self.output[to].append(frame.raw)
        if is_shown and self._is_tapped:
            self.passed[sender].append(frame)

    # --- a channel, or the connection, that we close

    def _close(self, strait: Strait, command: Command, close: Close) -> None:
        """Close a channel on both legs, as soon as neither peer is in the middle of a content on it."""
        cls = BY_INDEX[command.index] if command.index >= 0 else None
        place = (cls.class_id, cls.method_id) if cls is not None else (0, 0)
        if strait.number == 0 or close.scope is Scope.CONNECTION:
            self.refusal = Refusal(close)
            self.refusal.class_id, self.refusal.method_id = place
            return
        if strait.closing is not None:
            return
        strait.closing = close
        strait.class_and_method = place
        self._watch(strait)
        for flow in strait.flows.values():
            self._drop(flow)
        self._try_to_close(strait)

    def _drop(self, flow: Flow) -> None:
        """Forget what has not gone on."""
        if flow.waiting is not None:
            del self.waiting[flow.waiting.number]
        flow.clear()

    def _try_to_close(self, strait: Strait) -> None:
        if strait.is_closed or any(self._is_mid(strait, flow) for flow in strait.flows.values()):
            return
        assert strait.closing is not None
        strait.is_closed = True
        number = strait.number
        close = ChannelClose(strait.closing.code, strait.closing.text, *strait.class_and_method)
        farewell = ChannelClose(200, CLOSED_FOR_THE_CLIENT, 0, 0)
        for peer, method in ((CLIENT, close), (SERVER, farewell)):
            connection = self.connections[peer]
            if number in connection.channels and connection.channels[number].takes_frames:
                self._say(peer, number, method)
        self._forget_if_closed(number)

    def _say(self, to: Peer, number: int, method: Method) -> None:
        frame = _frame(number, method)
        self.connections[to].receive(to.other, frame)
        self.output[to].append(frame.raw)
        if self._is_tapped:
            self.passed[to.other].append(frame)

    def _cross_closing(self, strait: Strait, sender: Peer, frame: Frame, is_live: bool) -> None:
        """Take a frame on a channel that we are closing: nothing of it goes on."""
        flow = strait.flows[sender]
        if not strait.is_closed:
            if frame.kind == METHOD and frame.index in (ChannelClose.index, ChannelCloseOk.index) and is_live:
                strait.closing = None  # a peer was quicker: it closes for both
                self._admit(strait, flow, frame)
            elif frame.kind != METHOD and flow.is_mid:
                self._process(strait, flow, frame)
            return
        if is_live and frame.kind == METHOD and frame.index == ChannelClose.index:
            self._say(sender, strait.number, ChannelCloseOk())
        self._forget_if_closed(strait.number)

    def _forget_if_closed(self, number: int) -> None:
        """Let a channel's number be used again once neither leg has the channel."""
        if self._has_channel(CLIENT, number) and not self._straits.get(number, _NONE).reopening:
            return
        strait = self._straits.get(number)
        if self._has_channel(SERVER, number):
            return
        if strait is not None:
            for flow in strait.flows.values():
                self._drop(flow)
            del self._straits[number]
        self.judge.channel_closed(number)
        if strait is not None and strait.reopening:
            new = self._straits[number] = Strait(number)
            new.is_watched = True
            for frame in strait.reopening:
                self._admit(new, new.flows[CLIENT], frame)
            self._watch_lanes(new)

    def _watch(self, strait: Strait) -> None:
        """See all that is said on a channel from here on."""
        if strait.is_watched or strait.number == 0:
            return
        strait.is_watched = True
        for peer, reader in self._readers.items():
            lane = reader.lanes.get(strait.number)
            if self._current != (peer, strait.number) and (lane is None or not lane.is_shown):
                strait.flows[peer].join(lane)
        self._watch_lanes(strait)

    def _watch_lanes(self, strait: Strait) -> None:
        """Have all frames of a channel handed over, from those on that come behind the present one."""
        for peer, reader in self._readers.items():
            lane = reader.lanes.get(strait.number)
            if lane is not None and not lane.is_watched:
                lane.is_watched = True
                self._is_watching_more |= self._current == (peer, strait.number)


_NONE = Strait(0)


def _frame(channel: int, method: Method) -> Frame:
    (frame,) = every_frame(encode_method(channel, method), 0)
    return frame


def _altered(command: Command) -> list[Frame]:
    """The frames of a command some of which were changed: the others are those that it came in."""
    frames = list(command.frames)
    if command.method is not frames[0].method:
        frames[0] = _frame(command.channel, command.method)
    if len(frames) > 1 and command.header is not None and command.header is not frames[1].header:
        frames[1:2] = every_frame(encode_frame(HEADER, command.channel, command.header.encode()), 0)
    return frames


def _damaged(octets: bytes, damage: tuple[tuple[int, int], ...]) -> bytes:
    damaged = bytearray(octets)
    for place, bits in damage:
        damaged[place % len(damaged)] ^= bits
    return bytes(damaged)


def _settling(channel: int, method: Method, settled: Settled) -> list[Frame]:
    """`method`, which settles, once for each of `settled`."""
    frames = []
    for tag, multiple in settled:
        if isinstance(method, BasicReject):
            frames.append(_frame(channel, msgspec.structs.replace(method, delivery_tag=tag)))
        else:
            frames.append(_frame(channel, msgspec.structs.replace(method, delivery_tag=tag, multiple=multiple)))
    return frames


def _within_bounds(do: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """Do it; what is too much to be remembered is a ResourceError."""
    try:
        return do(*arguments, **options)
    except OverflowError as error:
        raise ResourceError(str(error)) from None
