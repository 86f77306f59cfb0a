"""The capture files of a chain → Arrow batches of `events`; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain as chained
from typing import Any

import pyarrow as pa

from amqproxy.amqp091.protocol_header import DECODED
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.capture.files import CaptureFile, Sources, files_of, name_of
from amqproxy.capture.observed import Observers
from amqproxy.capture.selection.selection import Selection
from amqproxy.peer import CLIENT
from amqproxy.pipeline.body_fields import MAX_BODY
from amqproxy.pipeline.chain_reading import ChainReading
from amqproxy.pipeline.event_rows import ConnectionRows, EventRows
from amqproxy.pipeline.pending_rows import NO_CONNECTION, ROWS, ConnectionColumns
from amqproxy.pipeline.trace_state import Unreadable, dumped, loaded
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.observer import ObserverSettings, Report

MAX_ENDED = 1024
"""Maximum number of ended connections that are remembered for findings that name them."""

EVERYTHING = Selection()


class EventReading:
    """Makes batches of `event_columns.SCHEMA` from the capture files of a chain, decoded by a `ChainReading`.

    Events have the first `body` bytes of each body. With `fields`, bodies are inspected for rows of type field.
    `findings` are reported as by `decode --findings`, or not at all; with `counts_findings`, each occurrence is.
    """

    def __init__(
        self,
        reading: ChainReading,
        *,
        body: int = 0,
        fields: bool = False,
        findings: bool = True,
        counts_findings: bool = False,
        rows: int = ROWS,
    ) -> None:
        self.rows = EventRows(reading.chain, body=body, fields=fields, rows=rows)
        self._reading = reading
        settings = ObserverSettings(
            messages=False,
            findings=findings,
            counts_findings=counts_findings,
            body=body,
            kept_body=MAX_BODY if fields else 0,
            digests=True,
        )
        self._observers = Observers(settings, listener_of=self._listener)
        self._connections: dict[int, ConnectionRows] = {}
        self._ended: dict[int, ConnectionRows] = {}

    def batches(
        self, files: Sequence[CaptureFile], selection: Selection = EVERYTHING, *, is_end: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Yield the selected events of the files, and at the end those that the end causes."""
        rows, reading = self.rows, self._reading
        shows = None if selection.is_everything else selection.shows
        rows.shows = shows
        for each in selection.connections(reading.decoded(files, is_end=is_end)):
            if reading.lost:
                self._add_lost()
            rows.file = reading.file
            self._feed(each)
            if rows.is_full:
                yield rows.take()
                reading.forget_ended()
        self._add_lost()
        yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the events that are not in a batch yet."""
        if self.rows.count:
            yield self.rows.take()

    def state_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the state for the next run, as rows of type state: one for the chain, and one per open connection."""
        rows, reading, observers = self.rows, self._reading, self._observers
        head, outer = reading.written_by, self._outer
        rows.file = reading.file
        shared = dumped((observers.process_inspector, self._ended), head, {"sink": rows})
        rows.add_state(NO_CONNECTION, dumped((reading.state(), shared), head, {}))
        for stream, connection in self._connections.items():
            observer = observers.by_stream.get(stream)
            rows.add_state(connection.who, dumped((stream, connection, observer), head, outer))
            if rows.is_full:
                yield rows.take()
        yield from self.flush()

    def resume(self, states: Mapping[str | None, Sequence[bytes]]) -> None:
        """Continue from the `state_batches` of an earlier run, by connection_id; note unreadable states.

        A connection whose state cannot be read is joined in its middle.
        """
        head = self._reading.written_by
        of_chain = [each for each in states.get(None, ()) if each.startswith(head)] or states.get(None, ())
        unreadable: dict[str, None] = {}
        try:
            if len(of_chain) != 1:
                raise Unreadable(f"there are {len(of_chain)} of the chain")
            reading, shared = loaded(of_chain[0], head, {})
            inspector, ended = loaded(shared, head, {"sink": self.rows})
            self._reading.resume(reading)
        except Unreadable as error:
            self._reading.note_state(str(error))
            return
        self._observers.process_inspector, self._ended = inspector, ended
        outer = self._outer
        for state in chained.from_iterable(each for name, each in states.items() if name is not None):
            if not state.startswith(head):  # from another share
                continue
            try:
                stream, connection, observer = loaded(state, head, outer)
            except Unreadable as error:
                unreadable[str(error)] = None
                continue
            self._connections[stream] = connection
            if observer is not None:
                self._observers.by_stream[stream] = observer
        for why in unreadable:
            self._reading.note_state(why)

    @property
    def _outer(self) -> dict[str, object]:
        """Return the objects that the observers of all connections share."""
        observers = self._observers
        return {"sink": self.rows, "inspector": observers.process_inspector, "budget": observers.budget}

    def _add_lost(self) -> None:
        """Add the unreadable parts of files so far."""
        lost = self._reading.take_lost()
        for each in lost:
            self.rows.add_lost(each)

    def _feed(self, decoded: Decoded) -> None:
        stream = decoded.stream
        rows = self._connections.get(stream)
        if rows is None:
            if isinstance(decoded, StreamEnded):
                return
            name = self._reading.connection_id(stream)
            who = ConnectionColumns(name, stream, decoded.connection, decoded.leg or None)
            rows = self._connections[stream] = ConnectionRows(self.rows, who)
        if rows.who.protocol is None:
            rows.who = rows.who._replace(protocol=_protocol_of(decoded))
        if isinstance(decoded, SkippedBytes):
            rows.skipped = decoded
            reports = self._observers.feed(decoded)
            rows.skipped = None
        else:
            reports = self._observers.feed(decoded)
        if reports:
            self._report(reports, rows)
        if isinstance(decoded, StreamEnded):
            del self._connections[stream]
            self._ended[stream] = rows
            if len(self._ended) > MAX_ENDED:
                del self._ended[next(iter(self._ended))]

    def _listener(self, stream: int, connection: str) -> ConnectionRows:
        return self._connections[stream]

    def _report(self, reports: Iterable[Report], rows: ConnectionRows) -> None:
        for each in reports:
            if isinstance(each, Finding):
                of = self._connections.get(each.stream) or self._ended.get(each.stream)
                (of or rows).add_finding(each)


def _protocol_of(decoded: Decoded) -> str | None:
    """Return the client's protocol, if the item shows it."""
    match decoded:
        case DecodedProtocolHeader():
            return decoded.protocol if decoded.sender == CLIENT and decoded.protocol in DECODED else None
        case DecodedFrames():
            return decoded.protocol
    return None


def event_batches(
    sources: Sources, *, chain: str | None = None, leg: str = "client", body: int = 0, rows: int = ROWS, **options: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the events of a capture of one or more files, read in order as by `decode --messages`.

    `options` are as in `EventReading`.
    """
    reading = ChainReading(chain or name_of(sources), leg=leg)
    yield from EventReading(reading, body=body, rows=rows, **options).batches(files_of(sources))
