"""What waits on one connection: for its time, its release, its turn, or to be overtaken."""

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

TURN = 64
"""Commands and frames that go on in one turn of what has waited; the rest goes on in the next."""


class Direction(Protocol):
    """One direction of a channel: what its sender has sent that has not been forwarded."""

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
        """Queue a command with its verdict, and everything behind it."""

    def wake(self) -> WaitingCommand | None:
        """Return the command that has waited, if there is one: it waits no longer."""

    def clear(self) -> None:
        """Drop all that has not been forwarded."""


class Channel(Protocol):
    """A channel between the legs, as far as what waits on it is concerned."""

    @property
    def number(self) -> int: ...

    @property
    def directions(self) -> Any:
        """Both directions, by their sender."""

    def may_go_on(self, direction: Any) -> bool:
        """Whether the first frame of a queue may be processed, or stays behind a pause or other channels."""

    def next_queued(self, direction: Any) -> Actions:
        """Process the first frame of a queue."""

    def resume(self, direction: Any, waiting: WaitingCommand) -> Actions:
        """Carry out the verdict of a command that has waited."""


C = TypeVar("C", bound=Channel)
D = TypeVar("D", bound=Direction)


class Step(NamedTuple, Generic[C]):
    """One command or frame that goes on: `actions` returns what its channel wants done; `sender` sent it."""

    sender: Peer
    channel: C
    actions: Callable[[], Actions]


Steps = Iterator[Step[C]]
"""What goes on in a turn. Each step is carried out before the next one is asked for; none after the connection ends."""

Refused = tuple[Peer, Command, Verdict]


