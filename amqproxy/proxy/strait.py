"""One channel on its way through the crossing: both directions of it, its numbers, and its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import msgspec

from amqproxy.amqp091.channel import Channel, ChannelMode
from amqproxy.amqp091.commands import MAX_BODY, MAX_FRAMES, Command
from amqproxy.amqp091.errors import (
    BY_CODE,
    ContentTooLarge,
    InternalError,
    PreconditionFailed,
    ProtocolError,
    ResourceError,
    Scope,
    cut_reply_text,
)
from amqproxy.amqp091.frames import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    Frame,
    every_frame,
)
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    Method,
    TxCommit,
    TxRollback,
)
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, REPLIES, SERVER, ChannelState, Peer
from amqproxy.proxy.flow import Flow, Postponed, Rest, Waiting
from amqproxy.proxy.reframing import altered, check, damaged, method_frame, settling
from amqproxy.proxy.renumbering import MAX_OPEN, ConfirmNumbers, DeliveryNumbers, UnknownTag, within_bounds
from amqproxy.rules.verdict import Answer, Close, Insertion, Stage, Verdict
from amqproxy.taps.note import NOTHING

if TYPE_CHECKING:
    from amqproxy.proxy.crossing import Crossing

DELIVERIES = frozenset({BasicDeliver.index, BasicGetOk.index})
"""What a client may have to acknowledge."""

CONSUMER_ENDS = frozenset({BasicCancel.index, BasicCancelOk.index})
"""After these of the server's, nothing more may come for a consumer."""

MAX_POSTPONED = 1.0
"""Seconds after which a command that others were to overtake goes on, though they did not come."""

CLOSED_BY_RULE = "closed by a rule of the proxy"
"""What the other one is told when we close a channel that it knows."""


