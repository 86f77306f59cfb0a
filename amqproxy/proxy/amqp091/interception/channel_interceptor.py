"""One 0-9-1 channel between the legs: both directions and the channel's end, yielding actions."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from amqproxy.amqp091.commands import MAX_BODY, MAX_FRAMES, Command
from amqproxy.amqp091.errors import (
    ContentTooLarge,
    PreconditionFailed,
    ProtocolError,
    Scope,
)
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp091.interception.actions import Forget, Insert, Send, Watch
from amqproxy.proxy.amqp091.interception.answers import answer
from amqproxy.proxy.amqp091.interception.channel_closing import CLOSED_BY_BOTH, close_both, is_unanswered, takes_close
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection, ContentRest, cost
from amqproxy.proxy.amqp091.interception.channel_output import ChannelOutput, frames_shown
from amqproxy.proxy.amqp091.interception.channel_owner import ChannelOwner
from amqproxy.proxy.amqp091.interception.channel_tags import ChannelTags
from amqproxy.proxy.amqp091.interception.encoding import check
from amqproxy.proxy.interception.actions import Actions, CloseConnection, Decide, Drop, Reply, ShowToTaps, Wait
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.rules.engine.outcome import Outcome, outcome
from amqproxy.rules.verdict import Answer, Close, Stage, Verdict
from amqproxy.taps.note import LEGS, NOTHING, Note

DELIVERIES = frozenset({BasicDeliver.index, BasicGetOk.index})
"""Methods whose deliveries a client may have to acknowledge."""

CHANNEL_ENDS = frozenset({ChannelClose.index, ChannelCloseOk.index})

_CLOSES = frozenset({ChannelClose.index, ConnectionClose.index})


class ChannelInterceptor:
    """Channel state once the two legs may differ; takes frames and verdicts, and yields actions.

    `tags` translates the numbers that differ between the legs. `closing` is the close that the proxy carries out;
    `is_closed` is true once both peers have been sent a close. `is_gone_upstream` is true once the broker has closed
    the channel, though its close may have to wait. `reopening` holds the client's frames for the next channel of this
    number, sent before the broker has released this one.
    """

    __slots__ = (
        "_around",
        "class_and_method",
        "closing",
        "directions",
        "is_closed",
        "is_gone_upstream",
        "is_watched",
        "number",
        "output",
        "reopening",
        "tags",
    )

    def __init__(self, number: int, around: ChannelOwner) -> None:
        self.number = number
        self._around = around
        self.directions = {peer: ChannelDirection(peer, around.loads, around.gathering) for peer in (CLIENT, SERVER)}
        self.is_watched = False
        self.tags = ChannelTags(number, around.connections, self.directions)
        self.output = ChannelOutput(number, around, self.directions, self.tags)
        self.closing: Close | None = None
        self.class_and_method = (0, 0)
        self.is_closed = False
        self.is_gone_upstream = False
        self.reopening: deque[Frame] = deque()

    def is_idle(self, direction: ChannelDirection) -> bool:
        """Whether the legs agree, nothing is queued, and no content is in progress in this direction."""
        if self.is_watched or self.closing is not None or self.reopening or direction.is_mid:
            return False
        return direction.rest is ContentRest.PASSES and not (
            direction.gathered or direction.insertions or direction.is_held_up
        )

    def leaves_rest(self, direction: ChannelDirection) -> bool:
        """Whether the rest of the current content can be forwarded or discarded without inspection."""
        if self.closing is not None or direction.insertions or direction.is_held_up or direction.gathered:
            return False
        return direction.is_mid or direction.rest is ContentRest.IS_SWALLOWED

    def pass_by(self, direction: ChannelDirection, frames: Sequence[Frame]) -> None:
        """Record a message, or its beginning, that was forwarded unchanged."""
        direction.start(frames[0], None)
        direction.settled = direction.ordinal
        direction.begin(ContentRest.PASSES)
        if direction.skip(frames[1:]):
            direction.end()

    def is_reopening(self) -> bool:
        """Whether the client's frames belong to the number's next channel, which waits for the end of this one."""
        if self.reopening:
            return True
        legs = self._around.connections
        return self.number not in legs[CLIENT].channels and self.number in legs[SERVER].channels

    def unshown_publishes(self) -> int | None:
        """Return the number of the client's publishes that are gathered, delayed, held or queued, even in part.

        Taps are shown them later. `None` if they will be shown other commands, too, or the channel is closing.
        """
        direction = self.directions[CLIENT]
        if self.closing is not None or self.reopening or self.is_gone_upstream:
            return None
        content_state = self._around.readers[CLIENT].content_states.get(self.number)
        is_mid = content_state is not None and content_state.expects != METHOD
        if is_mid and direction.rest is ContentRest.IS_SWALLOWED:
            return None  # taps were already shown the end of a content whose last frames are outstanding
        waiting = [direction.waiting.original.index] if direction.waiting is not None else []
        waiting += [frame.index for frame, _ in direction.queue if frame.kind == METHOD]
        waiting += [frame.index for frame in direction.gathered if frame.kind == METHOD]
        if any(index != BasicPublish.index for index in waiting) or (direction.queue and not waiting):
            return None
        return len(waiting)

    # --- frames

    def take(self, sender: Peer, frame: Frame, *, is_live: bool) -> Actions:
        """Take a frame just received; `is_live` is false if its channel or connection is closing on that leg."""
        direction = self.directions[sender]
        if self.closing is not None:
            return self._take_while_closing(direction, frame, is_live)
        if self.is_gone_upstream and sender is CLIENT and frame.index not in CHANNEL_ENDS:
            is_live = False  # the client may not know yet, but the broker would not accept it any more
        if not is_live:
            return self._take_late(direction, frame)
        if frame.index in _CLOSES:
            return self._take_close(direction, frame)
        return self._admit(direction, frame)

    def _take_late(self, direction: ChannelDirection, frame: Frame) -> Actions:
        """Take a frame on a channel that is closing there: a new command and its content are dropped."""
        if direction.keeps_rest:
            direction.add_to_rest(frame)
        elif frame.kind == METHOD:
            direction.end()
            if BY_INDEX[frame.index].carries_content:
                direction.begin(ContentRest.IS_SWALLOWED)
        elif frame.kind in (HEADER, BODY):
            if direction.is_mid:
                return self._take_rest(direction, frame)
            if direction.advance(frame):
                direction.end()
        return ()

    def _take_rest(self, direction: ChannelDirection, frame: Frame) -> Actions:
        """Take a header or body on a closing channel: a receiver that has the beginning of a content gets the rest.

        RabbitMQ closes the connection with 505 for channel.close-ok in the middle of a content.
        """
        if direction.advance(frame):
            direction.end()
        return (Send(direction.sender, (frame,), direction.note, is_rest=True),)

    def keep_for_next(self, frame: Frame) -> Actions:
        """Queue a client frame for the next channel of this number, until the broker has released this one."""
        check(frame)
        self.reopening.append(frame)
        self._around.loads[CLIENT].add(cost([frame]))
        yield Watch()

    def _take_close(self, direction: ChannelDirection, frame: Frame) -> Actions:
        """Take channel.close or connection.close."""
        if frame.index == ConnectionClose.index and self._around.holds_up(direction.sender):
            direction.enqueue(frame, None)  # earlier frames must be sent first
            return
        if frame.index == ChannelClose.index and direction.sender is SERVER:
            self.is_gone_upstream = True
            if is_unanswered(self._around.connections, self.number, CLIENT):
                yield from self._answer_both()
                return
            yield Drop(self.directions[CLIENT])  # the broker would not accept it any more
        yield from self._admit(direction, frame)

    def _admit(self, direction: ChannelDirection, frame: Frame) -> Actions:
        if direction.is_held_up or (direction.is_paused and frame.kind == METHOD):
            return self._hold_up(direction, frame)
        return self._process(direction, frame, None)

    def _hold_up(self, direction: ChannelDirection, frame: Frame) -> Actions:
        check(frame)
        is_acked = self.tags.needs_ack(frame.method) if frame.index in DELIVERIES else None
        direction.enqueue(frame, is_acked)
        return ()

    def may_go_on(self, direction: ChannelDirection) -> bool:
        """Whether the first queued frame may be processed: connection.close waits for all frames sent before it."""
        first = direction.queue[0][0]
        if first.index == ConnectionClose.index and self._around.holds_up(direction.sender):
            return False
        return not (direction.is_paused and first.kind == METHOD)

    def next_queued(self, direction: ChannelDirection) -> Actions:
        """Process the first queued frame, after the command that it waited for."""
        return self._process(direction, *direction.dequeue())

    def _process(self, direction: ChannelDirection, frame: Frame, is_acked: bool | None) -> Actions:
        """Process the next frame of one direction."""
        if frame.kind in (METHOD, HEARTBEAT):
            return self._begin(direction, frame, is_acked)
        if direction.gathered:
            return self._gather(direction, frame)
        return self._pass_content(direction, frame)

    def _pass_content(self, direction: ChannelDirection, frame: Frame) -> Actions:
        """Forward or discard a header or body, as decided for its content."""
        is_complete = direction.advance(frame)
        if direction.rest is not ContentRest.PASSES:
            return self.complete(direction) if is_complete else ()
        passes = Send(direction.sender, (frame,), direction.note)
        if is_complete:
            if direction.insertions or self.closing is not None:
                return self._end_with(direction, passes)
            direction.end()
        return (passes,)

    def _end_with(self, direction: ChannelDirection, last: Send) -> Actions:
        """Forward the last frame of a content and complete it."""
        yield last
        yield from self.complete(direction)

    def _begin(self, direction: ChannelDirection, frame: Frame, is_acked: bool | None) -> Actions:
        if direction.gathered:
            direction.take_gathered()  # a method interrupts a content
            direction.decided = None
        if direction.is_mid or direction.insertions or self.tags.own_requests or self._around.counts_unacked:
            return self._begin_behind(direction, frame, is_acked)
        direction.start(frame, is_acked)
        return self._stage(direction, frame)

    def _begin_behind(self, direction: ChannelDirection, frame: Frame, is_acked: bool | None) -> Actions:
        """Begin a command like `_begin`, after completing an interrupted content, insertions and own replies."""
        if direction.is_mid:
            yield from self.complete(direction)
        direction.start(frame, is_acked)
        yield from self.output.insert_waiting(direction)
        if direction.sender is SERVER and frame.kind == METHOD and self.tags.takes_own_reply(frame):
            return
        if self._around.counts_unacked and frame.index in DELIVERIES:
            yield from self.tags.number_deliveries(frame.method.delivery_tag - 1)
        yield from self._stage(direction, frame)

    def _stage(self, direction: ChannelDirection, frame: Frame) -> Actions:
        """Evaluate a command from its first frame, gather more of its frames, or let it pass."""
        stage = self._around.stage(direction.sender, frame)
        carries_content = frame.kind == METHOD and BY_INDEX[frame.index].carries_content
        if stage is Stage.NOTHING:
            return self._let_pass(direction, frame, carries_content)
        if stage is Stage.METHOD or not carries_content:
            return (Decide(direction, Command.received([frame])),)
        direction.gather([frame], stage)
        return ()

    def _let_pass(self, direction: ChannelDirection, frame: Frame, carries_content: bool) -> Actions:
        direction.settled = direction.ordinal
        yield from self.output.send_frames(direction.sender, [frame])
        if carries_content and not self.closing:
            direction.begin(ContentRest.PASSES)

    def _gather(self, direction: ChannelDirection, frame: Frame) -> Actions:
        is_complete = direction.gather_more(frame)
        excess = self._excess(direction, frame)
        if excess is not None:
            return self._refuse_excess(direction, excess)
        if is_complete or (frame.kind == HEADER and direction.stage is Stage.HEADER):
            command = Command.received(direction.take_gathered())
            decided, direction.decided = direction.decided, None
            return (Decide(direction, command),) if decided is None else self._settle(direction, command, decided)
        return ()

    def _refuse_excess(self, direction: ChannelDirection, excess: ProtocolError) -> Actions:
        command = Command.received(direction.take_gathered())
        direction.decided = None
        yield from self.close(command, Close(Scope.CHANNEL, excess.code, excess.reply_text))
        yield from self._begin_rest(direction, command.frames, ContentRest.IS_SWALLOWED)

    def _excess(self, direction: ChannelDirection, frame: Frame) -> ProtocolError | None:
        """Return the error for a too large gathered command: 406 for its size, 311 if it may fit another time."""
        share = self._around.share
        limit = min(share.memory.share_limit, MAX_BODY)
        if frame.kind == HEADER and frame.body_size > limit and direction.stage is Stage.BODY:
            text = f"message size {frame.body_size} is larger than the {limit} bytes that rules can look at"
            return PreconditionFailed(text)
        if len(direction.gathered) > MAX_FRAMES:
            return ContentTooLarge(f"a message in more than {MAX_FRAMES} frames")
        if share.is_over:
            return ContentTooLarge("there is no memory now for all messages that rules are to look at")
        return None

    def stage_again(self, direction: ChannelDirection) -> None:
        """Raise the stage of the command being gathered to what the reloaded rules need."""
        if direction.gathered and direction.decided is None:
            direction.stage = max(direction.stage, self._around.stage(direction.sender, direction.gathered[0]))

    # --- verdicts

    def carry_out(self, direction: ChannelDirection, command: Command, verdict: Verdict) -> Actions:
        """Carry out a verdict on a command."""
        yield from self.tags.anticipate(command, verdict)
        for insertion in verdict.insertions:
            if insertion.is_ahead or insertion.after > 0:
                yield Insert(insertion)
        if verdict.delay > 0 or verdict.hold is not None:
            yield from self._wait(direction, command, verdict)
        else:
            yield from self._settle(direction, command, verdict)

    def _wait(self, direction: ChannelDirection, command: Command, verdict: Verdict) -> Actions:
        for frame in command.frames:
            check(frame)
        if direction.is_acked is None and command.index in DELIVERIES:
            direction.is_acked = self.tags.is_acked()
        yield Wait(direction, WaitingCommand(command, verdict, cost(command.frames)))
        yield Watch()

    def resume(self, direction: ChannelDirection, waiting: WaitingCommand) -> Actions:
        """Continue with a command that was delayed or held."""
        return self._settle(direction, waiting.original, waiting.verdict)

    def _settle(self, direction: ChannelDirection, command: Command, verdict: Verdict) -> Actions:
        """Carry out a verdict that is due."""
        if verdict.close is None and (verdict.answer is Answer.RETURN or verdict.behind) and not command.is_complete:
            direction.gather(command.frames, Stage.BODY)
            direction.decided = verdict
            return
        note = NOTHING
        if self._is_noted(verdict):
            sender = direction.sender
            direction.note = note = _note(verdict, command)
            if verdict.command is not command or verdict.damage:
                covered = self._around.covered(sender, command)
                yield ShowToTaps(sender, frames_shown(command, covered), note._replace(leg=LEGS[sender]))
                note = note._replace(leg=LEGS[sender.other])
        if verdict.close is not None:
            yield from self.close(command, verdict.close, note)
            yield from self._begin_rest(direction, command.frames, ContentRest.IS_SWALLOWED, note)
            return
        direction.settled = direction.ordinal
        rest, overtakes = ContentRest.IS_SWALLOWED, False
        if verdict.command is None:
            if command.index >= 0:
                yield from answer(self.tags, direction, command, verdict, note)
        elif verdict.behind and isinstance(command.method, BasicDeliver):
            yield from self.output.postpone(direction, verdict.command, command.method.delivery_tag, verdict.behind)
        else:
            rest = yield from self.output.pass_on(direction, command, verdict.command, verdict, note)
            overtakes = True
        yield from self._begin_rest(direction, command.frames, rest, note)
        if overtakes:
            yield from self.output.overtake(direction, command, note)
        for insertion in verdict.insertions:
            if not insertion.is_ahead and insertion.after <= 0:
                yield Insert(insertion, None, note)

    def _is_noted(self, verdict: Verdict) -> bool:
        """Whether taps must be told the verdict on the command."""
        return self._around.is_tapped and bool(verdict.marks or verdict.tags)

    def _begin_rest(
        self, direction: ChannelDirection, frames: Sequence[Frame], rest: ContentRest, note: Note = NOTHING
    ) -> Actions:
        """Record whether the remaining frames of an evaluated content are forwarded or discarded."""
        if frames[0].kind != METHOD or not BY_INDEX[frames[0].index].carries_content:
            return ()
        direction.begin(rest)
        if not direction.skip(frames[1:]):
            return ()
        if not direction.insertions and self.closing is None:
            direction.end()
            return ()
        return self.complete(direction, note)

    def complete(self, direction: ChannelDirection, note: Note = NOTHING) -> Actions:
        """Complete a content: send the insertions that waited for it, and close the channel if that is pending."""
        direction.end()
        yield from self.output.insert_waiting(direction, note)
        if self.closing is not None:
            yield from self._try_to_close(note)

    def is_mid(self, direction: ChannelDirection) -> bool:
        """Whether the target of the direction has received only a part of a content."""
        if self.number == 0:
            return False
        content_state = self._around.readers[direction.sender].content_states.get(self.number)
        if self.is_watched or content_state is None or self._around.current == (direction.sender, self.number):
            return direction.is_mid
        if content_state.expects == METHOD:
            return False
        return direction.is_mid if content_state.is_shown else True

    def insert(self, to: Peer, command: Command, tag: int | None, note: Note) -> Actions:
        """Send a command once no content is in progress; `tag` is the broker's, for a delivery that was received."""
        if self.closing is not None:
            return
        direction = self.directions[to.other]
        if self.is_mid(direction):
            yield Watch()
            direction.put_off(command, tag)
        else:
            yield from self.output.send_own(to, command, tag, note)

    # --- the end

    def close(self, command: Command | None, close: Close, note: Note = NOTHING) -> Actions:
        """Close a channel on both legs, once no content is in progress on either.

        `command` is the one that it is closed for, if there is one.
        """
        cls = BY_INDEX[command.index] if command is not None and command.index >= 0 else None
        place = (cls.class_id, cls.method_id) if cls is not None else (0, 0)
        if self.number == 0 or close.scope is Scope.CONNECTION:
            yield CloseConnection(close, place)
            return
        if self.closing is not None or not takes_close(self._around.connections, self.number):
            return
        self.closing = close
        self.class_and_method = place
        yield Watch()
        for direction in self.directions.values():
            yield Drop(direction)
        yield from self._try_to_close(note)

    def _answer_both(self) -> Actions:
        """Answer both peers, which have both closed the channel, once the contents in progress have ended."""
        self.closing = CLOSED_BY_BOTH
        yield Watch()
        for direction in self.directions.values():
            yield Drop(direction)
            if not direction.keeps_rest:
                direction.end()
        yield from self._try_to_close()

    def _try_to_close(self, note: Note = NOTHING) -> Actions:
        if self.is_closed or any(self.is_mid(direction) for direction in self.directions.values()):
            return
        assert self.closing is not None
        self.is_closed = True
        yield from close_both(self._around.connections, self.number, self.closing, self.class_and_method, note)

    def _take_while_closing(self, direction: ChannelDirection, frame: Frame, is_live: bool) -> Actions:
        """Take a frame on a channel that the proxy is closing: only the rest of a content in progress is forwarded."""
        sender = direction.sender
        if not self.is_closed:
            if frame.index in CHANNEL_ENDS and is_live:
                self.closing = None  # the peer's own close came first and applies on both legs
                self.is_gone_upstream |= sender is SERVER
                if is_unanswered(self._around.connections, self.number, sender.other):
                    yield from self._answer_both()
                else:
                    yield from self._admit(direction, frame)
            elif direction.keeps_rest:
                direction.add_to_rest(frame)
            elif frame.kind != METHOD and direction.is_mid:
                yield from self._process(direction, frame, None)
            return
        if is_live and frame.kind == METHOD and frame.index == ChannelClose.index:
            yield Reply(sender, ChannelCloseOk())
        yield Forget()


def _note(verdict: Verdict, command: Command) -> Note:
    is_shadow = all(mark.endswith("(shadow)") for mark in verdict.marks)
    what = Outcome.SHADOW if verdict.marks and is_shadow else outcome(verdict, command)
    return Note(verdict.marks, verdict.tags, what)
