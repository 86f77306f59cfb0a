"""Exports of selected rows as files: pcapng, JSON lines, CSV, a pytest test, a rule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from amqproxy.capture.decoded import Decoded
from amqproxy.dashboard.api.dependencies import MAX_INTEGER, SourceOf
from amqproxy.dashboard.api.queries import ListQueryOf, frame_selection, message_selection
from amqproxy.dashboard.equivalent_command import equivalent_command
from amqproxy.dashboard.finding_selection import FindingSelection
from amqproxy.dashboard.frame_query import entries_for
from amqproxy.dashboard.list_query import ListQuery
from amqproxy.dashboard.message_ring import MessageRow
from amqproxy.dashboard.message_selection import MessageSelection
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.pytest_export import pytest_of
from amqproxy.dashboard.ring_reading import selected, selected_rows
from amqproxy.dashboard.row_writer import RowWriter
from amqproxy.dashboard.rule_export import rule_of
from amqproxy.dashboard.source import Source
from amqproxy.export.columns import columns
from amqproxy.export.packets import ExportedPackets
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.record import Record
from amqproxy.views.columns import Columns, header_line, separated_lines

router = APIRouter(tags=["exports"])

BODY = 64 * 1024
"""Maximum size of a frame's body in JSON lines, in bytes."""

MAX_EXPORTS = 8
"""Maximum number of concurrent exports."""

PIECE = 64 * 1024
"""Bytes that are gathered before they are sent."""

What = Literal["frames", "messages", "findings"]
Format = Literal["pcapng", "jsonl", "csv", "pytest", "rule"]

_TYPES: dict[str, tuple[str, str]] = {
    "pcapng": ("application/x-pcapng", "pcapng"),
    "jsonl": ("application/x-ndjson", "jsonl"),
    "csv": ("text/csv; charset=utf-8", "csv"),
    "pytest": ("text/x-python; charset=utf-8", "py"),
    "rule": ("application/yaml; charset=utf-8", "yaml"),
}


@router.get("/sources/{source}/export")
async def export(
    request: Request,
    source: SourceOf,
    query: ListQueryOf,
    format: Format,
    what: What = "frames",
    seq: Annotated[list[Annotated[int, Query(ge=0, le=MAX_INTEGER)]] | None, Query(max_length=1000)] = None,
    all: bool = True,
) -> Response:
    """The selected rows, as a file. `limit` applies with `all=false`. `seq` are the messages of a test or a rule."""
    if all:
        query = msgspec.structs.replace(query, limit=MAX_INTEGER)
    make = _MAKERS.get((format, "" if format in ("pcapng", "pytest", "rule") else what))
    assert make is not None
    media_type, suffix = _TYPES[format]
    name = f"amqproxy-{what if format in ('jsonl', 'csv') else format}-{source.id}.{suffix}"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    exports: Exports = request.app.state.exports
    release = exports.begin()
    try:
        pieces = make(source, query, seq or [])
        if format == "rule":  # fails if no command can become a rule, so before the response starts
            pieces = iter(await asyncio.to_thread(list, pieces))
        return _Export(_batched(pieces), release, media_type=media_type, headers=headers)
    except BaseException:
        release()
        raise


class Exports:
    """Limit on exports under way, each of which keeps the ring entries from its start in memory."""

    def __init__(self, most: int = MAX_EXPORTS) -> None:
        self._most = most
        self._running = 0

    def begin(self) -> Callable[[], None]:
        """Admit one more export, and return the function to call at its end; `Problem` beyond the limit."""
        if self._running >= self._most:
            raise Problem(503, f"{self._most} exports are under way already: try again later")
        self._running += 1
        return self._end

    def _end(self) -> None:
        self._running -= 1


class _Export(StreamingResponse):
    """Streamed file that releases its export when the response ends, complete or not."""

    def __init__(self, pieces: Iterator[bytes], release: Callable[[], None], **options: Any) -> None:
        super().__init__(pieces, **options)
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()


