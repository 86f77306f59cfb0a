"""Memory that is given back."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from amqproxy.process.malloc_trim import give_back


def in_use() -> int:
    """MiB of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 2**20


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc keeps so much, and gives it back")
def test_what_is_free_is_given_back() -> None:
    blocks = [b"x" * 10_000 for _ in range(20_000)]
    full = in_use()
    few = blocks[::100]  # what is free lies between them
    del blocks
    give_back()
    assert in_use() < full - 150
    assert len(few) == 200


def test_another_c_library_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    give_back()
