"""Selection of the commands that are played: those for which a filter holds, and those that they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from amqproxy.peer import CLIENT
from amqproxy.replay.dialects import ConnectionFilter, dialect_of
from amqproxy.replay.steps import ConnectionEnded, SentStep, Step
from amqproxy.rules.context import Client
from amqproxy.rules.matching.filters import Filter


class StepFilter:
    """A filter of the commands of all connections, whatever their protocols."""

    def __init__(self, chosen: Filter) -> None:
        self._chosen = chosen
        self._of_streams: dict[int, ConnectionFilter] = {}

    def learn(self, step: SentStep) -> None:
        """Learn the client's identity from a step; call it with each step, before `holds`."""
        self._of(step).learn(step.sender, step.command.frames[0])

    def holds(self, step: SentStep) -> bool:
        """Return whether the filter holds for a command."""
        return self._of(step).holds(step.sender, step.command, step.ts_ns / 1e9)

    def _of(self, step: SentStep) -> ConnectionFilter:
        found = self._of_streams.get(step.stream)
        if found is None:
            client = Client.named(step.stream, step.connection)
            found = self._of_streams[step.stream] = dialect_of(step).filter(self._chosen, client)
        return found

    def forget(self, stream: int) -> None:
        """Forget a connection that is over."""
        self._of_streams.pop(stream, None)


def selected(steps: Iterable[Step], chosen: Filter, streams: set[int] | None = None) -> Iterator[Step]:
    """Yield the steps, with client commands for which the filter does not hold marked as unwanted.

    With `streams`, only the steps of these connections.
    """
    asked = StepFilter(chosen)
    for step in steps:
        if streams is not None and step.stream not in streams:
            continue
        yield _marked(step, asked)
        if isinstance(step, ConnectionEnded):
            asked.forget(step.stream)


def streams_of(steps: Iterable[Step], chosen: Filter) -> set[int]:
    """Return the connections with a client command for which the filter holds, apart from those that open and close."""
    asked = StepFilter(chosen)
    found: set[int] = set()
    for step in steps:
        marked = _marked(step, asked)
        if isinstance(marked, SentStep) and marked.sender is CLIENT and marked.is_wanted and not marked.is_plumbing:
            found.add(step.stream)
        if isinstance(step, ConnectionEnded):
            asked.forget(step.stream)
    return found


def _marked(step: Step, asked: StepFilter) -> Step:
    if not isinstance(step, SentStep):
        return step
    asked.learn(step)
    if step.sender is not CLIENT or step.is_plumbing or asked.holds(step):
        return step
    return msgspec.structs.replace(step, is_wanted=False)
