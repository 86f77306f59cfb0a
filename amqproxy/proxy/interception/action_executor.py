"""Execution of the actions that channels yield, and of the rules' side effects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from amqproxy.amqp091.commands import Command
from amqproxy.peer import Peer
from amqproxy.proxy.interception.actions import (
    Action,
    Actions,
    CloseChannel,
    CloseConnection,
    Decide,
    Drop,
    LogVerdict,
    Wait,
)
from amqproxy.proxy.interception.delayed_commands import Channel, D, DelayedCommands, Steps
from amqproxy.proxy.interception.effects import ConnectionRefusal, InterceptorEffects, InterceptorFault
from amqproxy.proxy.interception.evaluation import Evaluation
from amqproxy.rules.verdict import Close, Verdict
from amqproxy.taps.note import Note


class DecidedChannel(Channel, Protocol):
    """A channel that carries out verdicts."""

    def carry_out(self, direction: Any, command: Any, verdict: Verdict) -> Actions:
        """Carry out the verdict on a command."""

    def close(self, cause: Any, close: Close, note: Note) -> Actions:
        """Close the channel on both legs, because of `cause`."""


C = TypeVar("C", bound=DecidedChannel)
EvaluationT = TypeVar("EvaluationT", bound=Evaluation)


class ActionExecutor(ABC, Generic[C, D, EvaluationT]):
    """Executor of the actions that the channels of one connection yield.

    `effects` collects the side effects of rules; `refusal` is set when a rule closes the connection, `fault` when a
    delayed or held command fails. Each kind of action has a method in the table `DONE_BY`, to which a dialect adds.
    """

    DONE_BY: ClassVar[Mapping[type[Action], Callable[[Any, Any, Any], None]]]

    ERROR: ClassVar[type[Exception]]
    """The exception class for violations of this protocol."""

    def __init__(self, delayed: DelayedCommands[C, D], evaluation: EvaluationT) -> None:
        self._delayed = delayed
        self._evaluation = evaluation
        self.effects = InterceptorEffects()
        self.refusal: Any = None
        self.fault: InterceptorFault | None = None

    @property
    def is_over(self) -> bool:
        """Whether the connection has to end, so that nothing more is forwarded."""
        return self.refusal is not None or self.fault is not None

    def take_effects(self) -> InterceptorEffects:
        """Return the side effects that rules have requested since the last call."""
        effects, self.effects = self.effects, InterceptorEffects()
        effects.failed, self._evaluation.failed = self._evaluation.failed, []
        effects.refused += self._delayed.refused
        self._delayed.refused.clear()
        return effects

    def do(self, channel: C, actions: Actions) -> None:
        """Carry out the actions of a channel, one after the other."""
        for action in actions:
            self.DONE_BY[type(action)](self, channel, action)

    def go_on(self, steps: Steps[C]) -> None:
        """Carry out the steps of delayed and queued commands, until the connection ends."""
        while not self.is_over and (step := next(steps, None)) is not None:
            with self.blaming(step.sender):
                self.do(step.channel, step.actions())

    @contextmanager
    def blaming(self, sender: Peer) -> Iterator[None]:
        """Attribute an error in a delayed command to its sender, even if another event triggered its processing."""
        try:
            yield
        except self.ERROR as error:
            if not self.is_over:
                self.fault = InterceptorFault(sender, error)

    # --- commands

    def _decide(self, channel: C, action: Decide) -> None:
        direction, command = action.direction, action.command
        self.carry_out(channel, direction, command, self._verdict(direction.sender, action), action.received)

    @abstractmethod
    def _verdict(self, sender: Peer, action: Decide) -> Verdict:
        """Evaluate the rules for a command."""

    def carry_out(self, channel: C, direction: D, command: Command, verdict: Verdict, received: Any = None) -> None:
        """Carry out a verdict on a channel, and collect the verdict's side effects."""
        self.effects.add(direction.sender, command, verdict)
        self.do(channel, channel.carry_out(direction, command if received is None else received, verdict))

    def _wait(self, channel: C, action: Wait) -> None:
        number = self._delayed.wait(channel, action.direction, action.waiting)
        if action.waiting.hold is not None:
            self.effects.held.append(number)

    def _drop(self, channel: C, action: Drop) -> None:
        self._delayed.drop(action.direction)

    def _log(self, channel: C, action: LogVerdict) -> None:
        self.effects.logged.append((action.level, action.text))

    # --- the end of a channel, or of the connection

    def _close_channel(self, channel: C, action: CloseChannel) -> None:
        self.do(channel, channel.close(action.cause, action.close, action.note))

    def _close_connection(self, channel: C, action: CloseConnection) -> None:
        self.refusal = ConnectionRefusal(action.close)
        self.refusal.class_id, self.refusal.method_id = action.class_and_method


ActionExecutor.DONE_BY = {
    Decide: ActionExecutor._decide,
    Wait: ActionExecutor._wait,
    Drop: ActionExecutor._drop,
    LogVerdict: ActionExecutor._log,
    CloseChannel: ActionExecutor._close_channel,
    CloseConnection: lambda executor, channel, action: executor._close_connection(channel, action),
}
