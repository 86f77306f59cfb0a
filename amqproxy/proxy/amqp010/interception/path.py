"""One channel between the legs: for each sender, what is gathered, what waits, and what becomes of a content."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum, auto

import msgspec

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.frame import BODY, Frame
from amqproxy.amqp091.commands import Command
from amqproxy.conversion.awaited_deletes import AwaitedDeletes
from amqproxy.peer import Peer
from amqproxy.proxy.amqp010.interception.command_insertions import CommandInsertions
from amqproxy.proxy.amqp010.interception.renamed_destinations import RenamedDestinations
from amqproxy.proxy.interception.actions import Actions
from amqproxy.proxy.interception.queued_bytes import FRAME_COST, QueuedBytes
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.taps.note import NOTHING, Note


class Rest(Enum):
    """What becomes of the next frames of the command track."""

    BEGINS = auto()
    """There is no command under way."""
    IS_GATHERED = auto()
    PASSES = auto()
    IS_SWALLOWED = auto()


class Pending:
    """A control or command that rules judge: the `frames` of it that have come, and its `view` in 0-9-1.

    `position` is that of a command in its session.
    """

    __slots__ = ("assembly", "frames", "position", "sender", "view")

    def __init__(self, sender: Peer, frames: list[Frame], assembly: Assembly, position: int, view: Command) -> None:
        self.sender = sender
        self.frames = frames
        self.assembly = assembly
        self.position = position
        self.view = view

    @property
    def is_complete(self) -> bool:
        return self.assembly.is_complete


class Cause(msgspec.Struct, frozen=True):
    """The command of the client at `position`, or with this `index`, for which the session `name` is closed.

    Without a name, it is the session that the client has on the channel.
    """

    position: int | None = None
    index: int = -1
    name: bytes | None = None


def cost(frames: Iterable[Frame]) -> int:
    """The bytes that these frames cost while they are kept."""
    return sum([frame.length() + FRAME_COST for frame in frames])


class Path:
    """What one peer sends on one channel.

    `is_mid`: the receiver has had a part of a command, and not all of it; what is `put_off` is done at its end.
    Controls that come while a command is gathered go on `behind` it; `gathered_size` are the bytes of that command's
    payloads so far. `left` is how many bytes of body may still come
    where rules have believed what the header says of them; `kept` are the bytes of a control and of a command that are
    not whole. While it `is_paused`, the next command waits, and all behind it; of a control that began before rules
    were there, `passes_control` the rest. Once it `has_detached`, what the peer sends belongs to the next session; of a
    queue that `is_stale`, frames are dropped up to the attach of that one.
    """

    __slots__ = (
        "_load",
        "behind",
        "controls",
        "gathered",
        "gathered_size",
        "has_detached",
        "is_mid",
        "is_paused",
        "is_stale",
        "kept",
        "left",
        "note",
        "passes_control",
        "position",
        "put_off",
        "queue",
        "rest",
        "sender",
        "waiting",
    )

    def __init__(self, sender: Peer, load: QueuedBytes) -> None:
        self.sender = sender
        self._load = load
        self.gathered: list[Frame] = []
        self.gathered_size = 0
        self.controls: list[Frame] = []
        self.behind: list[Frame] = []
        self.position = 0
        self.rest = Rest.BEGINS
        self.left: int | None = None
        self.note: Note = NOTHING
        self.is_mid = self.is_paused = self.passes_control = False
        self.has_detached = self.is_stale = False
        self.kept = [0, 0]
        self.put_off: deque[Actions] = deque()
        self.queue: deque[tuple[Frame, int]] = deque()
        self.waiting: WaitingCommand | None = None

    @property
    def is_held_up(self) -> bool:
        """Must what comes now wait behind something?"""
        return self.waiting is not None or bool(self.queue) or self.is_at_pause

    @property
    def is_at_pause(self) -> bool:
        """Is it paused, with nothing under way that goes on to its end first?"""
        return self.is_paused and self.rest is Rest.BEGINS and not self.controls and not self.passes_control

    @property
    def is_empty(self) -> bool:
        """Is nothing kept of what the peer has sent?"""
        return not (
            self.waiting is not None or self.is_paused or self.queue or self.gathered or self.controls or self.behind
        )

    @property
    def is_transparent(self) -> bool:
        """Does what comes next go on as it comes, with nothing before it?"""
        if not self.is_empty or self.put_off:
            return False
        return self.rest is Rest.BEGINS or (self.rest is Rest.PASSES and self.left is None)

    @property
    def is_waiting(self) -> bool:
        return self.waiting is not None

    @property
    def is_held(self) -> bool:
        """Is a command held for an operator, and not only delayed?"""
        return self.waiting is not None and self.waiting.hold is not None

    def gather(self, frame: Frame) -> None:
        self.gathered.append(frame)
        self.gathered_size += frame.size
        self._load.add(cost([frame]))

    def take_gathered(self) -> list[Frame]:
        frames, self.gathered = self.gathered, []
        self.gathered_size = 0
        self._load.remove(cost(frames))
        return frames

    def put_behind(self, frame: Frame) -> None:
        """A control waits for the command that is gathered."""
        self.behind.append(frame)
        self._load.add(cost([frame]))

    def queue_behind(self) -> None:
        """Let the controls that came behind the gathered command go before all that came after it."""
        frames, self.behind = self.behind, []
        self.queue.extendleft([(frame, 0) for frame in reversed(frames)])  # they count for the load already

    def keep(self, frame: Frame) -> None:
        """A frame is kept by the legs until the end of its control or command; of a body, they keep none."""
        track = frame.track
        if frame.ends_assembly:
            self._load.remove(self.kept[track])
            self.kept[track] = 0
        elif frame.kind != BODY:
            size = cost([frame])
            self.kept[track] += size
            self._load.add(size)

    def enqueue(self, frame: Frame, position: int) -> None:
        self.queue.append((frame, position))
        self._load.add(cost([frame]))

    def dequeue(self) -> tuple[Frame, int]:
        frame, position = self.queue.popleft()
        self._load.remove(cost([frame]))
        return frame, position

    def stale(self) -> Path:
        """Return a path that goes on with the queue of this one, from its next attach on."""
        path = Path(self.sender, self._load)
        path.queue = self.take_queue()
        path.is_stale = bool(path.queue)
        return path

    def wait(self, waiting: WaitingCommand) -> None:
        self.waiting = waiting
        self._load.add(waiting.cost)

    def wake(self) -> WaitingCommand | None:
        """What has waited, if something has; it does no longer."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self._load.remove(waiting.cost)
        return waiting

    def take_queue(self) -> deque[tuple[Frame, int]]:
        """Everything queued, which still counts for the load."""
        queue, self.queue = self.queue, deque()
        return queue

    def clear(self) -> None:
        """Forget all that has not gone on."""
        waiting = self.wake()
        if waiting is not None and waiting.timer is not None:
            waiting.timer.cancel()
        self.take_gathered()
        self._load.remove(cost(self.behind) + sum(self.kept))
        self._load.remove(cost([frame for frame, _ in self.take_queue()]))
        self.is_paused = False
        self.behind, self.controls = [], []
        self.kept = [0, 0]


