"""One direction of one channel: its queued frames and commands, and the state of the content in progress."""

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
    """Treatment of the remaining frames of a content that was evaluated."""

    PASSES = auto()
    IS_SWALLOWED = auto()


_numbers = itertools.count()
"""Sequence numbers that keep the order of deliveries which become due at the same count."""


def cost(frames: Iterable[Frame]) -> int:
    """Return the bytes charged for these frames while they are kept."""
    return sum([frame.size + FRAME_COST for frame in frames])


class PostponedDelivery:
    """A delivery that `left` more commands of its method must overtake; `tag` is the broker's delivery tag."""

    __slots__ = ("command", "cost", "left", "tag", "timer")

    def __init__(self, command: Command, tag: int, left: int) -> None:
        self.command = command
        self.tag = tag
        self.left = left
        self.timer: Timer | None = None
        self.cost = cost(command.frames) if command.frames else cost_of_own(command)


class ChannelDirection:
    """One direction of a channel: the commands of `sender` that have not been forwarded.

    `gathered` are the frames of a command that awaits evaluation, and `stage` is how much of it is needed for that;
    `rest` is the treatment of the remaining frames of a content that was evaluated or was not wanted. `is_mid` is true
    while the target has received only a part of a content: no other command may be sent in between. While the direction
    `is_paused`, new commands are queued, but a content in progress is completed. `ordinal` counts the contents seen,
    `settled` those of which it is decided whether they are forwarded. `first` is the method in progress, and `is_acked`
    tells whether it has to be acknowledged, determined on arrival; `None` if that was not needed. `note` is the note
    about it for taps. `insertions` wait for the end of a content in progress; each has the broker's delivery tag, if
    any. Queued commands are charged to `loads`, to the account of the peer that caused them; gathered frames to
    `gathering`.
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
        ]  # a command made by the proxy is charged to the peer that caused it, here the receiver
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
        """Whether a command is held for an operator, and not only delayed."""
        return self.waiting is not None and self.waiting.hold is not None

    @property
    def is_held_up(self) -> bool:
        """Whether new frames must be queued behind others."""
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
        """Whether the rest of a content is queued, after which no other frame is forwarded."""
        return self._is_rest_open is not None and bool(self.queue)

    def queued_rest(self) -> list[Frame]:
        """Return the queued frames of the content of which the receiver has a part."""
        if not self.is_mid:
            return []
        return [frame for frame, _ in itertools.takewhile(lambda queued: queued[0].kind != METHOD, self.queue)]

    def keep_rest(self, frames: Iterable[Frame]) -> None:
        """Queue the rest of a content; of later frames, only those of the same content are still queued."""
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
        """Delay or hold a command, and all later ones."""
        self.waiting = waiting
        self._waiting_load.add(waiting.cost)

    def wake(self) -> WaitingCommand | None:
        """Remove and return the delayed or held command, if there is one."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self._waiting_load.remove(waiting.cost)
        return waiting

    def put_off(self, command: Command, tag: int | None) -> None:
        """Queue a command of the proxy until the content in progress is complete."""
        self.insertions.append((command, tag))
        self._own_load.add(cost_of_own(command))

    def next_own(self) -> tuple[Command, int | None]:
        """Remove and return the first queued command of the proxy."""
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
        """Remove postponed deliveries, which were sent or dropped."""
        for each in gone:
            del self.postponed[each]
            self._waiting_load.remove(each.cost)
            if each.timer is not None:
                each.timer.cancel()
        if not self.postponed:
            self._overtaking.clear()

    def gather(self, frames: list[Frame], stage: Stage) -> None:
        """Start gathering a command from its first `frames`, up to `stage`."""
        self.gathered = frames
        self.stage = stage
        self._has_header = False
        self._remaining = 0
        self.skip(frames[1:])
        self._gathered_cost = cost(frames)
        self._gathering.add(self._gathered_cost)

    def gather_more(self, frame: Frame) -> bool:
        """Gather one more frame; return whether the command is complete."""
        self.gathered.append(frame)
        size = frame.size + FRAME_COST
        self._gathered_cost += size
        self._gathering.add(size)
        return self.advance(frame)

    def take_gathered(self) -> list[Frame]:
        """Remove and return the gathered frames, and release their charge."""
        frames, self.gathered = self.gathered, []
        self._gathering.remove(self._gathered_cost)
        self._gathered_cost = 0
        return frames

    def join(self, content_state: ContentState | None) -> None:
        """Start following a content whose frames were not handed over so far."""
        self.end()
        if content_state is None:
            return
        self.ordinal = self.settled = content_state.contents
        if content_state.expects != METHOD:
            self.begin(ContentRest.PASSES)
            self._has_header = content_state.expects != HEADER
            self._remaining = content_state.remaining

    def swallow(self, content_state: ContentState) -> None:
        """Discard the rest of a content in progress of which nothing was forwarded."""
        self.begin(ContentRest.IS_SWALLOWED)
        self._has_header = content_state.expects != HEADER
        self._remaining = content_state.remaining

    def join_midway(self, frame: Frame) -> None:
        """Start following a content at one of its headers or bodies; its content state has the remaining size."""
        self.begin(ContentRest.PASSES)
        self.ordinal = self.settled = frame.ordinal
        self._has_header = frame.kind != HEADER
        self._remaining = _UNKNOWN

    def join_closing(self) -> None:
        """Start following a closing channel, on which a content of unknown size may be in progress."""
        self.begin(ContentRest.PASSES)
        self._remaining = _UNKNOWN

    def catch_up(self, content_state: ContentState | None) -> bool:
        """Read the size that `join_midway` left open from the content state; return whether the content has ended."""
        if content_state is not None and content_state.expects != METHOD:
            self._remaining = content_state.remaining
            return False
        return True

    @property
    def is_unsure(self) -> bool:
        """Whether the remaining size of the content in progress is unknown."""
        return self.is_mid and self._remaining > _UNKNOWN // 2

    def begin(self, rest: ContentRest) -> None:
        """Start a content, whose frames are forwarded or discarded as `rest` says."""
        self.rest = rest
        self.is_mid = rest is ContentRest.PASSES
        self._has_header = False
        self._remaining = 0

    def start(self, first: Frame, is_acked: bool | None) -> None:
        """Start a command."""
        if first.kind == METHOD and BY_INDEX[first.index].carries_content:
            self.ordinal = first.ordinal or self.ordinal + 1
            self.settled = self.ordinal - 1  # earlier contents may have passed without being seen here
        elif first.ordinal:
            self.ordinal = self.settled = first.ordinal
        self.first, self.is_acked, self.note = first, is_acked, NOTHING

    def advance(self, frame: Frame) -> bool:
        """Count a header or body of the content in progress; return whether it completes the content."""
        if frame.kind == HEADER:
            self._has_header = True
            self._remaining = frame.body_size
        else:
            self._remaining -= frame.size
        return self._has_header and self._remaining <= 0

    def skip(self, frames: Sequence[Frame]) -> bool:
        """Count gathered frames that follow their method; return whether the content is complete."""
        is_complete = False
        for frame in frames:
            is_complete = self.advance(frame)
        return is_complete

    def end(self) -> None:
        """Mark the content in progress as complete."""
        self.is_mid = False
        self.rest = ContentRest.PASSES

    def overtaken_by(self, index: int) -> list[PostponedDelivery]:
        """Count a command with this method; return the deliveries that have now been overtaken often enough."""
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
        """Drop everything that was not forwarded, and end a pause."""
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
