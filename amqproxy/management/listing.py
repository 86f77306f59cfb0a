"""Lists: sorting, paging, selection by name and of columns, for all resources alike.

Rows are encoded as they come, so that a list of 50,000 queues takes the memory of its text and no more.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec

from amqproxy.management import streamed_list
from amqproxy.management.failure import Failure, bad_request
from amqproxy.management.streamed_list import CHUNK, Pace, held, sliced, streamed
from amqproxy.rules.matching.name_pattern import MOST_CHARACTERS, bounded_name_pattern

Entry = dict[str, Any]

MOST_OF_A_PAGE = 500
"""Largest page size, as in RabbitMQ."""

USUAL_PAGE = 100

MOST_COLUMNS = 200
"""Most columns that a query may choose."""


class Rows(NamedTuple):
    """The rows of a list, with the columns that sort it by default; only some lists of RabbitMQ have pages.

    With `is_sorted`, they come in the order of the query; if it made the page, `numbers` count all rows and the
    chosen ones.
    """

    rows: AsyncIterator[Entry]
    order: Sequence[str] = ("vhost", "name")
    has_pages: bool = False
    is_sorted: bool = False
    numbers: tuple[int, int] | None = None


class Chunks(NamedTuple):
    """A response that is made while it is sent."""

    chunks: AsyncGenerator[bytes]
    content_type: str = "application/json"


class ListQuery(NamedTuple):
    """The part of a query that concerns a list. `page` is None for a whole list."""

    sort: str | None = None
    is_reverse: bool = False
    columns: tuple[tuple[str, ...], ...] = ()
    page: int | None = None
    page_size: int = USUAL_PAGE
    name: str = ""
    is_regex: bool = False


def list_query(query: Mapping[str, str], *, has_pages: bool) -> ListQuery:
    """Return the list query of a request; `Failure` with RabbitMQ's text if its paging is not valid."""
    columns = tuple(tuple(each.split(".")) for each in dict.fromkeys(query.get("columns", "").split(",")) if each)
    if len(columns) > MOST_COLUMNS:
        raise bad_request(f"columns: {len(columns)}, and {MOST_COLUMNS} are the most")
    chosen = ListQuery(query.get("sort") or None, query.get("sort_reverse") == "true", columns)
    if not has_pages or "page" not in query:
        return chosen
    page, size = _number(query, "page"), _number(query, "page_size")
    if page is None or page < 1 or (size is not None and not 1 <= size <= MOST_OF_A_PAGE):
        pages = f"page number {_text(page)}, page size {_text(size)}"
        raise Failure(400, "invalid_pagination_parameters", f"Invalid pagination parameters: {pages}")
    return chosen._replace(
        page=page, page_size=size or USUAL_PAGE, name=query.get("name", ""), is_regex=query.get("use_regex") == "true"
    )


def _text(number: int | None) -> str:
    return "undefined" if number is None else str(number)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not re.fullmatch(r"-?\d{1,9}", text, re.ASCII):
        raise bad_request("Pagination parameters are invalid")
    return int(text)


def name_matcher(query: ListQuery, *, refuses_patterns: bool) -> Callable[[str], bool]:
    """Return whether a name is chosen.

    An invalid pattern is refused by RabbitMQ 3.10 (`refuses_patterns`), and matches no name in RabbitMQ 4.
    """
    if not query.is_regex:
        part = query.name.lower()
        return lambda name: part in name.lower()
    if len(query.name) > MOST_CHARACTERS:  # RabbitMQ 4.3 has such a bound too
        raise Failure(400, "invalid_pagination_parameters", "name filter regex is too long")
    try:
        return bounded_name_pattern(query.name, ignores_case=True).fits
    except ValueError:
        if refuses_patterns:
            raise bad_request("Pagination parameters are invalid") from None
        return lambda name: False


async def listed(rows: Rows, query: ListQuery, is_chosen: Callable[[str], bool]) -> AsyncGenerator[bytes]:
    """Yield the response to a list's request in chunks; raise `Failure` before the first for a page out of range.

    The turn ends once the rows are encoded: clients that read slowly keep the memory of theirs, and block no other.
    """
    if rows.is_sorted and query.page is None:
        chunks = streamed(_array(rows.rows, query.columns))
    elif rows.numbers is not None:
        chunks = _chosen_page(rows, rows.numbers, query)
    else:
        chunks = _sorted(rows, query, is_chosen)
    async with aclosing(chunks):
        async for chunk in chunks:
            yield chunk


