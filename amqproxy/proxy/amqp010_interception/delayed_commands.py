"""What waits on one connection of AMQP 0-10: for its time, or to be released."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from amqproxy.amqp010.errors import ResourceLimitExceeded
from amqproxy.amqp091.errors import Scope, reply_text
from amqproxy.peer import Peer
from amqproxy.proxy.amqp010_interception.path import ChannelPaths, Path, Pending, WaitingCommand
from amqproxy.proxy.interception.effects import InterceptorEffects
from amqproxy.proxy.timers import Timers
from amqproxy.rules.verdict import Close, Verdict

TURN = 64
"""Commands that go on in one turn of what has waited; the rest goes on in the next."""


class DelayedCommands:
    """`waiting` are the commands that wait, by a number of each.

    `go_on` is called with one that waits no more; `effects` collects what is held, and what is refused for it.
    """

    def __init__(
        self, go_on: Callable[[ChannelPaths, Path, WaitingCommand], None], effects: Callable[[], InterceptorEffects]
    ) -> None:
        self.waiting: dict[int, tuple[ChannelPaths, Path]] = {}
        self._go_on = go_on
        self._effects = effects
        self._timers = Timers()
        self._numbers = itertools.count(1)

    def clear(self) -> None:
        """Nothing goes on any more."""
        for _, path in self.waiting.values():
            path.clear()
        self.waiting.clear()
        self._timers = Timers()

    def forget(self, channel: ChannelPaths) -> None:
        """Nothing of a channel goes on."""
        for path in channel.paths.values():
            waiting = path.clear()
            if waiting is not None:
                self.waiting.pop(waiting, None)

    def at(self, when: float, do: Callable[[], None]) -> None:
        """Have something done at `when`, in seconds."""
        try:
            self._timers.at(when, do)
        except OverflowError as error:
            raise ResourceLimitExceeded(str(error)) from None

    def wait(self, channel: ChannelPaths, path: Path, pending: Pending, verdict: Verdict, now: float) -> None:
        """Have a command wait, and all behind it, until its time has come or it is released."""
        waiting = WaitingCommand(pending, verdict, next(self._numbers), now)
        path.wait(waiting)
        self.waiting[waiting.number] = (channel, path)
        if waiting.hold is not None:
            self._effects().held.append(waiting.number)
        try:
            waiting.timer = self._timers.at(waiting.until, lambda: self.time_out(channel, path))
        except OverflowError as error:
            raise ResourceLimitExceeded(str(error)) from None

    @property
    def is_idle(self) -> bool:
        """Is there nothing to be done later?"""
        return not self.waiting and not len(self._timers)

    @property
    def next_deadline(self) -> float:
        """When something is to be done next, in seconds."""
        return self._timers.next_deadline

    def take_due(self, now: float) -> Callable[[], None] | None:
        """What is to be done by now, one thing at a time."""
        return self._timers.take_due(now)

    def release(self, number: int, verdict: Verdict | None) -> None:
        """Let a command go on that is held, with another verdict if one is given. `KeyError` when it is not held."""
        channel, path = self.waiting[number]
        assert path.waiting is not None
        if verdict is not None:
            path.waiting.verdict = verdict
        self._wake(channel, path)

    def first_of(self, sender: Peer) -> tuple[ChannelPaths, Path] | None:
        """Where a command of a peer waits, if one does."""
        return next((each for each in self.waiting.values() if each[1].sender is sender), None)

    def time_out(self, channel: ChannelPaths, path: Path) -> None:
        """Let what waits go on, or refuse it if it was held and is not to pass at its timeout."""
        waiting = path.waiting
        if waiting is None:
            return
        hold = waiting.hold
        if hold is not None and not hold.passes_at_timeout:
            text = reply_text(403, f"held by rule '{hold.name}', and not released in time")
            close = Close(Scope.CHANNEL, 403, text)
            waiting.verdict = Verdict(command=None, close=close, marks=(hold.name,), tags=waiting.verdict.tags)
            self._effects().refused.append((path.sender, waiting.original, waiting.verdict))
        self._wake(channel, path)

    def _wake(self, channel: ChannelPaths, path: Path) -> None:
        waiting = path.wake()
        assert waiting is not None
        self.waiting.pop(waiting.number, None)
        self._go_on(channel, path, waiting)
