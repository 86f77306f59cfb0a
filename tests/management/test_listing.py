"""Sorting, pages and selection of lists."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from amqproxy.management import streamed_list
from amqproxy.management.failure import Failure
from amqproxy.management.listing import MOST_COLUMNS, Rows, list_query, listed, name_matcher
from amqproxy.management.streamed_list import CHUNK, LISTS_AT_ONCE, ROWS_A_TURN, held, streamed


@pytest.fixture(autouse=True)
def turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns of their own for each test: a semaphore belongs to its loop."""
    for name in ("lists", "pages"):
        monkeypatch.setattr(streamed_list, name, asyncio.Semaphore(LISTS_AT_ONCE))


ROWS = [
    {"vhost": "/", "name": "b", "messages": 3, "at": {"x": 1, "y": 2}},
    {"vhost": "/", "name": "a", "messages": 20},
    {"vhost": "+", "name": "B2", "messages": 1},
]


def answer(rows: list[dict[str, Any]], *, refuses_patterns: bool = False, **query: str) -> Any:
    """The JSON of a list, put together from its chunks."""

    async def made() -> AsyncIterator[dict[str, Any]]:
        for each in rows:
            yield each

    async def whole() -> bytes:
        chosen = list_query(query, has_pages=True)
        is_chosen = name_matcher(chosen, refuses_patterns=refuses_patterns)
        return b"".join([each async for each in listed(Rows(made()), chosen, is_chosen)])

    return json.loads(asyncio.run(whole()))


def names(**query: str) -> list[str]:
    return [each["name"] for each in answer(ROWS, **query)]


def test_lists_are_sorted_by_virtual_host_and_name_or_as_asked() -> None:
    assert names() == ["B2", "a", "b"]
    assert names(sort_reverse="true") == ["b", "a", "B2"]
    assert names(sort="messages") == ["B2", "b", "a"]
    assert names(sort="messages", sort_reverse="true") == ["a", "b", "B2"]
    assert names(sort="at.x") == ["B2", "a", "b"]
    assert names(sort="none") == ["B2", "a", "b"]


def test_columns_select_nested_keys() -> None:
    assert answer(ROWS[:1], columns="name,at.x") == [{"name": "b", "at": {"x": 1}}]
    assert answer(ROWS[1:2], columns="name,at.x,messages.no") == [{"name": "a"}]
    assert answer(ROWS[:1], columns="none") == [[]]
    assert answer(ROWS[:1], columns=",".join(["name", "none"] * MOST_COLUMNS)) == [{"name": "b"}]
    with pytest.raises(Failure, match=f"{MOST_COLUMNS} are the most"):
        answer(ROWS[:1], columns=",".join(map(str, range(MOST_COLUMNS + 1))))


def test_pages() -> None:
    page = answer(ROWS, page="2", page_size="2")
    assert [each["name"] for each in page.pop("items")] == ["b"]
    assert page == {
        "filtered_count": 3,
        "item_count": 1,
        "page": 2,
        "page_count": 2,
        "page_size": 2,
        "total_count": 3,
    }
    found = answer(ROWS, page="1", name="B")
    assert (found["filtered_count"], found["total_count"]) == (2, 3)
    assert answer(ROWS, page="1", name="^b$", use_regex="true")["filtered_count"] == 1
    assert answer(ROWS, page="1", name="^B$", use_regex="true")["filtered_count"] == 1
    assert answer(ROWS, page="1", name="^(?!A)", use_regex="true")["filtered_count"] == 2
    assert answer(ROWS, page="1", name="[", use_regex="true")["page_count"] == 0
    assert answer(ROWS, page="1", name="[")["filtered_count"] == 0


def test_a_pattern_takes_time_linear_in_the_names() -> None:
    rows = [{"vhost": "/", "name": "a" * 255}]
    assert answer(rows, page="1", name="(.+)+!", use_regex="true")["filtered_count"] == 0


