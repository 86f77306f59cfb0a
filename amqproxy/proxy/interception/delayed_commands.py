"""What waits on one connection: for its time, to be released, to be resumed, for its turn, or to be overtaken."""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from amqproxy.amqp091.errors import AccessRefused, ProtocolError, Scope, reply_text
from amqproxy.amqp091.frame import METHOD
from amqproxy.amqp091.methods import ConnectionClose
from amqproxy.amqp091.transitions import Peer
from amqproxy.proxy.interception.channel_direction import ChannelDirection, PostponedDelivery, WaitingCommand
from amqproxy.proxy.interception.channel_interceptor import ChannelInterceptor
from amqproxy.proxy.interception.channel_owner import Actions
from amqproxy.proxy.interception.effects import InterceptorEffects, InterceptorFault
from amqproxy.proxy.interception.tag_translation import within_bounds
from amqproxy.proxy.timers import Timer, Timers
from amqproxy.rules.verdict import Close, Verdict

TURN = 64
"""Commands and frames that go on in one turn of what has waited; the rest goes on in the next."""

MAX_POSTPONED = 1.0
"""Seconds after which a command that others were to overtake goes on, though they did not come."""

Delayed = tuple[ChannelInterceptor, ChannelDirection]
"""The channel and the direction of it in which a command waits, with all that comes behind it there."""


class Owner(Protocol):
    """The interceptor, as far as it is needed here."""

    now: float
    fault: InterceptorFault | None

    @property
    def is_over(self) -> bool:
        """Does the connection have to end? Then nothing more goes on."""

    @property
    def effects(self) -> InterceptorEffects: ...

    def holds_up(self, sender: Peer) -> bool:
        """Does anything of the sender's wait, on any channel?"""

    def do(self, channel: ChannelInterceptor, actions: Actions) -> None:
        """Carry out what a channel wants done."""