class DelayedCommands(Generic[C, D]):
    """The commands that wait, and their timers, by the channel and the direction in which each waits with its queue.

    `waiting` are those with a verdict, by a number of each. `resuming` are directions in which nothing waits but for
    its turn, `paused` those in which nothing begins. `refused` collects what an operator has not released in time. A
    turn ends after `TURN` commands, on whichever path they go on; `next_deadline` is now while more are left.
    `out_of_bounds` is raised where there are too many timers.
    """

    def __init__(self, out_of_bounds: Callable[[str], Exception]) -> None:
        self._out_of_bounds = out_of_bounds
        self.waiting: dict[int, tuple[C, D]] = {}
        self.resuming: OrderedDict[D, C] = OrderedDict()  # its first is found at once
        self.paused: dict[D, C] = {}
        self.refused: list[Refused] = []
        self._to_release: deque[tuple[C, D, int]] = deque()
        self._left = TURN
        self._now = 0.0
        self._timers = Timers()
        self._numbers = itertools.count(1)

    def clear(self) -> None:
        """Drop everything that waits: the connection is over."""
        for direction in {direction for _, direction in self.waiting.values()} | {*self.resuming, *self.paused}:
            direction.clear()
        self.end()

    def end(self) -> None:
        """Drop every reference, so that what waited is freed at once."""
        self.waiting.clear()
        self.resuming.clear()
        self.paused.clear()
        self._to_release.clear()
        self._timers = Timers()

    def begin_turn(self, now: float) -> None:
        """Begin a turn, at a time in seconds."""
        self._left = TURN
        self._now = now

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done later."""
        return not (self.waiting or self.resuming or self.paused or len(self._timers))

    @property
    def next_deadline(self) -> float:
        """When `tick` will next have something to do, in seconds."""
        return self._now if self.resuming or self._to_release else self._timers.next_deadline

    def holds_up(self, sender: Peer) -> bool:
        """Whether anything of the sender's waits here."""
        if any(direction.sender is sender for _, direction in self.waiting.values()):
            return True
        if any(direction.sender is sender and direction.queue for direction in self.paused):
            return True
        return any(direction.sender is sender for direction in self.resuming)

    # --- to pause

    def pause(self, channel: C, direction: D) -> None:
        """Begin nothing in a direction, from the next command on."""
        direction.is_paused = True
        self.paused[direction] = channel

    def end_pauses(self, ended: C | None = None) -> None:
        """Resume a channel, or all: what waits there goes on from the next `tick` on."""
        for direction, channel in list(self.paused.items()):
            if ended is None or channel is ended:
                del self.paused[direction]
                direction.is_paused = False
                self.resume(channel, direction)

    # --- to wait

    def wait(self, channel: C, direction: D, waiting: WaitingCommand) -> int:
        """Queue a command, and all behind it, until its time has come or it is released; return its number."""
        number = next(self._numbers)
        waiting.begin(number, self._now)
        direction.wait(waiting)
        self.waiting[number] = (channel, direction)
        waiting.timer = self._at(waiting.until, lambda: self._time_out(*self.waiting[number]))
        return number

    def drop(self, direction: D) -> None:
        """Forget what has not been forwarded."""
        if direction.waiting is not None:
            del self.waiting[direction.waiting.number]
        self.resuming.pop(direction, None)
        self.paused.pop(direction, None)
        direction.clear()

    def move(self, direction: D, channel: C) -> None:
        """Make what waits in a direction a part of another channel."""
        if direction.waiting is not None:
            self.waiting[direction.waiting.number] = (channel, direction)
        if direction in self.paused:
            self.paused[direction] = channel
        self.resuming.pop(direction, None)
        self.resume(channel, direction)

    def at(self, after: float, sender: Peer, channel: C, actions: Callable[[], Actions]) -> Timer:
        """Return a timer that has a channel do something `after` so many seconds, because of what `sender` has sent."""
        return self._at(self._now + after, lambda: iter((Step(sender, channel, actions),)))

    def _at(self, when: float, do: Callable[[], Steps[C]]) -> Timer:
        try:
            return self._timers.at(when, do)
        except OverflowError as error:
            raise self._out_of_bounds(str(error)) from None

    # --- to go on

    def tick(self, now: float) -> Steps[C]:
        """Send on what has waited long enough, or as much of it as goes on in one turn."""
        yield from self.go_on_releasing()
        yield from self.go_on_resuming()
        while self._left > 0 and (do := self._timers.take_due(now)) is not None:
            self._left -= 1
            yield from do()

    def release(self, number: int, verdict: Verdict | None) -> Steps[C]:
        """Send on a held command, with another verdict if one is given. `KeyError` when it is not held."""
        channel, direction = self.waiting[number]
        assert direction.waiting is not None
        if verdict is not None:
            direction.waiting.verdict = verdict
        return self._wake(channel, direction)

    def release_all(self, sender: Peer | None = None) -> None:
        """Begin to send on everything that waits now, or what `sender` has sent of it; pauses, of clients, end.

        What is held goes on as if its timeout had passed. What its sender sends meanwhile may have to wait again: it
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
        """Whether `go_on_releasing` or `go_on_resuming` has something left to do."""
        return bool(self._to_release or self.resuming)

    def go_on_releasing(self) -> Steps[C]:
        """Continue what `release_all` has begun, for one turn."""
        while self._to_release and self._left > 0:
            channel, direction, most = self._to_release[0]
            if most > 0 and direction.waiting is not None:
                self._to_release[0] = channel, direction, most - 1  # each time, one that waited then goes on at least
                self._left -= 1
                yield from self._time_out(*self.waiting[direction.waiting.number])
            elif most > 0 and direction in self.resuming:
                yield from self.go_on(self.resuming.pop(direction), direction)
                if direction.waiting is None and self._to_release:  # else it counts when that goes on
                    self._to_release[0] = channel, direction, most - 1
            else:
                self._to_release.popleft()

    def resume(self, channel: C, direction: D) -> None:
        """Have a queue go on with the turns that come, unless a command still waits before it."""
        if direction.queue and not direction.is_waiting:
            self.resuming[direction] = channel

    def go_on_resuming(self) -> Steps[C]:
        """Send on, for one turn, what is queued in directions that nothing holds up any more."""
        while self.resuming and self._left > 0:
            direction, channel = self.resuming.popitem(last=False)
            yield from self.go_on(channel, direction)

    def go_on(self, channel: C, direction: D) -> Steps[C]:
        """Process what waited behind something, up to the next command that waits; the excess, in the next turn."""
        while direction.queue and not direction.is_waiting and channel.may_go_on(direction):
            self._left -= 1
            if self._left < 0:
                self.resuming[direction] = channel
                return
            yield Step(direction.sender, channel, partial(channel.next_queued, direction))

    def _wake(self, channel: C, direction: D) -> Steps[C]:
        """Send on the command that waits in a direction, and what came behind it."""
        waiting = direction.wake()
        assert waiting is not None
        if waiting.timer is not None:
            waiting.timer.cancel()
        del self.waiting[waiting.number]
        yield Step(direction.sender, channel, partial(channel.resume, direction, waiting))
        yield from self.go_on(channel, direction)

    def _time_out(self, channel: C, direction: D) -> Steps[C]:
        """Send on what waits, or refuse it if it was held and is not to pass at its timeout."""
        waiting = direction.waiting
        assert waiting is not None
        hold = waiting.hold
        if hold is not None and not hold.passes_at_timeout:
            text = reply_text(AccessRefused.code, f"held by rule '{hold.name}', and not released in time")
            close = Close(Scope.CHANNEL, AccessRefused.code, text)
            waiting.verdict = Verdict(command=None, close=close, marks=(hold.name,), tags=waiting.verdict.tags)
            self.refused.append((direction.sender, waiting.original, waiting.verdict))
        yield from self._wake(channel, direction)
