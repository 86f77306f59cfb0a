"""One direction of one channel: what waits there, and what becomes of the content that is under way."""

from __future__ import annotations

from collections import deque
from enum import Enum, auto

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frames import HEADER, METHOD, Frame, Lane
from amqproxy.amqp091.grammar import Peer
from amqproxy.rules.verdict import Hold, Stage, Verdict


class Rest(Enum):
    """What becomes of the frames of a content whose verdict has fallen."""

    PASSES = auto()
    IS_SWALLOWED = auto()


class Waiting:
    """A command that waits with its verdict, from `since` until `until` (seconds) or for somebody's word."""

    __slots__ = ("hold", "number", "original", "since", "until", "verdict")

    def __init__(self, original: Command, verdict: Verdict, since: float, until: float, number: int) -> None:
        self.original = original
        self.verdict = verdict
        self.since = since
        self.until = until
        self.hold: Hold | None = verdict.hold
        self.number = number


class Postponed:
    """A command that `left` more of its method are to overtake; `tag` is the delivery tag that the broker gave it."""

    __slots__ = ("command", "left", "tag")

    def __init__(self, command: Command, tag: int, left: int) -> None:
        self.command = command
        self.tag = tag
        self.left = left


class Flow:
    """What `sender` says on one channel, between its coming and its going on.

    `gathered` are the frames of a command that is not judged yet, `stage` how much of it must come before it can be;
    `rest` is what becomes of the frames of a content that is judged, or was not wanted. `is_mid` holds while the target
    has had a part of a content and not all of it: nothing else may be put between. `ordinal` counts the contents seen.
    `insertions` wait for the end of such a content; each with the delivery tag that the broker gave it, if it did.
    """

    __slots__ = (
        "_has_header",
        "_remaining",
        "decided",
        "gathered",
        "insertions",
        "is_mid",
        "octets",
        "ordinal",
        "postponed",
        "queue",
        "rest",
        "sender",
        "stage",
        "waiting",
    )

    def __init__(self, sender: Peer) -> None:
        self.sender = sender
        self.gathered: list[Frame] = []
        self.stage = Stage.NOTHING
        self.decided: Verdict | None = None
        self.rest = Rest.PASSES
        self.is_mid = False
        self.ordinal = 0
        self.queue: deque[Frame] = deque()
        self.octets = 0
        self.waiting: Waiting | None = None
        self.insertions: deque[tuple[Command, int | None]] = deque()
        self.postponed: list[Postponed] = []
        self._has_header = True
        self._remaining = 0

    @property
    def is_waiting(self) -> bool:
        return self.waiting is not None

    @property
    def is_held(self) -> bool:
        """Does a command wait for somebody's word, and not only for its time?"""
        return self.waiting is not None and self.waiting.hold is not None

    @property
    def is_held_up(self) -> bool:
        """Must what comes now wait behind something?"""
        return self.is_waiting or bool(self.queue)

    def enqueue(self, frame: Frame) -> None:
        self.queue.append(frame)
        self.octets += len(frame.raw)

    def dequeue(self) -> Frame:
        frame = self.queue.popleft()
        self.octets -= len(frame.raw)
        return frame

    def join(self, lane: Lane | None) -> None:
        """Begin to see a lane whose frames have passed unseen so far."""
        self.end()
        if lane is None:
            return
        self.ordinal = lane.contents
        if lane.expects != METHOD:
            self.begin(Rest.PASSES)
            self._has_header = lane.expects != HEADER
            self._remaining = lane.remaining

    def begin(self, rest: Rest) -> None:
        """A method's content begins, and this becomes of it."""
        self.rest = rest
        self.is_mid = rest is Rest.PASSES
        self._has_header = False
        self._remaining = 0

    def advance(self, frame: Frame) -> bool:
        """Count a header or body of the content under way; True when that completes it."""
        if frame.kind == HEADER:
            self._has_header = True
            self._remaining = frame.body_size
        else:
            self._remaining -= frame.size
        return self._has_header and self._remaining <= 0

    def skip(self, frames: list[Frame]) -> bool:
        """Count frames that were gathered, after their method; True when the content is complete."""
        is_complete = False
        for frame in frames:
            is_complete = self.advance(frame)
        return is_complete

    def end(self) -> None:
        """The content under way is complete."""
        self.is_mid = False
        self.rest = Rest.PASSES

    def overtaken_by(self, index: int) -> list[Postponed]:
        """Count a command of that method's: those that have been overtaken enough now."""
        ready = []
        for each in self.postponed:
            if each.command.index == index:
                each.left -= 1
                if each.left <= 0:
                    ready.append(each)
        self.postponed = [each for each in self.postponed if each not in ready]
        return ready

    def clear(self) -> None:
        """Drop all that has not gone on."""
        self.queue.clear()
        self.octets = 0
        self.gathered = []
        self.stage = Stage.NOTHING
        self.decided = None
        self.waiting = None
        self.insertions.clear()
        self.postponed.clear()
