"""Delayed, held, queued and postponed commands of one connection."""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sized
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import AccessRefused, Scope, reply_text
from amqproxy.peer import Peer
from amqproxy.proxy.interception.actions import Actions
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.proxy.timers import Timer, Timers
from amqproxy.rules.verdict import Close, Verdict

TURN = 16
"""Maximum of delayed or queued commands and frames processed between two looks at the time."""


class Direction(Protocol):
    """One direction of a channel: its sender's frames that have not been forwarded."""

    is_paused: bool

    @property
    def sender(self) -> Peer: ...

    @property
    def queue(self) -> Sized: ...

    @property
    def waiting(self) -> WaitingCommand | None: ...

    @property
    def is_waiting(self) -> bool: ...

    @property
    def is_held(self) -> bool: ...

    def wait(self, waiting: WaitingCommand) -> None:
        """Delay or hold a command with its verdict, and queue everything behind it."""

    def wake(self) -> WaitingCommand | None:
        """Remove and return the delayed or held command, if there is one."""

    def clear(self) -> None:
        """Drop everything that has not been forwarded."""


class Channel(Protocol):
    """A channel between the legs, as far as delayed commands need it."""

    @property
    def number(self) -> int: ...

    @property
    def directions(self) -> Any:
        """Both directions, by their sender."""

    def may_go_on(self, direction: Any) -> bool:
        """Whether the first queued frame may be processed, or must wait for a pause or for other channels."""

    def next_queued(self, direction: Any) -> Actions:
        """Process the first queued frame."""

    def resume(self, direction: Any, waiting: WaitingCommand) -> Actions:
        """Carry out the verdict of a delayed or held command that is due."""


C = TypeVar("C", bound=Channel)
D = TypeVar("D", bound=Direction)


class Step(NamedTuple, Generic[C]):
    """The processing of one command or frame of `sender`: `actions` returns the actions of its channel."""

    sender: Peer
    channel: C
    actions: Callable[[], Actions]


Steps = Iterator[Step[C]]
"""The steps of a turn. Each is carried out before the next one is requested; none after the connection ends."""

Refused = tuple[Peer, Command, Verdict]