async def _array(rows: AsyncIterator[Entry], columns: Sequence[tuple[str, ...]]) -> AsyncGenerator[bytes]:
    """Yield the parts of a list in the order in which its rows come, from the first ones on."""
    before = b"["
    async for row in rows:
        yield before + _encoded(row, columns)
        before = b","
    yield b"[]" if before == b"[" else b"]"


async def _chosen_page(rows: Rows, numbers: tuple[int, int], query: ListQuery) -> AsyncGenerator[bytes]:
    """Yield a page whose rows the broker has sorted and selected."""
    found: list[bytes] = []
    size = 0
    pace = Pace()
    try:
        async with streamed_list.pages:
            async for row in rows.rows:
                found.append(_encoded(row, query.columns))
                size += len(found[-1])
                held.add(len(found[-1]), own=size)
                await pace.row()
        async for chunk in sliced(_page_of(found, *numbers, query)):
            yield chunk
    finally:
        held.total -= size


async def _sorted(rows: Rows, query: ListQuery, is_chosen: Callable[[str], bool]) -> AsyncGenerator[bytes]:
    """Yield a list, or a page of it, that is sorted and selected here."""
    found: list[tuple[Any, bytes]] = []
    total = size = 0
    pace = Pace()
    try:
        async with streamed_list.lists:
            async for row in rows.rows:
                total += 1
                await pace.row()
                if not is_chosen(str(row.get("name", ""))):
                    continue
                encoded = _encoded(row, query.columns)
                found.append((sort_key(row, rows.order, query.sort), encoded))
                size += len(encoded)
                held.add(len(encoded), own=size)
        found.sort(key=lambda each: each[0], reverse=query.is_reverse)
        if query.page is not None:
            async for chunk in sliced(_page(found, total, query)):
                yield chunk
            return
        for chunk in _joined(each for _, each in found):
            yield chunk
            await asyncio.sleep(0)
    finally:
        held.total -= size


def _encoded(row: Entry, columns: Sequence[tuple[str, ...]]) -> bytes:
    return msgspec.json.encode(_columns(row, columns) or [])  # as RabbitMQ writes an empty object


def _page(found: Sequence[tuple[Any, bytes]], total: int, query: ListQuery) -> bytes:
    assert query.page is not None
    begin = (query.page - 1) * query.page_size
    return _page_of([each for _, each in found[begin : begin + query.page_size]], total, len(found), query)


def _page_of(rows: Sequence[bytes], total: int, filtered: int, query: ListQuery) -> bytes:
    assert query.page is not None
    page, size = query.page, query.page_size
    if (page - 1) * size >= filtered and page > 1:
        text = f"Page out of range, page: {page} page size: {size}, len: {filtered}"
        raise Failure(400, "page_out_of_range", text)
    items = [msgspec.Raw(each) for each in rows]
    answer = {
        "filtered_count": filtered,
        "item_count": len(items),
        "items": items,
        "page": page,
        "page_count": -(-filtered // size),
        "page_size": size,
        "total_count": total,
    }
    return msgspec.json.encode(answer)


def _joined(rows: Iterator[bytes]) -> Iterator[bytes]:
    chunk = bytearray(b"[")
    for number, row in enumerate(rows):
        if number:
            chunk += b","
        chunk += row
        if len(chunk) >= CHUNK:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk) + b"]"


def _columns(row: Entry, columns: Sequence[tuple[str, ...]]) -> Entry:
    """Return only the chosen columns of a row; those of a nested object have names with dots."""
    if not columns:
        return row
    chosen: Entry = {}
    for path in columns:
        source: Any = row
        target = chosen
        for name in path[:-1]:
            source = source.get(name) if isinstance(source, dict) else None
            if not isinstance(source, dict):
                break
            target = target.setdefault(name, {})
        if isinstance(source, dict) and path[-1] in source:
            target[path[-1]] = source[path[-1]]
    return chosen


def selected(row: Entry, query: Mapping[str, str]) -> Entry:
    """Return the chosen columns of a single object."""
    return _columns(row, list_query(query, has_pages=False).columns)


def sort_key(row: Entry, order: Sequence[str], sort: str | None) -> tuple[Any, ...]:
    """Return the key of a row in a list that is sorted by a column, and then by those of its usual order."""
    return tuple(_rank(_dotted(row, name)) for name in ((sort, *order) if sort else order))


def _dotted(row: Entry, path: str) -> Any:
    found: Any = row
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _rank(value: Any) -> tuple[int, Any]:
    """Return a sort key as RabbitMQ's, in Erlang's order of terms: missing values, numbers, false and true, texts."""
    if value is None:
        return (-1, 0)
    if isinstance(value, bool):
        return (1, str(value).lower())
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (3, value)
    return (2, msgspec.json.encode(value).decode())
