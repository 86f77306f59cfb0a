"""Bounds of request bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.datastructures import Headers

from amqproxy.management import body
from amqproxy.management.body import MAX_BODY, check_announced, read_body
from amqproxy.management.failure import Failure

PART = b"x" * (MAX_BODY // 2)


def read(messages: Iterable[dict[str, Any]]) -> bytes:
    """The body of a request that arrives in these messages, and then no further."""
    arriving = iter(messages)

    async def receive() -> dict[str, Any]:
        found = next(arriving, None)
        if found is None:
            await asyncio.sleep(3600)
        assert found is not None
        return found

    return asyncio.run(read_body(receive))


def part(data: bytes, *, is_last: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": not is_last}


def test_a_body_in_parts() -> None:
    assert read([part(b"a"), part(b""), part(b"b", is_last=True)]) == b"ab"
    assert len(read([part(PART), part(PART, is_last=True)])) == MAX_BODY


def test_a_body_that_was_not_announced_as_too_long() -> None:
    with pytest.raises(Failure) as failure:
        read([part(PART), part(PART), part(b"x")])
    assert failure.value.status == 413


def test_a_body_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_SECONDS", 0.01)
    with pytest.raises(Failure) as failure:
        read([part(b"a")])
    assert failure.value.status == 408
    with pytest.raises(Failure):
        read([{"type": "http.disconnect"}])


@pytest.mark.parametrize("length", [str(MAX_BODY), "", "x", "-1"])
def test_other_lengths_are_read(length: str) -> None:
    check_announced(Headers({"content-length": length}))


@pytest.mark.parametrize("length", [MAX_BODY + 1, 10**40])
def test_a_body_that_is_announced_as_too_long(length: int) -> None:
    with pytest.raises(Failure) as failure:
        check_announced(Headers({"content-length": str(length)}))
    assert failure.value.status == 413