class DelayedCommands(Generic[C, D]):
    """The delayed and held commands, and their timers, with the channel and direction of each.

    `waiting` are those with a verdict, by number. `resuming` are directions whose queue only waits for its turn,
    `paused` those in which no command begins. `refused` collects held commands that were refused at their timeout. A
    turn ends after `TURN` commands, however they were triggered; `next_deadline` is the present while more are left.
    `out_of_bounds` makes the error for too many timers.
    """

    def __init__(self, out_of_bounds: Callable[[str], Exception]) -> None:
        self._out_of_bounds = out_of_bounds
        self.waiting: dict[int, tuple[C, D]] = {}
        self.resuming: OrderedDict[D, C] = OrderedDict()  # pops its first entry in constant time
        self.paused: dict[D, C] = {}
        self.refused: list[Refused] = []
        self._to_release: deque[tuple[C, D, int]] = deque()
        self._left = TURN
        self._now = 0.0
        self._timers = Timers()
        self._numbers = itertools.count(1)

    def clear(self) -> None:
        """Drop all delayed, held and queued commands, at the end of the connection."""
        for direction in {direction for _, direction in self.waiting.values()} | {*self.resuming, *self.paused}:
            direction.clear()
        self.end()

    def end(self) -> None:
        """Drop all references, so that the commands are freed at once."""
        self.waiting.clear()
        self.resuming.clear()
        self.paused.clear()
        self._to_release.clear()
        self._timers = Timers()

    def begin_turn(self, now: float) -> None:
        """Begin a turn; `now` is in seconds."""
        self._left = TURN
        self._now = now

    @property
    def is_idle(self) -> bool:
        """Whether no command, queue, pause or timer is pending."""
        return not (self.waiting or self.resuming or self.paused or len(self._timers))

    @property
    def next_deadline(self) -> float:
        """Time at which `tick` is due next, in seconds."""
        return self._now if self.resuming or self._to_release else self._timers.next_deadline

    def holds_up(self, sender: Peer) -> bool:
        """Whether any frame of the sender is delayed, held or queued."""
        if any(direction.sender is sender for _, direction in self.waiting.values()):
            return True
        if any(direction.sender is sender and direction.queue for direction in self.paused):
            return True
        return any(direction.sender is sender for direction in self.resuming)

    # --- pausing

    def pause(self, channel: C, direction: D) -> None:
        """Pause a direction: its commands are queued from the next one on."""
        direction.is_paused = True
        self.paused[direction] = channel

    def end_pauses(self, ended: C | None = None) -> None:
        """End the pauses of a channel, or of all; their queues are processed from the next `tick` on."""
        for direction, channel in list(self.paused.items()):
            if ended is None or channel is ended:
                del self.paused[direction]
                direction.is_paused = False
                self.resume(channel, direction)

    # --- waiting

    def wait(self, channel: C, direction: D, waiting: WaitingCommand) -> int:
        """Delay or hold a command, and everything behind it, until it is due or released; return its number."""
        number = next(self._numbers)
        waiting.begin(number, self._now)
        direction.wait(waiting)
        self.waiting[number] = (channel, direction)
        waiting.timer = self._at(waiting.until, lambda: self._time_out(*self.waiting[number]))
        return number

    def drop(self, direction: D) -> None:
        """Drop everything that has not been forwarded in a direction."""
        if direction.waiting is not None:
            del self.waiting[direction.waiting.number]
        self.resuming.pop(direction, None)
        self.paused.pop(direction, None)
        direction.clear()

    def move(self, direction: D, channel: C) -> None:
        """Reassign a direction, with everything delayed or queued in it, to another channel."""
        if direction.waiting is not None:
            self.waiting[direction.waiting.number] = (channel, direction)
        if direction in self.paused:
            self.paused[direction] = channel
        self.resuming.pop(direction, None)
        self.resume(channel, direction)

    def at(self, after: float, sender: Peer, channel: C, actions: Callable[[], Actions]) -> Timer:
        """Return a timer for `actions` of a channel in `after` seconds, attributed to `sender`."""
        return self._at(self._now + after, lambda: iter((Step(sender, channel, actions),)))

    def _at(self, when: float, do: Callable[[], Steps[C]]) -> Timer:
        try:
            return self._timers.at(when, do)
        except OverflowError as error:
            raise self._out_of_bounds(str(error)) from None

    # --- continuing

    def tick(self, now: float) -> Steps[C]:
        """Process queues and the delayed commands that are due, up to the limit of one turn."""
        yield from self.go_on_releasing()
        yield from self.go_on_resuming()
        while self._left > 0 and (do := self._timers.take_due(now)) is not None:
            self._left -= 1
            yield from do()

    def release(self, number: int, verdict: Verdict | None) -> Steps[C]:
        """Process a held command, with a replacement verdict if given. Raises `KeyError` if it is not held."""
        channel, direction = self.waiting[number]
        assert direction.waiting is not None
        if verdict is not None:
            direction.waiting.verdict = verdict
        return self._wake(channel, direction)

    def release_all(self, sender: Peer | None = None) -> None:
        """Start processing everything delayed, held or queued, or only that of `sender`; clients' pauses end.

        Held commands are treated as timed out. Frames that the sender adds meanwhile may have to wait again, since it
        could go on sending for ever.
        """
        if sender is not Peer.SERVER:
            self.end_pauses()
        waiting = [*self.waiting.values(), *((channel, direction) for direction, channel in self.resuming.items())]
        for channel, direction in waiting:
            if sender is None or direction.sender is sender:
                self._to_release.append((channel, direction, 1 + len(direction.queue)))

    @property
    def is_releasing(self) -> bool:
        """Whether `go_on_releasing` or `go_on_resuming` must be called again."""
        return bool(self._to_release or self.resuming)

    def go_on_releasing(self) -> Steps[C]:
        """Continue the release begun by `release_all` for one turn."""
        while self._to_release and self._left > 0:
            channel, direction, most = self._to_release[0]
            if most > 0 and direction.waiting is not None:
                self._to_release[0] = channel, direction, most - 1  # at least one command is processed each time
                self._left -= 1
                yield from self._time_out(*self.waiting[direction.waiting.number])
            elif most > 0 and direction in self.resuming:
                yield from self.go_on(self.resuming.pop(direction), direction)
                if direction.waiting is None and self._to_release:  # otherwise counted when that is processed
                    self._to_release[0] = channel, direction, most - 1
            else:
                self._to_release.popleft()

    def resume(self, channel: C, direction: D) -> None:
        """Schedule a queue for the following turns, unless a delayed or held command is before it."""
        if direction.queue and not direction.is_waiting:
            self.resuming[direction] = channel

    def go_on_resuming(self) -> Steps[C]:
        """Process, for one turn, the queues that have nothing delayed or held before them."""
        while self.resuming and self._left > 0:
            direction, channel = self.resuming.popitem(last=False)
            yield from self.go_on(channel, direction)

    def go_on(self, channel: C, direction: D) -> Steps[C]:
        """Process a queue up to its next delayed or held command; schedule what exceeds the turn for the next one."""
        while direction.queue and not direction.is_waiting and channel.may_go_on(direction):
            self._left -= 1
            if self._left < 0:
                self.resuming[direction] = channel
                return
            yield Step(direction.sender, channel, partial(channel.next_queued, direction))

    def _wake(self, channel: C, direction: D) -> Steps[C]:
        """Process the delayed or held command of a direction, and the queue behind it."""
        waiting = direction.wake()
        assert waiting is not None
        if waiting.timer is not None:
            waiting.timer.cancel()
        del self.waiting[waiting.number]
        yield Step(direction.sender, channel, partial(channel.resume, direction, waiting))
        yield from self.go_on(channel, direction)

    def _time_out(self, channel: C, direction: D) -> Steps[C]:
        """Process a delayed or held command, or refuse a held one that must not pass at its timeout."""
        waiting = direction.waiting
        assert waiting is not None
        hold = waiting.hold
        if hold is not None and not hold.passes_at_timeout:
            text = reply_text(AccessRefused.code, f"held by rule '{hold.name}', and not released in time")
            close = Close(Scope.CHANNEL, AccessRefused.code, text)
            waiting.verdict = Verdict(command=None, close=close, marks=(hold.name,), tags=waiting.verdict.tags)
            self.refused.append((direction.sender, waiting.original, waiting.verdict))
        yield from self._wake(channel, direction)