class DelayedCommands:
    """The commands that wait, and their timers. `waiting` are those with a verdict, by a number of each.

    `resuming` are directions in which nothing waits but for its turn, `paused` those in which nothing begins.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.waiting: dict[int, Delayed] = {}
        self.resuming: OrderedDict[ChannelDirection, ChannelInterceptor] = OrderedDict()  # its first is found at once
        self.paused: dict[ChannelDirection, ChannelInterceptor] = {}
        self._to_release: deque[Delayed] = deque()
        self._left = TURN
        self._timers = Timers()
        self._numbers = itertools.count(1)

    def clear(self) -> None:
        """The connection is over: nothing goes on any more, and nothing refers to the owner from here."""
        self.waiting.clear()
        self.resuming.clear()
        self.paused.clear()
        self._to_release.clear()
        self._timers = Timers()
        del self._owner

    def begin_turn(self) -> None:
        self._left = TURN

    def next_deadline(self, now: float) -> float:
        """When `tick` will next have something to do, in seconds."""
        return now if self.resuming else self._timers.next_deadline

    def holds_up(self, sender: Peer) -> bool:
        """Does anything of the sender's wait here?"""
        if any(direction.sender is sender for _, direction in self.waiting.values()):
            return True
        if any(direction.sender is sender and direction.queue for direction in self.paused):
            return True
        return any(direction.sender is sender for direction in self.resuming)

    # --- to pause

    def pause(self, channel: ChannelInterceptor, direction: ChannelDirection) -> None:
        """Let nothing begin in a direction, from the next command on."""
        direction.is_paused = True
        self.paused[direction] = channel

    def end_pauses(self, number: int | None = None) -> None:
        """Let go on what waits since its channel is paused: that channel, or all. It goes on in the next `tick`."""
        for direction, channel in list(self.paused.items()):
            if number is None or channel.number == number:
                del self.paused[direction]
                direction.is_paused = False
                if direction.queue and not direction.is_waiting:
                    self.resuming[direction] = channel

    # --- to wait

    def wait(self, channel: ChannelInterceptor, direction: ChannelDirection, waiting: WaitingCommand) -> None:
        """Have a command wait, and all behind it, until its time has come or it is released."""
        owner = self._owner
        waiting.begin(next(self._numbers), owner.now)
        direction.wait(waiting)
        self.waiting[waiting.number] = (channel, direction)
        if direction.is_held:
            owner.effects.held.append(waiting.number)
        waiting.timer = self.at(waiting.until, direction.sender, lambda: self._time_out(channel, direction))

    def postpone(self, channel: ChannelInterceptor, direction: ChannelDirection, postponed: PostponedDelivery) -> None:
        """Have a command go on in the end, though others have not overtaken it."""

        def send() -> None:
            self._owner.do(channel, channel.output.send_postponed(direction, [postponed]))

        postponed.timer = self.at(self._owner.now + MAX_POSTPONED, direction.sender, send)

    def drop(self, direction: ChannelDirection) -> None:
        """Forget what has not gone on."""
        if direction.waiting is not None:
            del self.waiting[direction.waiting.number]
        self.resuming.pop(direction, None)
        self.paused.pop(direction, None)
        direction.clear()

    def at(self, when: float, sender: Peer, do: Callable[[], None]) -> Timer:
        """Have something done at `when`, in seconds, because of what `sender` has sent."""

        def blaming() -> None:
            with self._blaming(sender):
                do()

        return within_bounds(self._timers.at, when, blaming)

    # --- to go on

    def tick(self, now: float) -> None:
        """Let go on what has waited long enough, or as much of it as goes on in one turn."""
        owner = self._owner
        while self.resuming and self._left > 0 and not owner.is_over:
            direction, channel = self.resuming.popitem(last=False)
            self.go_on(channel, direction)
        while not owner.is_over and self._left > 0 and (do := self._timers.take_due(now)) is not None:
            self._left -= 1
            do()

    def release(self, number: int, verdict: Verdict | None) -> None:
        """Let a command go on that is held, with another verdict if one is given. `KeyError` when it is not held."""
        channel, direction = self.waiting[number]
        assert direction.waiting is not None
        if verdict is not None:
            direction.waiting.verdict = verdict
        self._resume(channel, direction)

    def release_all(self) -> None:
        """Begin to let everything go on that waits now; what is held, as if its timeout had passed. Pauses end."""
        self.end_pauses()
        self._to_release += self.waiting.values()
        self._to_release += [(channel, direction) for direction, channel in self.resuming.items()]

    @property
    def is_releasing(self) -> bool:
        return bool(self._to_release)

    def go_on_releasing(self) -> None:
        """One turn of what `release_all` has begun."""
        while self._to_release and self._left > 0 and not self._owner.is_over:
            channel, direction = self._to_release[0]
            if direction.is_waiting:
                self._left -= 1
                self._time_out(channel, direction)
            elif direction in self.resuming:
                del self.resuming[direction]
                self.go_on(channel, direction)
            else:
                self._to_release.popleft()

    def go_on(self, channel: ChannelInterceptor, direction: ChannelDirection) -> None:
        """Do with what waited behind something what is to be done with it, up to the next that waits.

        What is too much for this turn goes on in the next.
        """
        if not direction.queue:
            return
        owner = self._owner
        with self._blaming(direction.sender):
            while direction.queue and not direction.is_waiting and not owner.is_over:
                first = direction.queue[0][0]
                if first.index == ConnectionClose.index and owner.holds_up(direction.sender):
                    return
                if direction.is_paused and first.kind == METHOD:
                    return
                self._left -= 1
                if self._left < 0:
                    self.resuming[direction] = channel
                    return
                owner.do(channel, channel.next_held_up(direction))

    def _resume(self, channel: ChannelInterceptor, direction: ChannelDirection) -> None:
        """Let what waits in a direction go on, and what came behind it."""
        waiting = direction.wake()
        assert waiting is not None
        if waiting.timer is not None:
            waiting.timer.cancel()
        del self.waiting[waiting.number]
        with self._blaming(direction.sender):
            self._owner.do(channel, channel.resume(direction, waiting))
        self.go_on(channel, direction)

    def _time_out(self, channel: ChannelInterceptor, direction: ChannelDirection) -> None:
        """Let what waits go on, or refuse it if it was held and is not to pass at its timeout."""
        waiting = direction.waiting
        assert waiting is not None
        hold = waiting.hold
        if hold is not None and not hold.passes_at_timeout:
            text = reply_text(AccessRefused.code, f"held by rule '{hold.name}', and not released in time")
            close = Close(Scope.CHANNEL, AccessRefused.code, text)
            waiting.verdict = Verdict(command=None, close=close, marks=(hold.name,), tags=waiting.verdict.tags)
            self._owner.effects.refused.append((direction.sender, waiting.original, waiting.verdict))
        self._resume(channel, direction)

    @contextmanager
    def _blaming(self, sender: Peer) -> Iterator[None]:
        """What is wrong with what waited is its sender's fault, even if another event caused it to go on."""
        try:
            yield
        except ProtocolError as error:
            if self._owner.fault is None:
                self._owner.fault = InterceptorFault(sender, error)