class Strait:
    """What a channel needs whose legs may differ.

    `confirms` and `deliveries` are there from the first difference on. `closing` is why we close it; `is_closed` holds
    once both peers have been told. `reopening` is what the client says on the number's next channel before the broker
    has let go of this one. `own_requests` has, for each kind of request of which we sent one, whose the next answers
    are (True: ours), `own_settlings` what we have settled ourselves in the client's transaction.
    """

    __slots__ = (
        "_crossing",
        "class_and_method",
        "closing",
        "confirms",
        "deliveries",
        "flows",
        "is_closed",
        "is_watched",
        "number",
        "own_requests",
        "own_settlings",
        "reopening",
    )

    def __init__(self, number: int, crossing: Crossing) -> None:
        self.number = number
        self._crossing = crossing
        self.flows = {peer: Flow(peer, crossing.loads, crossing.gathering) for peer in (CLIENT, SERVER)}
        self.is_watched = False
        self.confirms: ConfirmNumbers | None = None
        self.deliveries: DeliveryNumbers | None = None
        self.own_requests: dict[str, deque[bool]] = {}
        self.own_settlings: list[Method] = []
        self.closing: Close | None = None
        self.class_and_method = (0, 0)
        self.is_closed = False
        self.reopening: deque[Frame] = deque()

    @property
    def confirms_from(self) -> int | None:
        """How many publishes came before confirm.select; None without one."""
        channel = self._crossing.connections[CLIENT].channels.get(self.number)
        return None if channel is None else channel.confirms_from

    def lets_pass(self, flow: Flow) -> bool:
        """May frames that nobody wants pass by, since the legs do not differ and nothing is before them?"""
        if self.is_watched or self.closing is not None or self.reopening:
            return False
        return not (flow.gathered or flow.insertions or flow.is_held_up) and flow.rest is Rest.PASSES

    def is_idle(self, flow: Flow) -> bool:
        """And is no content under way?"""
        return self.lets_pass(flow) and not flow.is_mid

    def is_reopening(self) -> bool:
        """Is what the client says said on the number's next channel, which has to wait for the broker's close-ok?"""
        return bool(self.reopening) or (self.is_closed and not self._crossing.has_channel(CLIENT, self.number))

    def admit(self, flow: Flow, frame: Frame) -> None:
        if flow.is_held_up:
            check(frame)
            is_acked = self._needs_ack(frame.method) if frame.index in DELIVERIES else None
            flow.enqueue(frame, is_acked)
        elif frame.index == ConnectionClose.index and self._crossing.holds_up(flow.sender):
            flow.enqueue(frame, None)  # what was said before must be heard before
        else:
            self._process(flow, frame)

    def _process(self, flow: Flow, frame: Frame, is_acked: bool | None = None) -> None:
        """Do with the next frame of a flow what is to be done with it."""
        if frame.kind in (METHOD, HEARTBEAT):
            self._begin(flow, frame, is_acked)
        elif flow.gathered:
            self._gather(flow, frame)
        else:
            is_complete = flow.advance(frame)
            if flow.rest is Rest.PASSES:
                self._crossing.put_more(flow, frame)
            if is_complete:
                self.complete(flow)

    def _begin(self, flow: Flow, frame: Frame, is_acked: bool | None) -> None:
        if flow.gathered:
            flow.take_gathered()  # a method cuts a content short
            flow.decided = None
        if flow.is_mid:
            self.complete(flow)
        carries_content = frame.kind == METHOD and BY_INDEX[frame.index].carries_content
        if carries_content:
            flow.ordinal = frame.ordinal or flow.ordinal + 1
        elif frame.ordinal:
            flow.ordinal = flow.settled = frame.ordinal
        flow.first, flow.is_acked, flow.note = frame, is_acked, NOTHING
        self._insert_waiting(flow)
        if self.own_requests and flow.sender is SERVER and frame.kind == METHOD:
            owners = self.own_requests.get(ANSWERS.get(BY_INDEX[frame.index].name, ""))
            if owners and owners.popleft():
                return
        if self._crossing.counts_unacked and frame.index in (BasicDeliver.index, BasicGetOk.index):
            self._number_deliveries(frame.method.delivery_tag - 1)
        stage = self._crossing.stage(flow.sender, frame)
        if stage is Stage.NOTHING:
            flow.settled = flow.ordinal
            self._emit(flow.sender, [frame])
            if carries_content and not self.closing:
                flow.begin(Rest.PASSES)
        elif stage is Stage.METHOD or not carries_content:
            self._decide(flow, [frame])
        else:
            flow.gather([frame], stage)

    def _gather(self, flow: Flow, frame: Frame) -> None:
        is_complete = flow.gather_more(frame)
        excess = self._excess(flow, frame)
        if excess is not None:
            command = Command.received(flow.take_gathered())
            flow.decided = None
            self._close(command, Close(Scope.CHANNEL, excess.code, excess.reply_text))
            self._begin_rest(flow, command.frames, Rest.IS_SWALLOWED)
        elif is_complete or (frame.kind == HEADER and flow.stage is Stage.HEADER):
            self._go_on_with_gathered(flow)

    def _excess(self, flow: Flow, frame: Frame) -> ProtocolError | None:
        """What is too much about a command that is gathered: 406 where it is, 311 where it may fit another time."""
        share = self._crossing.share
        limit = min(share.memory.share_limit, MAX_BODY)
        if frame.kind == HEADER and frame.body_size > limit and flow.stage is Stage.BODY:
            text = f"message size {frame.body_size} is larger than the {limit} bytes that rules can look at"
            return PreconditionFailed(text)
        if len(flow.gathered) > MAX_FRAMES:
            return ContentTooLarge(f"a message in more than {MAX_FRAMES} frames")
        if share.is_over:
            return ContentTooLarge("there is no memory now for all messages that rules are to look at")
        return None

    def _go_on_with_gathered(self, flow: Flow) -> None:
        frames = flow.take_gathered()
        decided, flow.decided = flow.decided, None
        if decided is not None:
            self._settle(flow, Command.received(frames), decided)
        else:
            self._decide(flow, frames)

    def stage_again(self, flow: Flow) -> None:
        """Wait for as much of what is gathered as the rules that there are now must see."""
        if flow.gathered and flow.decided is None:
            flow.stage = max(flow.stage, self._crossing.stage(flow.sender, flow.gathered[0]))

    def _decide(self, flow: Flow, frames: list[Frame]) -> None:
        command = Command.received(frames)
        self._carry_out(flow, command, self._crossing.judged(flow.sender, command))

    def carry_out(self, flow: Flow, command: Command, verdict: Verdict) -> None:
        """Do what a verdict says on a command that has just come, while nothing is under way in its flow."""
        first = command.frames[0]
        flow.ordinal = first.ordinal
        flow.first, flow.is_acked = first, None
        self._carry_out(flow, command, verdict)

    def _carry_out(self, flow: Flow, command: Command, verdict: Verdict) -> None:
        self._crossing.effects.impairments += verdict.impairments
        self._crossing.effects.mirrored += verdict.mirrored
        self._crossing.effects.logged += verdict.logged
        self._crossing.effects.failed += [rule for rule, _ in verdict.failures]
        if verdict.command is None and verdict.marks:
            self._crossing.effects.refused.append((flow.sender, command, verdict))
        self._anticipate(command, verdict)
        for insertion in verdict.insertions:
            if insertion.is_ahead or insertion.after > 0:
                self._crossing.insert(insertion)
        if verdict.delay > 0 or verdict.hold is not None:
            self._wait(flow, command, verdict)
        else:
            self._settle(flow, command, verdict)

    def _wait(self, flow: Flow, command: Command, verdict: Verdict) -> None:
        for frame in command.frames:
            check(frame)
        seconds = verdict.hold.timeout if verdict.hold is not None else verdict.delay
        number = next(self._crossing.numbers)
        if flow.is_acked is None and command.index in DELIVERIES:
            flow.is_acked = self._is_acked()
        waiting = Waiting(command, verdict, self._crossing.now, self._crossing.now + seconds, number)
        flow.wait(waiting)
        self._crossing.waiting[number] = (self, flow)
        if flow.is_held:
            self._crossing.effects.held.append(number)
        self.watch()
        waiting.timer = self._crossing.at(waiting.until, flow.sender, lambda: self.time_out(flow))

    def time_out(self, flow: Flow) -> None:
        """Let what waits in a flow go on without anybody's word, if that is what is to become of it then."""
        waiting = flow.waiting
        assert waiting is not None
        if waiting.hold is not None and not waiting.hold.passes_at_timeout:
            text = cut_reply_text(f"{BY_CODE[403].name} - held by rule '{waiting.hold.name}', and nobody let it go")
            close = Close(Scope.CHANNEL, 403, text)
            waiting.verdict = Verdict(command=None, close=close, marks=(waiting.hold.name,), tags=waiting.verdict.tags)
            self._crossing.effects.refused.append((flow.sender, waiting.original, waiting.verdict))
        self.resume(flow)

    def resume(self, flow: Flow) -> None:
        """Let what waits in a flow go on, and what came behind it."""
        waiting = flow.wake()
        assert waiting is not None
        if waiting.timer is not None:
            waiting.timer.cancel()
        del self._crossing.waiting[waiting.number]
        with self._crossing.blaming(flow.sender):
            self._settle(flow, waiting.original, waiting.verdict)
        self.go_on(flow)

    def go_on(self, flow: Flow) -> None:
        """Do with what waited behind something what is to be done with it, up to the next that waits.

        What is too much for this turn goes on in the next.
        """
        if not flow.queue:
            return
        with self._crossing.blaming(flow.sender):
            while flow.queue and not flow.is_waiting and not self._crossing.is_over:
                if flow.queue[0][0].index == ConnectionClose.index and self._crossing.holds_up(flow.sender):
                    return
                if not self._crossing.may_go_on():
                    self._crossing.resuming[flow] = self
                    return
                self._process(flow, *flow.dequeue())

    def _settle(self, flow: Flow, command: Command, verdict: Verdict) -> None:
        """Carry out a verdict whose time has come."""
        if verdict.close is None and (verdict.answer is Answer.RETURN or verdict.behind) and not command.is_complete:
            flow.gather(command.frames, Stage.BODY)
            flow.decided = verdict
            return
        if not self._crossing.is_tapped:
            self._carry_out_now(flow, command, verdict)
            return
        with self._crossing.noting(flow, command, verdict):
            self._carry_out_now(flow, command, verdict)

    def _carry_out_now(self, flow: Flow, command: Command, verdict: Verdict) -> None:
        if verdict.close is not None:
            self._close(command, verdict.close)
            self._begin_rest(flow, command.frames, Rest.IS_SWALLOWED)
            return
        flow.settled = flow.ordinal
        rest, overtakes = Rest.IS_SWALLOWED, False
        if verdict.command is None:
            if command.index >= 0:
                self._answer(flow, command, verdict)
        elif verdict.behind and isinstance(command.method, BasicDeliver):
            self._postpone(flow, verdict.command, command.method.delivery_tag, verdict.behind)
        else:
            rest, overtakes = self._pass_on(flow, command, verdict.command, verdict), True
        self._begin_rest(flow, command.frames, rest)
        if overtakes:
            self._overtake(flow, command)
        for insertion in verdict.insertions:
            if not insertion.is_ahead and insertion.after <= 0:
                self._crossing.insert(insertion)

    def _begin_rest(self, flow: Flow, frames: list[Frame], rest: Rest) -> None:
        """Note what becomes of the frames that are still to come of a content that was judged."""
        if frames[0].kind != METHOD or not BY_INDEX[frames[0].index].carries_content:
            return
        flow.begin(rest)
        if flow.skip(frames[1:]):
            self.complete(flow)

    def complete(self, flow: Flow) -> None:
        """A content has come to its end."""
        flow.end()
        self._insert_waiting(flow)
        if self.closing is not None:
            self._try_to_close()

    def _pass_on(self, flow: Flow, original: Command, command: Command, verdict: Verdict) -> Rest:
        """Send a command on, as it came or changed; what becomes of what is still to come of it."""
        sender = flow.sender
        frame_max = self._crossing.connections[sender.other].frame_max
        try:
            if command is original:
                frames, rest = original.frames, Rest.PASSES
            elif command.frames:
                frames, rest = altered(command), Rest.PASSES
            else:
                frames, rest = every_frame(command.encode(frame_max), 0), Rest.IS_SWALLOWED
        except Exception as error:  # noqa: BLE001 - whatever a rule may have put there
            self._refuse_made(original, f"what cannot be encoded ({type(error).__name__})", verdict.marks)
            return Rest.IS_SWALLOWED
        if command is not original and self._refuses(command, frames, frame_max, verdict.marks):
            return Rest.IS_SWALLOWED
        if verdict.damage:
            self._crossing.output[sender.other].append(damaged(frames[0].raw, verdict.damage))
            frames = frames[1:]
        self._emit(sender, frames, verdict.shown)
        return rest

    def _refuses(self, command: Command, frames: list[Frame], frame_max: int, rules: Sequence[str] = ()) -> bool:
        """Refuse a command that rules have made larger than its receiver's frames: only a body can be split."""
        size = max([frame.length() for frame in frames[:2] if frame.kind != BODY], default=0)
        if not frame_max or size <= frame_max:
            return False
        self._refuse_made(command, f"a frame of {size} bytes, where {frame_max} is the most", rules)
        return True

    def _refuse_made(self, command: Command, made: str, rules: Sequence[str]) -> None:
        by = f" by rule '{rules[-1]}'" if rules else ""
        self._crossing.effects.logged.append(("error", f"refused what was made{by}: {made}"))
        self._close(command, Close(Scope.CHANNEL, InternalError.code, InternalError(f"rules made {made}").reply_text))

    def _answer(self, flow: Flow, command: Command, verdict: Verdict) -> None:
        """Tell the sender of a command what became of it, where it has to hear something."""
        method = command.method
        if isinstance(method, BasicPublish):
            self._answer_publish(flow, command, verdict)
        elif isinstance(method, (BasicDeliver, BasicGetOk)):
            self._answer_delivery(method, verdict.answer)
        elif isinstance(method, (BasicAck, BasicNack)) and flow.sender is SERVER:
            if self.confirms is None:
                self.watch()
                self.confirms = ConfirmNumbers(min(method.delivery_tag - 1, self._published()))
            within_bounds(self.confirms.lose, method.delivery_tag, method.multiple, self._published())

    def _answer_publish(self, flow: Flow, command: Command, verdict: Verdict) -> None:
        method, answer = command.method, verdict.answer
        confirms_from = self.confirms_from
        is_confirming = confirms_from is not None and flow.ordinal > confirms_from
        if answer is Answer.NACK and not is_confirming:
            text = f"{BY_CODE[403].name} - refused by a rule of the proxy"
            self._close(command, Close(Scope.CHANNEL, 403, text))
            return
        if answer is Answer.RETURN:
            code, text = verdict.returned
            returned = BasicReturn(code, text, method.exchange, method.routing_key)
            self._crossing.insert(Insertion(CLIENT, Command(self.number, returned, command.properties, command.body)))
        if not is_confirming:
            return
        assert confirms_from is not None
        number = flow.ordinal - confirms_from
        if self.confirms is None:
            self.confirms = ConfirmNumbers(number - 1)
            self.watch()
        within_bounds(self.confirms.withhold, number, is_answered=answer is not Answer.NOTHING)
        if answer is Answer.NACK:
            self._confirm(BasicNack(number))
        elif answer is not Answer.NOTHING:
            self._confirm(BasicAck(number, False))

    def _confirm(self, method: Method) -> None:
        """Confirm a publish ourselves, behind what is to be said to the client before."""
        self._crossing.insert(Insertion(CLIENT, Command(self.number, method)))

    def _answer_delivery(self, method: BasicDeliver | BasicGetOk, answer: Answer) -> None:
        is_acked = self._is_acked()
        self._number_deliveries(method.delivery_tag - 1)
        assert self.deliveries is not None
        within_bounds(self.deliveries.receive, method.delivery_tag, is_acked=is_acked)
        if is_acked and answer is not Answer.NOTHING:
            self.deliveries.settle_own(method.delivery_tag)
            if self._unanswered(SERVER, "basic.recover"):
                return  # it is requeued with all others, and may be so already
            settling: Method = BasicAck(method.delivery_tag, False)
            if answer is not Answer.ACK:
                settling = BasicReject(method.delivery_tag, answer is Answer.REQUEUE)
            self._crossing.insert(Insertion(SERVER, Command(self.number, settling)))
            channel = self._crossing.connections[SERVER].channels.get(self.number)
            if channel is not None and channel.mode is ChannelMode.TX:
                self.own_settlings.append(settling)
                if len(self.own_settlings) > MAX_OPEN:
                    raise ResourceError(f"more than {MAX_OPEN} deliveries are settled in one transaction")

    def _is_acked(self) -> bool:
        """Does anybody have to acknowledge the delivery under way?"""
        flow = self.flows[SERVER]
        assert flow.first is not None
        return self._needs_ack(flow.first.method) if flow.is_acked is None else flow.is_acked

    def _needs_ack(self, method: BasicDeliver | BasicGetOk) -> bool:
        """Does anybody have to acknowledge this delivery, which came just now?"""
        channel = self._crossing.connections[SERVER].channels.get(self.number)
        if channel is None:
            return False
        if isinstance(method, BasicDeliver):
            return not channel.consumers.get(method.consumer_tag, channel.consumers.get("", False))
        return not channel.got_without_ack

    def _number_deliveries(self, start: int) -> None:
        if self.deliveries is None:
            self.deliveries = DeliveryNumbers(start)
            self.watch()

    def _anticipate(self, command: Command, verdict: Verdict) -> None:
        """Begin to number what will differ once the verdict is carried out."""
        method = command.method if command.index >= 0 else None
        inserted = [insertion.command.method for insertion in verdict.insertions]
        copies = any(isinstance(each, BasicDeliver) for each in inserted)
        if isinstance(method, (BasicDeliver, BasicGetOk)) and (verdict.behind or copies):
            self._number_deliveries(method.delivery_tag - 1)
        publishes = any(isinstance(each, BasicPublish) for each in inserted)
        if publishes:
            self._number_confirms()

    def _number_confirms(self) -> None:
        """Begin to number the confirms, if the broker was asked for them; all that went on by now is common."""
        before = self._before_confirms()
        if self.confirms is None and before is not None:
            self.watch()
            self.confirms = ConfirmNumbers(self.flows[CLIENT].settled - before)

    def _before_confirms(self) -> int | None:
        """How many publishes of the client's came before the confirm.select that has gone on; None without one.

        What the client's own leg has counted goes first: the broker's knows only of what was let pass, where it counts.
        """
        channel = self._crossing.connections[SERVER].channels.get(self.number)
        if channel is None or channel.confirms_from is None:
            return None
        return channel.confirms_from if self.confirms_from is None else self.confirms_from

    def _published(self) -> int:
        """How many publishes of the client's have been numbered by now, and have gone on or will not."""
        before = self._before_confirms()
        return 0 if before is None else self.flows[CLIENT].settled - before

    def _postpone(self, flow: Flow, command: Command, tag: int, behind: int) -> None:
        assert self.deliveries is not None
        within_bounds(self.deliveries.receive, tag, is_acked=self._is_acked())
        postponed = Postponed(command, tag, behind)
        flow.postpone(postponed)
        until = self._crossing.now + MAX_POSTPONED
        postponed.timer = self._crossing.at(until, flow.sender, lambda: self._send_postponed(flow, [postponed]))

    def _send_postponed(self, flow: Flow, those: list[Postponed]) -> None:
        """Send what others were to overtake, whether they came or not."""
        flow.no_longer_postponed(those)
        for each in those:
            self._crossing.insert(Insertion(CLIENT, each.command), each.tag)

    def _overtake(self, flow: Flow, command: Command) -> None:
        """Count a command for those that others are to overtake, and send those that were overtaken enough."""
        for each in flow.overtaken_by(command.index) if flow.postponed else ():
            self._crossing.insert(Insertion(CLIENT, each.command), each.tag)

    def is_mid(self, flow: Flow) -> bool:
        """Has the flow's target had a part of a content, and not all of it?"""
        if self.number == 0:
            return False
        lane = self._crossing.readers[flow.sender].lanes.get(self.number)
        if self.is_watched or lane is None or self._crossing.current == (flow.sender, self.number):
            return flow.is_mid
        if lane.expects == METHOD:
            return False
        return flow.is_mid if lane.is_shown else True

    def _insert_waiting(self, flow: Flow) -> None:
        while flow.insertions and not flow.is_mid:
            command, tag = flow.next_own()
            self.send_own(flow.sender.other, command, tag)

    def send_own(self, to: Peer, command: Command, tag: int | None) -> None:
        """Send a command that nobody sent us just now. Its number, if it has one, is the next."""
        method = command.method
        if isinstance(method, BasicPublish):
            self._number_own_publish()
        elif isinstance(method, BasicDeliver) and self.deliveries is not None:
            consumers = self._crossing.connections[CLIENT].channels[self.number].consumers
            no_ack = consumers.get(method.consumer_tag, consumers.get("", False))
            new = within_bounds(self.deliveries.hand_out, tag, is_acked=not no_ack)
            command = Command(
                command.channel,
                msgspec.structs.replace(method, delivery_tag=new),
                command.properties,
                command.body,
            )
        elif method.name in REPLIES and not getattr(method, "no_wait", False):
            if method.name not in self.own_requests:
                self.own_requests[method.name] = deque([False] * self._unanswered(to, method.name))
            self.own_requests[method.name].append(True)
            self.watch()
        frame_max = self._crossing.connections[to].frame_max
        frames = every_frame(command.encode(frame_max), 0)
        if self._refuses(command, frames, frame_max):
            return
        with self._crossing.noting_own(to) if self._crossing.is_tapped else nullcontext():
            for frame in frames:
                self._crossing.put(to.other, frame)

    def _number_own_publish(self) -> None:
        before = self._before_confirms()
        if before is None:
            return
        self._number_confirms()
        assert self.confirms is not None
        within_bounds(self.confirms.insert, self.flows[CLIENT].settled - before + 1)

    def _unanswered(self, by: Peer, request: str) -> int:
        """How many answers to such requests are still to come, or wait here."""
        waiting = sum(ANSWERS.get(BY_INDEX[frame.index].name) == request for frame, _ in self.flows[by].queue)
        channel = self._crossing.connections[by].channels.get(self.number)
        return waiting if channel is None else waiting + len(channel.awaited[by.other].get(request, ()))

    def _emit(self, sender: Peer, frames: list[Frame], shown: Command | None = None) -> None:
        """Send frames of a command on, the method's first, under the numbers that their receiver knows."""
        if not frames:
            return
        first = frames[0]
        if first.kind == METHOD and self.number:
            if sender is SERVER and first.index in CONSUMER_ENDS and self.flows[SERVER].postponed:
                tag = first.method.consumer_tag
                flow = self.flows[SERVER]
                self._send_postponed(flow, [each for each in flow.postponed if _consumer_of(each) == tag])
            translated = self._translated(sender, first)
            if translated != [first]:
                for each in translated:
                    self._crossing.put(sender, each, shown is None)
                frames = frames[1:]
        for frame in frames:
            self._crossing.put(sender, frame, shown is None)
        if shown is not None:
            self._crossing.show_instead(sender, shown)

    def _translated(self, sender: Peer, frame: Frame) -> list[Frame]:
        """The method as its receiver is to see it: with other numbers, as several, or not at all."""
        name = BY_INDEX[frame.index].name
        if name in REPLIES and name in self.own_requests and not getattr(frame.method, "no_wait", False):
            self.own_requests[name].append(False)
        if sender is SERVER and self.confirms is not None and name in ("basic.ack", "basic.nack"):
            settled = within_bounds(
                self.confirms.translate, frame.method.delivery_tag, frame.method.multiple, self._published()
            )
            return settling(self.number, frame.method, settled)
        if self.deliveries is not None:
            return self._translated_delivery(self.deliveries, sender, frame)
        return [frame]

    def _translated_delivery(self, numbers: DeliveryNumbers, sender: Peer, frame: Frame) -> list[Frame]:
        method = frame.method
        match method:
            case BasicDeliver() | BasicGetOk():
                within_bounds(numbers.receive, method.delivery_tag, is_acked=self._is_acked())
                tag = within_bounds(numbers.hand_out, method.delivery_tag)
                return [method_frame(self.number, msgspec.structs.replace(method, delivery_tag=tag))]
            case BasicAck() | BasicNack() | BasicReject() if sender is CLIENT:
                channel = self._crossing.connections[CLIENT].channels.get(self.number)
                is_transactional = channel is not None and channel.mode is ChannelMode.TX
                multiple = getattr(method, "multiple", False)
                try:
                    settled = within_bounds(
                        numbers.settle, method.delivery_tag, multiple, may_be_taken_back=is_transactional
                    )
                except UnknownTag:
                    text = f"{PreconditionFailed.name} - unknown delivery tag {method.delivery_tag}"
                    self._close(Command.received([frame]), Close(Scope.CHANNEL, 406, text))
                    return []
                return settling(self.number, method, settled)
            case BasicRecoverOk() | BasicRecoverAsync():
                numbers.recover()
                self.own_settlings = []
                self._forget_deliveries()
            case TxCommit():
                numbers.commit()
                self.own_settlings = []
            case TxRollback():
                numbers.roll_back()
                # What we have settled ourselves is not the client's to take back.
                return [frame, *[method_frame(self.number, settling) for settling in self.own_settlings]]
        return [frame]

    def _forget_deliveries(self) -> None:
        """What the client has not had of the deliveries is requeued with the others, and comes again."""
        flow = self.flows[SERVER]
        flow.no_longer_postponed(list(flow.postponed))
        for _ in range(len(flow.insertions)):
            command, tag = flow.next_own()
            if tag is None:
                flow.put_off(command, tag)

    def _close(self, command: Command, close: Close) -> None:
        """Close a channel on both legs, as soon as neither peer is in the middle of a content on it."""
        cls = BY_INDEX[command.index] if command.index >= 0 else None
        place = (cls.class_id, cls.method_id) if cls is not None else (0, 0)
        if self.number == 0 or close.scope is Scope.CONNECTION:
            self._crossing.refuse(close, place)
            return
        if self.closing is not None or not self._takes_close():
            return
        self.closing = close
        self.class_and_method = place
        self.watch()
        for flow in self.flows.values():
            self.drop(flow)
        self._try_to_close()

    def _takes_close(self) -> bool:
        """Is there anything left to be closed? Not where a peer has closed, and the other has heard of it."""
        channels = [connection.channels.get(self.number) for connection in self._crossing.connections.values()]
        is_open = any(channel is not None and channel.takes_frames for channel in channels)
        return is_open or self.is_unheard(CLIENT) or self.is_unheard(SERVER)

    def is_unheard(self, peer: Peer) -> bool:
        """Has the peer closed the channel, and waits for an answer that the other does not know to give?"""
        own = self._crossing.connections[peer].channels.get(self.number)
        other = self._crossing.connections[peer.other].channels.get(self.number)
        return _has_closed(peer, own) and not _has_closed(peer, other)

    def close_for_both(self) -> None:
        """Answer both peers, who have closed the channel without having heard of each other's close."""
        for flow in self.flows.values():
            self.drop(flow)
        for peer in (CLIENT, SERVER):
            self._crossing.say(peer, self.number, ChannelCloseOk())
        self._crossing.forget_if_closed(self.number)

    def drop(self, flow: Flow) -> None:
        """Forget what has not gone on."""
        if flow.waiting is not None:
            del self._crossing.waiting[flow.waiting.number]
        self._crossing.resuming.pop(flow, None)
        flow.clear()

    def _try_to_close(self) -> None:
        if self.is_closed or any(self.is_mid(flow) for flow in self.flows.values()):
            return
        assert self.closing is not None
        self.is_closed = True
        number = self.number
        told = self.closing.told or CLIENT
        close = ChannelClose(self.closing.code, self.closing.text, *self.class_and_method)
        farewell = ChannelClose(200, CLOSED_BY_RULE, 0, 0)
        for peer in (CLIENT, SERVER):
            channel = self._crossing.connections[peer].channels.get(number)
            if _has_closed(peer, channel):
                self._crossing.say(peer, number, ChannelCloseOk())
            elif channel is not None and channel.takes_frames:
                self._crossing.say(peer, number, close if peer is told else farewell)
        self._crossing.forget_if_closed(number)

    def take_while_closing(self, sender: Peer, frame: Frame, is_live: bool) -> None:
        """Take a frame on a channel that we are closing: nothing of it goes on."""
        flow = self.flows[sender]
        if not self.is_closed:
            if frame.kind == METHOD and frame.index in (ChannelClose.index, ChannelCloseOk.index) and is_live:
                self.closing = None  # a peer was quicker: it closes for both
                if self.is_unheard(sender.other):
                    self.close_for_both()
                else:
                    self.admit(flow, frame)
            elif frame.kind != METHOD and flow.is_mid:
                self._process(flow, frame)
            return
        if is_live and frame.kind == METHOD and frame.index == ChannelClose.index:
            self._crossing.say(sender, self.number, ChannelCloseOk())
        self._crossing.forget_if_closed(self.number)

    def watch(self) -> None:
        """See all that is said on a channel from here on."""
        if self.is_watched or self.number == 0:
            return
        self.is_watched = True
        for peer, reader in self._crossing.readers.items():
            lane = reader.lanes.get(self.number)
            if self._crossing.current != (peer, self.number) and (lane is None or not lane.is_shown):
                self.flows[peer].join(lane)
        self.watch_lanes()

    def watch_new_lanes(self) -> None:
        """The broker's side of the channel has been opened only now: see that too, if all is to be seen."""
        if self.is_watched:
            self.watch_lanes()

    def watch_lanes(self) -> None:
        """Have all frames of a channel handed over, from those on that come behind the present one."""
        for peer, reader in self._crossing.readers.items():
            lane = reader.lanes.get(self.number)
            if lane is not None and not lane.is_watched:
                lane.is_watched = True
                if self._crossing.current == (peer, self.number):
                    self._crossing.note_newly_watched(self.number)


def _has_closed(peer: Peer, channel: Channel | None) -> bool:
    by_peer = ChannelState.CLOSED_BY_CLIENT if peer is CLIENT else ChannelState.CLOSED_BY_SERVER
    return channel is not None and channel.state in (by_peer, ChannelState.CLOSED_BY_BOTH)


def _consumer_of(postponed: Postponed) -> str:
    return str(postponed.command.method.consumer_tag)