@pytest.mark.parametrize(
    "query",
    [
        {"page": "0"},
        {"page": "x"},
        {"page": ""},
        {"page": "1", "page_size": "501"},
        {"page": "1", "page_size": "0"},
        {"page": "9"},
    ],
)
def test_pages_that_cannot_be(query: dict[str, str]) -> None:
    with pytest.raises(Failure) as failure:
        answer(ROWS, **query)
    assert failure.value.status == 400


def test_an_invalid_pattern_is_refused_or_matches_nothing() -> None:
    with pytest.raises(Failure, match="invalid"):
        answer(ROWS, refuses_patterns=True, page="1", name="[", use_regex="true")


def test_a_long_list_comes_in_chunks() -> None:
    rows = [{"vhost": "/", "name": f"{number:06}", "filling": "x" * 1000} for number in range(500)]

    async def chunks() -> list[bytes]:
        async def made() -> AsyncIterator[dict[str, Any]]:
            for each in rows:
                yield each

        return [each async for each in listed(Rows(made()), list_query({}, has_pages=True), lambda name: True)]

    found = asyncio.run(chunks())
    assert json.loads(b"".join(found)) == rows
    assert max(map(len, found)) < CHUNK + 2000


def long_list() -> AsyncGenerator[bytes]:
    async def made() -> AsyncIterator[dict[str, Any]]:
        for number in range(300):
            yield {"vhost": "/", "name": f"{number:06}", "filling": "x" * 1000}

    return listed(Rows(made()), list_query({}, has_pages=True), lambda name: True)


async def read(chunks: AsyncIterator[bytes]) -> int:
    return len(json.loads(b"".join([each async for each in chunks])))


def test_slow_readers_do_not_block_other_lists() -> None:
    async def asked() -> None:
        slow = [long_list() for _ in range(2 * LISTS_AT_ONCE)]
        async with asyncio.timeout(60):
            for each in slow:
                assert (await anext(each)).startswith(b"[")
            assert await read(long_list()) == 300

    asyncio.run(asked())


def test_the_bytes_of_all_lists_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked() -> None:
        monkeypatch.setattr(streamed_list, "MOST_HELD", 400_000)
        async with aclosing(long_list()) as slow:
            await anext(slow)
            with pytest.raises(Failure) as refused:
                await read(long_list())
            assert refused.value.status == 503
        assert await read(long_list()) == 300
        monkeypatch.setattr(streamed_list, "MOST_HELD", 1000)
        assert await read(long_list()) == 300, "a list alone may have any size"

    asyncio.run(asked())


def test_a_sorted_list_begins_before_its_last_row() -> None:
    """The first chunk comes while the broker still has rows to send."""

    async def first() -> bytes:
        is_wanted = asyncio.Event()

        async def made() -> AsyncIterator[dict[str, Any]]:
            yield {"name": "x" * CHUNK}
            await is_wanted.wait()
            yield {"name": "y"}

        rows = Rows(made(), is_sorted=True)
        chunks = listed(rows, list_query({}, has_pages=True), lambda name: True)
        began = await anext(chunks)
        is_wanted.set()
        return began + b"".join([each async for each in chunks])

    assert [each["name"] for each in json.loads(asyncio.run(first()))] == ["x" * CHUNK, "y"]
    assert held.total == 0


def test_a_sorted_list_that_is_not_read_to_its_end_holds_nothing() -> None:
    async def abandoned() -> None:
        async def made() -> AsyncIterator[dict[str, Any]]:
            for number in range(100):
                yield {"name": str(number) * CHUNK}

        rows = Rows(made(), is_sorted=True)
        async with aclosing(listed(rows, list_query({}, has_pages=True), lambda name: True)) as chunks:
            await anext(chunks)
        async with asyncio.timeout(30), streamed_list.lists:
            pass

    asyncio.run(abandoned())
    assert held.total == 0


def test_a_sorted_list_without_rows() -> None:
    async def none() -> AsyncIterator[dict[str, Any]]:
        for each in ():
            yield each

    async def whole() -> bytes:
        rows = Rows(none(), is_sorted=True)
        return b"".join([each async for each in listed(rows, list_query({}, has_pages=True), lambda name: True)])

    assert asyncio.run(whole()) == b"[]"