def _batched(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join the pieces into larger ones, since each costs a change of threads."""
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)


Maker = Callable[[Source, ListQuery, list[int]], Iterator[bytes]]
"""Function that makes the pieces of a file: it is called in the event loop, the pieces are made in a thread."""


def _pcapng(source: Source, query: ListQuery, seqs: list[int]) -> Iterator[bytes]:
    entries, selection = entries_for(source.ring, query), frame_selection(source, query)
    return _packets(source, selected_rows(entries, selection, query))


def _packets(source: Source, rows: Iterator[tuple[Decoded, Sequence[int]]]) -> Iterator[bytes]:
    packets = ExportedPackets()
    yield packets.begin(f"exported from {source.name}")
    for decoded, seqs in rows:
        if decoded.leg == "upstream":
            continue
        for part, marks in source.marks.split(decoded, seqs):
            yield from packets.write(packets.see([part]), marks)


def _frame_lines(source: Source, query: ListQuery, seqs: list[int]) -> Iterator[bytes]:
    entries, selection = entries_for(source.ring, query), frame_selection(source, query)
    return _lines_of(selected(entries, selection, query))


def _lines_of(decoded: Iterator[Decoded]) -> Iterator[bytes]:
    writer = RowWriter(BODY)
    for each in decoded:
        yield writer.lines(each)


def _frame_table(source: Source, query: ListQuery, seqs: list[int]) -> Iterator[bytes]:
    return _table(_frame_lines(source, query, seqs), columns(messages=False, findings=False), Record)


def _message_rows(source: Source, query: ListQuery, *, findings: bool = False) -> Iterator[MessageRow]:
    ring = source.observed.findings if findings else source.observed.messages
    selection = FindingSelection(query.filter, query.place) if findings else message_selection(source, query)
    return _rows_of(ring.snapshot(), selection, query)


def _rows_of(
    rows: list[MessageRow], selection: MessageSelection | FindingSelection, query: ListQuery
) -> Iterator[MessageRow]:
    left = query.limit
    for row in rows:
        is_within = (query.after is None or row.seq > query.after) and (query.before is None or row.seq < query.before)
        if is_within and left and query.holds(row.ts_ns) and selection.shows(row):
            left -= 1
            yield row


def _message_lines(source: Source, query: ListQuery, seqs: list[int]) -> Iterator[bytes]:
    return (row.json + b"\n" for row in _message_rows(source, query))


def _finding_lines(source: Source, query: ListQuery, seqs: list[int]) -> Iterator[bytes]:
    return (row.json + b"\n" for row in _message_rows(source, query, findings=True))


def _message_table(source: Source, query: ListQuery, seqs: list[int]) -> Iterator[bytes]:
    return _table(_message_lines(source, query, seqs), columns(messages=True, findings=False), MessageRecord)


def _finding_table(source: Source, query: ListQuery, seqs: list[int]) -> Iterator[bytes]:
    return _table(_finding_lines(source, query, seqs), columns(messages=False, findings=True), Finding)


def _table(
    lines: Iterator[bytes], names: tuple[str, ...], kind: type[Record] | type[MessageRecord] | type[Finding]
) -> Iterator[bytes]:
    """Yield a header line and the records as CSV."""
    chosen = Columns(names, [kind])
    render = separated_lines(chosen, ",", is_for_spreadsheets=True)
    yield f"{header_line(chosen, ',')}\n".encode()
    for line in lines:
        for each in render(line):
            yield f"{each}\n".encode(errors="backslashreplace")


def _chosen_rows(source: Source, query: ListQuery, seqs: list[int]) -> Iterator[MessageRow]:
    """Return the messages with these numbers, or those that the query selects; `Problem` if one is gone."""
    if not seqs:
        return _message_rows(source, query)
    rows = source.observed.messages.rows
    missing = [seq for seq in seqs if seq not in rows]
    if missing:
        raise Problem(404, f"there is no message {missing[0]}")
    return iter([rows[seq] for seq in seqs])


def _pytest(source: Source, query: ListQuery, seqs: list[int]) -> Iterator[bytes]:
    rows = _chosen_rows(source, query, seqs)
    return (line.encode() for line in pytest_of(rows))


def _rule(source: Source, query: ListQuery, seqs: list[int]) -> Iterator[bytes]:
    return _rule_lines(source, _chosen_rows(source, query, seqs))


def _rule_lines(source: Source, rows: Iterator[MessageRow]) -> Iterator[bytes]:
    row = next((each for each in rows if each.content is not None), None)
    if row is None or row.content is None:
        raise Problem(404, "there is no command among what is selected, or it is not kept any more")
    command = equivalent_command(row.content)
    if command is None:
        raise Problem(404, f"no rule can be about {row.content.method.name}")
    client = source.observed.connections.client_of(row.stream, row.connection, row.frame)
    for line in rule_of(command.method, command.properties, client.user, client.vhost):
        yield line.encode()


_MAKERS: dict[tuple[str, str], Maker] = {
    ("pcapng", ""): _pcapng,
    ("pytest", ""): _pytest,
    ("rule", ""): _rule,
    ("jsonl", "frames"): _frame_lines,
    ("jsonl", "messages"): _message_lines,
    ("jsonl", "findings"): _finding_lines,
    ("csv", "frames"): _frame_table,
    ("csv", "messages"): _message_table,
    ("csv", "findings"): _finding_table,
}
