"""The steps of recorded connections, from what a capture decodes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TypeAlias

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.protocol_header import NAME as AMQP091
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, StreamEnded
from amqproxy.replay.amqp010.step_reader import Amqp010StepReader
from amqproxy.replay.amqp091.step_reader import Amqp091StepReader
from amqproxy.replay.steps import Step
from amqproxy.taps.trace.events import TraceEvent

MAX_STEPS = 1_000_000
"""The most steps of all connections together that `dialogues` holds."""


class ConnectionSteps:
    """One recorded connection: its steps in order, and what the trace says happened in it.

    `is_from_start` is whether the capture has its beginning; `number` is that of its stream, `protocol` the name of its
    protocol.
    """

    def __init__(self, number: int, connection: str, protocol: str) -> None:
        self.number = number
        self.connection = connection
        self.protocol = protocol
        self.is_from_start = False
        self.steps: list[Step] = []
        self.events: list[TraceEvent] = []


AnyReader: TypeAlias = Amqp091StepReader | Amqp010StepReader


def _reader_of(first: Decoded, numbers: Iterator[int]) -> AnyReader:
    """What reads the connection that begins so."""
    is_amqp010 = getattr(first, "protocol", "") == AMQP010
    return (Amqp010StepReader if is_amqp010 else Amqp091StepReader)(first.stream, first.connection, numbers)


def steps_of(
    decoded: Iterable[Decoded], on_events: Callable[[list[TraceEvent]], None] = lambda events: None
) -> Iterator[Step]:
    """The steps of all connections, in the order of the capture; of another protocol, its greeting and end.

    `on_events` is called with what happened, as the trace has it.
    """
    readers: dict[int, AnyReader] = {}
    numbers = count()
    for each in decoded:
        reader = readers.get(each.stream)
        if reader is None:
            if isinstance(each, StreamEnded):
                continue
            reader = readers[each.stream] = _reader_of(each, numbers)
        steps = reader.read(each)
        if reader.events:
            on_events(reader.events)
        yield from steps
        if isinstance(each, StreamEnded):
            del readers[each.stream]


def dialogues(decoded: Iterable[Decoded], limit: int = MAX_STEPS) -> list[ConnectionSteps]:
    """All connections of a capture, in the order of their beginnings. `OverflowError` beyond `limit` steps."""
    found: dict[int, ConnectionSteps] = {}
    readers: dict[int, AnyReader] = {}
    numbers = count()
    for each in decoded:
        reader = readers.get(each.stream)
        if reader is None:
            if isinstance(each, StreamEnded):
                continue
            reader = readers[each.stream] = _reader_of(each, numbers)
            protocol = AMQP010 if isinstance(reader, Amqp010StepReader) else AMQP091
            dialogue = found[each.stream] = ConnectionSteps(each.stream, each.connection, protocol)
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
