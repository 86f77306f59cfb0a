"""Steps of recorded connections, from a decoded capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count

from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, StreamEnded
from amqproxy.replay.dialects import dialect_of
from amqproxy.replay.step_reader import StepReader
from amqproxy.replay.steps import Step
from amqproxy.taps.trace.events import TraceEvent

MAX_STEPS = 1_000_000
"""Upper limit of the steps of all connections together in `dialogues`."""


class ConnectionSteps:
    """One recorded connection: its steps in order, and its trace's events.

    `is_from_start` is whether the capture contains its beginning; `number` is that of its stream, `protocol` the name
    of its protocol.
    """

    def __init__(self, number: int, connection: str, protocol: str) -> None:
        self.number = number
        self.connection = connection
        self.protocol = protocol
        self.is_from_start = False
        self.steps: list[Step] = []
        self.events: list[TraceEvent] = []


def steps_of(
    decoded: Iterable[Decoded], on_events: Callable[[list[TraceEvent]], None] = lambda events: None
) -> Iterator[Step]:
    """Yield the steps of all connections in capture order; for other protocols, only the greeting and the end.

    `on_events` is called with the events of the trace.
    """
    readers: dict[int, StepReader] = {}
    numbers = count()
    for each in decoded:
        reader = readers.get(each.stream)
        if reader is None:
            if isinstance(each, StreamEnded):
                continue
            reader = readers[each.stream] = dialect_of(each).step_reader(each.stream, each.connection, numbers)
        steps = reader.read(each)
        if reader.events:
            on_events(reader.events)
        yield from steps
        if isinstance(each, StreamEnded):
            del readers[each.stream]


def dialogues(decoded: Iterable[Decoded], limit: int = MAX_STEPS) -> list[ConnectionSteps]:
    """Return all connections of a capture, in the order of their beginnings. `OverflowError` beyond `limit` steps."""
    found: dict[int, ConnectionSteps] = {}
    readers: dict[int, StepReader] = {}
    numbers = count()
    for each in decoded:
        reader = readers.get(each.stream)
        if reader is None:
            if isinstance(each, StreamEnded):
                continue
            dialect = dialect_of(each)
            reader = readers[each.stream] = dialect.step_reader(each.stream, each.connection, numbers)
            dialogue = found[each.stream] = ConnectionSteps(each.stream, each.connection, dialect.name)
            dialogue.is_from_start = isinstance(each, DecodedProtocolHeader)
        else:
            dialogue = found[each.stream]
        steps = reader.read(each)
        dialogue.steps += steps
        dialogue.events += reader.events
        if steps and steps[-1].index >= limit:
            raise OverflowError(f"the capture has more than {limit} commands")
        if isinstance(each, StreamEnded):
            del readers[each.stream]
    return list(found.values())
