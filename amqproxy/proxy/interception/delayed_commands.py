"""What waits on one connection of either protocol: for its time, its release, its turn, or to be overtaken."""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Sized
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import AccessRefused, Scope, reply_text
from amqproxy.peer import Peer
from amqproxy.proxy.interception.effects import InterceptorEffects
from amqproxy.proxy.timers import Timer, Timers
from amqproxy.rules.verdict import Close, HoldAction, Verdict

TURN = 64
"""Commands and frames that go on in one turn of what has waited; the rest goes on in the next."""


class Waiting(Protocol):
    """A command that waits with its verdict, as either protocol keeps it."""

    number: int
    since: float
    until: float
    verdict: Verdict
    timer: Timer | None

    @property
    def hold(self) -> HoldAction | None: ...

    @property
    def original(self) -> Command: ...

    def begin(self, number: int, now: float) -> None:
        """Note its number, and when it begins to wait."""


class Direction(Protocol):
    """One direction of a channel: what its sender has sent that has not gone on."""

    is_paused: bool

    @property
    def sender(self) -> Peer: ...

    @property
    def queue(self) -> Sized: ...

    @property
    def waiting(self) -> Waiting | None: ...

    @property
    def is_waiting(self) -> bool: ...

    @property
    def is_held(self) -> bool: ...

    def wait(self, waiting: Any) -> None:
        """Have a command wait, and all behind it."""

    def wake(self) -> Any:
        """What has waited, if something has; it does no longer."""

    def clear(self) -> None:
        """Drop all that has not gone on."""


C = TypeVar("C")
D = TypeVar("D", bound=Direction)
C_contra = TypeVar("C_contra", contravariant=True)
D_contra = TypeVar("D_contra", bound=Direction, contravariant=True)


class Owner(Protocol[C_contra, D_contra]):
    """The interceptor, as far as it is needed here."""

    now: float

    @property
    def is_over(self) -> bool:
        """Does the connection have to end? Then nothing more goes on."""

    @property
    def effects(self) -> InterceptorEffects: ...

    def blaming(self, sender: Peer) -> AbstractContextManager[None]:
        """End the connection for a protocol error in what waited: its sender's fault, whatever let it go on."""

    def settle(self, channel: C_contra, direction: D_contra, waiting: Any) -> None:
        """Carry out the verdict of a command that has waited."""

    def may_go_on(self, direction: D_contra) -> bool:
        """Whether the first frame of a queue may be processed, or stays behind a pause or other channels."""

    def process_next(self, channel: C_contra, direction: D_contra) -> None:
        """Process the first frame of a queue."""


