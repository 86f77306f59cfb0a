"""Two captures, compared for the page."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from amqproxy.dashboard import comparisons
from amqproxy.dashboard.comparisons import ComparisonFailed, Comparisons, TooManyComparisons
from tests.dashboard.conftest import capture_of

pytestmark = pytest.mark.once


def test_differences_are_those_of_the_command() -> None:
    found = asyncio.run(Comparisons().compare(capture_of("confirms"), capture_of("channel-error")))
    assert found["summary"]["differences"] == {"missing": 5, "extra": 2, "moved": 0, "changed": 1}
    assert len(found["differences"]) == 8
    first = msgspec.json.decode(found["differences"][0])
    assert (first["kind"], first["method"]) == ("changed", "queue.declare")
    assert len(found["connections"]) == 1


def test_a_capture_is_the_same_as_itself() -> None:
    found = asyncio.run(Comparisons().compare(capture_of("confirms"), capture_of("confirms")))
    assert (found["summary"]["is_same"], found["differences"]) == (True, [])


def test_what_cannot_be_compared_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.pcapng"
    broken.write_bytes(b"rubbish")
    with pytest.raises(ComparisonFailed, match=r"broken\.pcapng"):
        asyncio.run(Comparisons().compare(broken, capture_of("confirms")))
    monkeypatch.setattr(comparisons, "COMPARE_SECONDS", 0.01)
    with pytest.raises(ComparisonFailed, match="more than"):
        asyncio.run(Comparisons().compare(capture_of("confirms"), capture_of("confirms")))
    monkeypatch.setattr(comparisons, "MAX_RUNNING", 0)
    with pytest.raises(TooManyComparisons):
        asyncio.run(Comparisons().compare(broken, broken))
