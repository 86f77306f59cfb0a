"""One channel between the legs: gathered, delayed and queued frames of each sender, and the content in progress."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from enum import Enum, auto

import msgspec

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.frame import BODY, Frame
from amqproxy.amqp091.commands import Command
from amqproxy.conversion.amqp010.awaited_deletes import AwaitedDeletes
from amqproxy.peer import Peer
from amqproxy.proxy.amqp010.interception.command_insertions import CommandInsertions
from amqproxy.proxy.amqp010.interception.renamed_destinations import RenamedDestinations
from amqproxy.proxy.interception.actions import Actions
from amqproxy.proxy.interception.queued_bytes import FRAME_COST, QueuedBytes
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.taps.note import NOTHING, Note


class Rest(Enum):
    """Treatment of the next frames on the command track."""

    BEGINS = auto()
    """No command is in progress."""
    IS_GATHERED = auto()
    PASSES = auto()
    IS_SWALLOWED = auto()


class Pending:
    """A control or command under evaluation: its `frames` received so far, and its `view` as a 0-9-1 command.

    `position` is a command's position in its session.
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
    """The client's command at `position`, or with this `index`, for which the session `name` is closed.

    Without a name, it is the client's session on the channel.
    """

    position: int | None = None
    index: int = -1
    name: bytes | None = None


def cost(frames: Iterable[Frame]) -> int:
    """Return the bytes charged for these frames while they are kept."""
    return sum([frame.length() + FRAME_COST for frame in frames])


class Path:
    """The frames of one peer on one channel.

    `is_mid` is true while the receiver has only a part of a command; actions `put_off` are carried out at its end.
    Controls received while a command is gathered are queued `behind` it; `gathered_size` is the size of that command's
    payloads so far. `left` is the number of body bytes that may still come if rules have relied on the size in the
    header; `kept` are the bytes of an incomplete control and of an incomplete command. While it `is_paused`, the next
    command and everything behind it is queued; `passes_control` forwards the rest of a control that began before there
    were rules. Once it `has_detached`, the peer's frames belong to the next session; from a queue that `is_stale`,
    frames are dropped up to the attach of that session.
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
        """Whether new frames must be queued behind others."""
        return self.waiting is not None or bool(self.queue) or self.is_at_pause

    @property
    def is_at_pause(self) -> bool:
        """Whether the path is paused and no command or control in progress has to be completed first."""
        return self.is_paused and self.rest is Rest.BEGINS and not self.controls and not self.passes_control

    @property
    def is_empty(self) -> bool:
        """Whether nothing of what the peer has sent is kept or queued."""
        return not (
            self.waiting is not None or self.is_paused or self.queue or self.gathered or self.controls or self.behind
        )

    def unshown_from(self) -> float | None:
        """Return the position from which on message.transfers are gathered, delayed, held or queued, or infinity.

        Taps are shown them later. `None` if they will be shown other commands or controls, too.
        """
        if self.behind or self.controls or self.has_detached or self.is_stale or self.rest is Rest.IS_SWALLOWED:
            return None
        first = [] if self.waiting is None else [(self.waiting.received.frames[0], self.waiting.received.position)]
        first += [(frame, self.position) for frame in self.gathered[:1]]
        first += [(frame, position) for frame, position in self.queue if frame.begins_assembly]
        if any(frame.index != MessageTransfer.index for frame, _ in first) or (self.queue and not first):
            return None
        return min([position for _, position in first], default=math.inf)

    @property
    def is_transparent(self) -> bool:
        """Whether the next frame is forwarded unchanged, with nothing before it."""
        if not self.is_empty or self.put_off:
            return False
        return self.rest is Rest.BEGINS or (self.rest is Rest.PASSES and self.left is None)

    @property
    def is_waiting(self) -> bool:
        return self.waiting is not None

    @property
    def is_held(self) -> bool:
        """Whether a command is held for an operator, and not only delayed."""
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
        """Queue a control behind the gathered command."""
        self.behind.append(frame)
        self._load.add(cost([frame]))

    def queue_behind(self) -> None:
        """Move the controls behind the gathered command to the front of the queue."""
        frames, self.behind = self.behind, []
        self.queue.extendleft([(frame, 0) for frame in reversed(frames)])  # charged to the load already

    def keep(self, frame: Frame) -> None:
        """Charge a frame that the legs keep until the end of its control or command; they keep no body frames."""
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
        """Return a path that continues with this one's queue, from its next attach on."""
        path = Path(self.sender, self._load)
        path.queue = self.take_queue()
        path.is_stale = bool(path.queue)
        return path

    def wait(self, waiting: WaitingCommand) -> None:
        self.waiting = waiting
        self._load.add(waiting.cost)

    def wake(self) -> WaitingCommand | None:
        """Remove and return the delayed or held command, if there is one."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self._load.remove(waiting.cost)
        return waiting

    def take_queue(self) -> deque[tuple[Frame, int]]:
        """Remove and return the queue, which stays charged to the load."""
        queue, self.queue = self.queue, deque()
        return queue

    def clear(self) -> None:
        """Drop everything that has not been forwarded."""
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
    """One channel. `insertions` are, by the sender, the proxy's commands among those of its session.

    While the proxy closes the session, `closing` are the peers that have yet to detach. Frames that the client sends
    after its own detach are queued in `reopening` until the broker's. `destinations` are the subscriptions that rules
    have renamed. `cost` is the memory charged for the session, in bytes, including its name once it `is_named`.
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
        """Whether all frames can be forwarded unchanged, with the same names and ids."""
        return (
            self.closing is None
            and not (self.reopening or self.destinations or self.own_timeouts or self.awaited_deletes)
            and not any(self.insertions.values())
            and all(path.is_transparent for path in self.directions.values())
        )