class DelayedCommands(Generic[C, D]):
    """The commands that wait, and their timers, by the channel and the direction in which each waits with its queue.

    `waiting` are those with a verdict, by a number of each. `resuming` are directions in which nothing waits but for
    its turn, `paused` those in which nothing begins. A turn ends after `TURN` commands, on whichever path they go on;
    `next_deadline` is now while more are left. `out_of_bounds` is raised where there are too many timers.
    """

    def __init__(self, owner: Owner[C, D], out_of_bounds: Callable[[str], Exception]) -> None:
        self._owner = owner
        self._out_of_bounds = out_of_bounds
        self.waiting: dict[int, tuple[C, D]] = {}
        self.resuming: OrderedDict[D, C] = OrderedDict()  # its first is found at once
        self.paused: dict[D, C] = {}
        self._to_release: deque[tuple[C, D, int]] = deque()
        self._left = TURN
        self._timers = Timers()
        self._numbers = itertools.count(1)

    def clear(self) -> None:
        """Drop everything that waits: the connection is over."""
        for direction in {direction for _, direction in self.waiting.values()} | {*self.resuming, *self.paused}:
            direction.clear()
        self._forget()

    def end(self) -> None:
        """Drop every reference, also to the owner, so that it is freed at once."""
        self._forget()
        del self._owner

    def _forget(self) -> None:
        self.waiting.clear()
        self.resuming.clear()
        self.paused.clear()
        self._to_release.clear()
        self._timers = Timers()

    def begin_turn(self) -> None:
        self._left = TURN

    @property
    def is_idle(self) -> bool:
        """Is there nothing to be done later?"""
        return not (self.waiting or self.resuming or self.paused or len(self._timers))

    def next_deadline(self, now: float) -> float:
        """When `tick` will next have something to do, in seconds."""
        if (self.resuming or self._to_release) and not self._owner.is_over:
            return now
        return self._timers.next_deadline

    def holds_up(self, sender: Peer) -> bool:
        """Does anything of the sender's wait here?"""
        if any(direction.sender is sender for _, direction in self.waiting.values()):
            return True
        if any(direction.sender is sender and direction.queue for direction in self.paused):
            return True
        return any(direction.sender is sender for direction in self.resuming)

    # --- to pause

    def pause(self, channel: C, direction: D) -> None:
        """Let nothing begin in a direction, from the next command on."""
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

    def wait(self, channel: C, direction: D, waiting: Waiting) -> None:
        """Have a command wait, and all behind it, until its time has come or it is released."""
        owner = self._owner
        number = next(self._numbers)
        waiting.begin(number, owner.now)
        direction.wait(waiting)
        self.waiting[number] = (channel, direction)
        if direction.is_held:
            owner.effects.held.append(number)
        waiting.timer = self.at(waiting.until, direction.sender, lambda: self._time_out(*self.waiting[number]))

    def drop(self, direction: D) -> None:
        """Forget what has not gone on."""
        if direction.waiting is not None:
            del self.waiting[direction.waiting.number]
        self.resuming.pop(direction, None)
        self.paused.pop(direction, None)
        direction.clear()

    def move(self, direction: D, channel: C) -> None:
        """Have what waits in a direction go on as part of another channel."""
        if direction.waiting is not None:
            self.waiting[direction.waiting.number] = (channel, direction)
        if direction in self.paused:
            self.paused[direction] = channel
        self.resuming.pop(direction, None)
        self.resume(channel, direction)

    def at(self, when: float, sender: Peer, do: Callable[[], None]) -> Timer:
        """Have something done at `when`, in seconds, because of what `sender` has sent."""

        def blaming() -> None:
            with self._owner.blaming(sender):
                do()

        try:
            return self._timers.at(when, blaming)
        except OverflowError as error:
            raise self._out_of_bounds(str(error)) from None

    # --- to go on

    def tick(self, now: float) -> None:
        """Let go on what has waited long enough, or as much of it as goes on in one turn."""
        owner = self._owner
        self.go_on_releasing()
        self.go_on_resuming()
        while not owner.is_over and self._left > 0 and (do := self._timers.take_due(now)) is not None:
            self._left -= 1
            do()

    def release(self, number: int, verdict: Verdict | None) -> None:
        """Let a command go on that is held, with another verdict if one is given. `KeyError` when it is not held."""
        channel, direction = self.waiting[number]
        assert direction.waiting is not None
        if verdict is not None:
            direction.waiting.verdict = verdict
        self._wake(channel, direction)

    def release_all(self, sender: Peer | None = None) -> None:
        """Begin to let everything go on that waits now, or what `sender` has sent of it; pauses, of clients, end.

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
        return bool(self._to_release)

    def go_on_releasing(self) -> None:
        """One turn of what `release_all` has begun."""
        while self._to_release and self._left > 0 and not self._owner.is_over:
            channel, direction, most = self._to_release[0]
            if most > 0 and direction.waiting is not None:
                self._to_release[0] = channel, direction, most - 1  # each time, one that waited then goes on at least
                self._left -= 1
                self._time_out(*self.waiting[direction.waiting.number])
            elif most > 0 and direction in self.resuming:
                self.go_on(self.resuming.pop(direction), direction)
                if direction.waiting is None and self._to_release:  # else it counts when that goes on
                    self._to_release[0] = channel, direction, most - 1
            else:
                self._to_release.popleft()

    def resume(self, channel: C, direction: D) -> None:
        """Have a queue go on with the turns that come, unless a command still waits before it."""
        if direction.queue and not direction.is_waiting:
            self.resuming[direction] = channel

    def go_on_resuming(self) -> None:
        """One turn of the directions that nothing holds up any more."""
        while self.resuming and self._left > 0 and not self._owner.is_over:
            direction, channel = self.resuming.popitem(last=False)
            self.go_on(channel, direction)

    def go_on(self, channel: C, direction: D) -> None:
        """Process what waited behind something, up to the next command that waits; the excess, in the next turn."""
        if not direction.queue:
            return
        owner = self._owner
        with owner.blaming(direction.sender):
            while direction.queue and not direction.is_waiting and not owner.is_over:
                if not owner.may_go_on(direction):
                    return
                self._left -= 1
                if self._left < 0:
                    self.resuming[direction] = channel
                    return
                owner.process_next(channel, direction)

    def _wake(self, channel: C, direction: D) -> None:
        """Let what waits in a direction go on, and what came behind it."""
        waiting = direction.wake()
        assert waiting is not None
        if waiting.timer is not None:
            waiting.timer.cancel()
        del self.waiting[waiting.number]
        with self._owner.blaming(direction.sender):
            self._owner.settle(channel, direction, waiting)
        self.go_on(channel, direction)

    def _time_out(self, channel: C, direction: D) -> None:
        """Let what waits go on, or refuse it if it was held and is not to pass at its timeout."""
        waiting = direction.waiting
        assert waiting is not None
        hold = waiting.hold
        if hold is not None and not hold.passes_at_timeout:
            text = reply_text(AccessRefused.code, f"held by rule '{hold.name}', and not released in time")
            close = Close(Scope.CHANNEL, AccessRefused.code, text)
            waiting.verdict = Verdict(command=None, close=close, marks=(hold.name,), tags=waiting.verdict.tags)
            self._owner.effects.refused.append((direction.sender, waiting.original, waiting.verdict))
        self._wake(channel, direction)