def test_an_error_of_the_broker_is_told_before_the_first_row() -> None:
    async def failing() -> AsyncIterator[dict[str, Any]]:
        raise Failure(503, "service_unavailable", "away")
        yield {}

    async def asked() -> None:
        async for _ in listed(Rows(failing(), is_sorted=True), list_query({}, has_pages=True), lambda name: True):
            pass

    with pytest.raises(Failure):
        asyncio.run(asked())


@pytest.mark.parametrize("kind", ["sorted", "page", "list"])
def test_lists_let_others_have_their_turn_between_rows_that_show_nothing(kind: str) -> None:
    async def turns_of_others() -> int:
        count = 0

        async def other() -> None:
            nonlocal count
            while True:
                count += 1
                await asyncio.sleep(0)

        async def made() -> AsyncIterator[dict[str, Any]]:
            for _ in range(10 * ROWS_A_TURN):
                yield {"name": "x"}

        asked = {"columns": "none"} | ({"page": "1"} if kind == "page" else {})
        rows = Rows(made(), is_sorted=kind != "list", numbers=(1, 1) if kind == "page" else None)
        task = asyncio.create_task(other())
        async for _ in listed(rows, list_query(asked, has_pages=True), lambda name: True):
            pass
        task.cancel()
        return count

    assert asyncio.run(turns_of_others()) >= 10


def test_pages_that_the_broker_selects_are_made_two_at_a_time() -> None:
    async def most() -> int:
        count = found = 0

        async def made() -> AsyncIterator[dict[str, Any]]:
            nonlocal count, found
            count += 1
            found = max(count, found)
            for _ in range(3):
                await asyncio.sleep(0)
                yield {"name": "x"}
            count -= 1

        async def page() -> None:
            rows = Rows(made(), is_sorted=True, numbers=(3, 3))
            query = list_query({"page": "1"}, has_pages=True)
            await read_page(listed(rows, query, lambda name: True))

        await asyncio.gather(*(page() for _ in range(10)))
        return found

    async def read_page(chunks: AsyncIterator[bytes]) -> None:
        assert json.loads(b"".join([each async for each in chunks]))["item_count"] == 3

    assert asyncio.run(most()) == LISTS_AT_ONCE
    assert held.total == 0


async def endless(made: list[int]) -> AsyncGenerator[bytes]:
    while True:
        made[0] += 1
        yield b"x" * CHUNK


async def until(is_true: Callable[[], bool]) -> None:
    for _ in range(100_000):
        if is_true():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come true")


def test_the_maker_waits_for_a_slow_reader_without_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_list, "MOST_UNREAD", 4 * CHUNK)
    monkeypatch.setattr(streamed_list, "READER_PATIENCE", 60.0)

    async def asked() -> None:
        made = [0]
        async with asyncio.timeout(30), aclosing(streamed(endless(made))) as slow:
            await anext(slow)
            await until(lambda: held.waiting == 1)
            before = made[0]
            assert before <= 6
            async with streamed_list.lists, streamed_list.lists:
                pass
            assert made[0] == before
            await anext(slow)
            await until(lambda: made[0] > before)
        assert (held.total, held.waiting) == (0, 0)

    asyncio.run(asked())


def test_a_reader_that_reads_nothing_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_list, "MOST_UNREAD", 4 * CHUNK)
    monkeypatch.setattr(streamed_list, "MOST_HELD", 20 * CHUNK)
    monkeypatch.setattr(streamed_list, "READER_PATIENCE", 0.0)

    async def asked() -> None:
        made = [0]
        async with asyncio.timeout(30), aclosing(streamed(endless(made))) as slow:
            await anext(slow)
            await until(lambda: held.total > 20 * CHUNK)
            with pytest.raises(Failure, match="too much memory"):
                async for _ in slow:
                    pass
        assert made[0] <= 24
        assert held.total == 0

    asyncio.run(asked())