class ChannelPaths:
    """One channel. `insertions` are, by the sender, our commands among those of its session.

    While we close its session, `closing` are the peers that have yet to detach. What the client sends on the channel
    after it has, waits in `reopening` for the other. `destinations` are the subscriptions that rules have renamed.
    `cost` is what the session costs of memory, in bytes: once it `is_named`, with its name.
    """

    __slots__ = (
        "_load",
        "awaited_deletes",
        "closing",
        "cost",
        "destinations",
        "directions",
        "insertions",
        "is_named",
        "number",
        "own_timeouts",
        "reopening",
    )

    def __init__(self, number: int, loads: dict[Peer, QueuedBytes]) -> None:
        self.number = number
        self.directions = {peer: Path(peer, loads[peer]) for peer in Peer}
        self.insertions = {peer: CommandInsertions() for peer in Peer}
        self.awaited_deletes = AwaitedDeletes()
        self.closing: set[Peer] | None = None
        self._load = loads[Peer.CLIENT]
        self.reopening: deque[tuple[Frame, int]] = deque()
        self.destinations = RenamedDestinations(loads[Peer.CLIENT])
        self.own_timeouts = 0
        self.cost = 0
        self.is_named = False

    def keep_for_next(self, frame: Frame, position: int) -> None:
        """Queue a frame that the client has sent on the next session of this channel."""
        self.reopening.append((frame, position))
        self._load.add(cost([frame]))

    @property
    def is_transparent(self) -> bool:
        """Does all that comes go on as it comes, under the same names and ids?"""
        return (
            self.closing is None
            and not (self.reopening or self.destinations or self.own_timeouts or self.awaited_deletes)
            and not any(self.insertions.values())
            and all(path.is_transparent for path in self.directions.values())
        )
