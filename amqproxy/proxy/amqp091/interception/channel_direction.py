"""One direction of one channel: what waits there, and what becomes of the content that is under way."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import HEADER, METHOD, Frame
from amqproxy.amqp091.frame_reader import ContentState
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.transitions import Peer
from amqproxy.proxy.interception.queued_bytes import FRAME_COST, QueuedBytes, cost_of_own
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.proxy.timers import Timer
from amqproxy.rules.verdict import Stage, Verdict
from amqproxy.taps.note import NOTHING, Note

_UNKNOWN = 1 << 62
"""More bytes than any content has."""


class ContentRest(Enum):
    """What becomes of the frames of a content whose verdict has fallen."""

    PASSES = auto()
    IS_SWALLOWED = auto()


_numbers = itertools.count()
"""Keep those in order that are overtaken enough at the same time."""


def cost(frames: Iterable[Frame]) -> int:
    """The bytes that these frames cost while they are kept."""
    return sum([frame.size + FRAME_COST for frame in frames])


class PostponedDelivery:
    """A command that `left` more of its method are to overtake; `tag` is the delivery tag that the broker gave it."""

    __slots__ = ("command", "cost", "left", "tag", "timer")

    def __init__(self, command: Command, tag: int, left: int) -> None:
        self.command = command
        self.tag = tag
        self.left = left
        self.timer: Timer | None = None
        self.cost = cost(command.frames) if command.frames else cost_of_own(command)


class ChannelDirection:
    """One direction of a channel: what `sender` has sent on it that has not been sent on yet.

    `gathered` are the frames of a command that is not evaluated yet, `stage` how much of it must come before it can be;
    `rest` is what becomes of the frames of a content that is evaluated, or was not wanted. `is_mid` holds while the
    target has had a part of a content and not all of it: nothing else may be put between. While it `is_paused`, what
    begins waits; a content that has begun goes on to its end. `ordinal` counts the contents
    seen, `settled` those of whom it is known by now whether they go on. `first` is the method under way, and `is_acked`
    whether it has to be acknowledged, as it was when it came; None if that was not asked. `note` is what taps are to
    know of it. `insertions` wait for the end of such a content; each with the delivery tag that the broker gave it, if
    it did. What waits counts for `loads`, for the peer on whose account it does; what is gathered for `gathering`.
    """

    __slots__ = (
        "_gathered_cost",
        "_gathering",
        "_has_header",
        "_is_rest_open",
        "_overtaking",
        "_own_load",
        "_passed",
        "_remaining",
        "_waiting_load",
        "decided",
        "first",
        "gathered",
        "insertions",
        "is_acked",
        "is_mid",
        "is_paused",
        "note",
        "ordinal",
        "postponed",
        "queue",
        "rest",
        "sender",
        "settled",
        "stage",
        "waiting",
    )

    def __init__(self, sender: Peer, loads: Mapping[Peer, QueuedBytes], gathering: QueuedBytes) -> None:
        self.sender = sender
        self._waiting_load = loads[sender]
        self._own_load = loads[
            sender.other
        ]  # a command of our own counts for the peer that caused it, the receiver here
        self._gathering = gathering
        self._gathered_cost = 0
        self.gathered: list[Frame] = []
        self.stage = Stage.NOTHING
        self.decided: Verdict | None = None
        self.rest = ContentRest.PASSES
        self.is_mid = self.is_paused = False
        self.ordinal = self.settled = 0
        self.first: Frame | None = None
        self.note: Note = NOTHING
        self.is_acked: bool | None = None
        self.queue: deque[tuple[Frame, bool | None]] = deque()
        self.waiting: WaitingCommand | None = None
        self.insertions: deque[tuple[Command, int | None]] = deque()
        self.postponed: dict[PostponedDelivery, None] = {}
        self._passed: dict[int, int] = {}
        self._overtaking: dict[int, list[tuple[int, int, PostponedDelivery]]] = {}
        self._has_header = True
        self._remaining = 0
        self._is_rest_open: bool | None = None

    @property
    def is_waiting(self) -> bool:
        return self.waiting is not None

    @property
    def is_held(self) -> bool:
        """Is a command held for an operator, and not only delayed?"""
        return self.waiting is not None and self.waiting.hold is not None

    @property
    def is_held_up(self) -> bool:
        """Must what comes now wait behind something?"""
        return self.waiting is not None or bool(self.queue)

    def enqueue(self, frame: Frame, is_acked: bool | None) -> None:
        self.queue.append((frame, is_acked))
        self._waiting_load.add(cost([frame]))

    def dequeue(self) -> tuple[Frame, bool | None]:
        frame, is_acked = self.queue.popleft()
        self._waiting_load.remove(cost([frame]))
        return frame, is_acked

    @property
    def keeps_rest(self) -> bool:
        """Whether the rest of a content is queued, and is all that still goes on."""
        return self._is_rest_open is not None and bool(self.queue)

    def queued_rest(self) -> list[Frame]:
        """Return the queued frames of the content that the receiver has had a part of."""
        if not self.is_mid:
            return []
        return [frame for frame, _ in itertools.takewhile(lambda queued: queued[0].kind != METHOD, self.queue)]

    def keep_rest(self, frames: Iterable[Frame]) -> None:
        """Queue these frames, the rest of a content: of what comes later, only frames of the same content follow."""
        for frame in frames:
            self.enqueue(frame, None)
        if self._is_rest_open is None:
            self._is_rest_open = True

    def add_to_rest(self, frame: Frame) -> None:
        """Queue a frame if it belongs to the content whose rest is kept."""
        if frame.kind == METHOD:
            self._is_rest_open = False
        elif self._is_rest_open:
            self.enqueue(frame, None)

    def wait(self, waiting: WaitingCommand) -> None:
        """Have a command wait, and all behind it."""
        self.waiting = waiting
        self._waiting_load.add(waiting.cost)

    def wake(self) -> WaitingCommand | None:
        """What has waited, if something has; it does no longer."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self._waiting_load.remove(waiting.cost)
        return waiting

    def put_off(self, command: Command, tag: int | None) -> None:
        """Keep a command of our own until the content under way has come to its end."""
        self.insertions.append((command, tag))
        self._own_load.add(cost_of_own(command))

    def next_own(self) -> tuple[Command, int | None]:
        """The first that was put off."""
        command, tag = self.insertions.popleft()
        self._own_load.remove(cost_of_own(command))
        return command, tag

    def postpone(self, postponed: PostponedDelivery) -> None:
        index = postponed.command.index
        self.postponed[postponed] = None
        heap = self._overtaking.setdefault(index, [])
        heapq.heappush(heap, (self._passed.get(index, 0) + postponed.left, next(_numbers), postponed))
        self._waiting_load.add(postponed.cost)

    def no_longer_postponed(self, gone: Iterable[PostponedDelivery]) -> None:
        """Forget those that are sent, or are not to be sent at all."""
        for each in gone:
            del self.postponed[each]
            self._waiting_load.remove(each.cost)
            if each.timer is not None:
                each.timer.cancel()
        if not self.postponed:
            self._overtaking.clear()

    def gather(self, frames: list[Frame], stage: Stage) -> None:
        """Keep a command of which these have come until it has come as far as `stage`."""
        self.gathered = frames
        self.stage = stage
        self._has_header = False
        self._remaining = 0
        self.skip(frames[1:])
        self._gathered_cost = cost(frames)
        self._gathering.add(self._gathered_cost)

    def gather_more(self, frame: Frame) -> bool:
        """Keep one more frame; True when the command is complete."""
        self.gathered.append(frame)
        size = frame.size + FRAME_COST
        self._gathered_cost += size
        self._gathering.add(size)
        return self.advance(frame)

    def take_gathered(self) -> list[Frame]:
        """What was gathered, which is for others to keep."""
        frames, self.gathered = self.gathered, []
        self._gathering.remove(self._gathered_cost)
        self._gathered_cost = 0
        return frames

    def join(self, content_state: ContentState | None) -> None:
        """Begin to follow a content whose frames were not handed over so far."""
        self.end()
        if content_state is None:
            return
        self.ordinal = self.settled = content_state.contents
        if content_state.expects != METHOD:
            self.begin(ContentRest.PASSES)
            self._has_header = content_state.expects != HEADER
            self._remaining = content_state.remaining

    def swallow(self, content_state: ContentState) -> None:
        """Let nothing go on of a content that is under way, and that has not gone on so far."""
        self.begin(ContentRest.IS_SWALLOWED)
        self._has_header = content_state.expects != HEADER
        self._remaining = content_state.remaining

    def join_midway(self, frame: Frame) -> None:
        """Begin to see a content with a header or body of it; its content state knows how much more is to come."""
        self.begin(ContentRest.PASSES)
        self.ordinal = self.settled = frame.ordinal
        self._has_header = frame.kind != HEADER
        self._remaining = _UNKNOWN

    def join_closing(self) -> None:
        """Begin to follow a channel that is closing: whether, and how much of, a content is under way is not known."""
        self.begin(ContentRest.PASSES)
        self._remaining = _UNKNOWN

    def catch_up(self, content_state: ContentState | None) -> bool:
        """Learn what `join_midway` left open from the content state, whose frames are all here; True: the end."""
        if content_state is not None and content_state.expects != METHOD:
            self._remaining = content_state.remaining
            return False
        return True

    @property
    def is_unsure(self) -> bool:
        """Is it not known how much of the content under way is to come?"""
        return self.is_mid and self._remaining > _UNKNOWN // 2

    def begin(self, rest: ContentRest) -> None:
        """A method's content begins, and this becomes of it."""
        self.rest = rest
        self.is_mid = rest is ContentRest.PASSES
        self._has_header = False
        self._remaining = 0

    def start(self, first: Frame, is_acked: bool | None) -> None:
        """A command begins."""
        if first.kind == METHOD and BY_INDEX[first.index].carries_content:
            self.ordinal = first.ordinal or self.ordinal + 1
            self.settled = self.ordinal - 1  # those before may have passed unseen
        elif first.ordinal:
            self.ordinal = self.settled = first.ordinal
        self.first, self.is_acked, self.note = first, is_acked, NOTHING

    def advance(self, frame: Frame) -> bool:
        """Count a header or body of the content under way; True when that completes it."""
        if frame.kind == HEADER:
            self._has_header = True
            self._remaining = frame.body_size
        else:
            self._remaining -= frame.size
        return self._has_header and self._remaining <= 0

    def skip(self, frames: Sequence[Frame]) -> bool:
        """Count frames that were gathered, after their method; True when the content is complete."""
        is_complete = False
        for frame in frames:
            is_complete = self.advance(frame)
        return is_complete

    def end(self) -> None:
        """The content under way is complete."""
        self.is_mid = False
        self.rest = ContentRest.PASSES

    def overtaken_by(self, index: int) -> list[PostponedDelivery]:
        """Count a command of that method's: those that have been overtaken enough now."""
        passed = self._passed[index] = self._passed.get(index, 0) + 1
        heap = self._overtaking.get(index, [])
        ready = []
        while heap and heap[0][0] <= passed:
            postponed = heapq.heappop(heap)[2]
            if postponed in self.postponed:
                ready.append(postponed)
        self.no_longer_postponed(ready)
        return ready

    def clear(self) -> None:
        """Drop all that has not gone on; nothing is paused any more."""
        self.is_paused = False
        self._waiting_load.remove(cost([frame for frame, _ in self.queue]))
        self.queue.clear()
        self.take_gathered()
        self.stage = Stage.NOTHING
        self.decided = None
        waiting = self.wake()
        if waiting is not None and waiting.timer is not None:
            waiting.timer.cancel()
        while self.insertions:
            self.next_own()
        self.no_longer_postponed(list(self.postponed))
