"""Connections that are too many, that send nothing, and that read nothing."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.web import peers
from amqproxy.web.peers import REQUEST_SECONDS, STALLED_PART, STALLED_SECONDS, Peers

pytestmark = pytest.mark.once


class Transport:
    """One connection, of which so much was not read."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.host = host
        self.unread = 0
        self.is_aborted = False

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return (self.host, 40_000)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.is_aborted = True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def admitted(all: Peers, host: str = "10.0.0.1") -> Any:
    transport: Any = Transport(host)
    return transport if all.admit(transport) else None


def test_one_address_does_not_have_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MAX_OF_ONE", 2)
    monkeypatch.setattr(peers, "MAX_CONNECTIONS", 3)
    all = Peers()
    first = admitted(all)
    assert admitted(all)
    assert not admitted(all)
    assert admitted(all, "10.0.0.2")
    assert not admitted(all, "10.0.0.3")
    all.release(first)
    assert admitted(all)


def test_what_sends_no_request_is_ended() -> None:
    clock = Clock()
    all = Peers(clock)
    silent, served, done = admitted(all), admitted(all), admitted(all)
    all.note_request(served, is_served=True)
    all.note_request(done, is_served=True)
    clock.now += REQUEST_SECONDS
    all.note_request(done, is_served=False)
    clock.now += 1
    all.look()
    assert (silent.is_aborted, served.is_aborted, done.is_aborted) == (True, False, False)


def test_what_reads_nothing_is_ended_and_what_reads_slowly_is_not() -> None:
    clock = Clock()
    all = Peers(clock)
    stuck, slow = admitted(all), admitted(all)
    for each in (stuck, slow):
        all.note_request(each, is_served=True)
        each.unread = 10 * STALLED_PART
    all.look()
    for _ in range(3):
        clock.now += STALLED_SECONDS / 2 + 1
        slow.unread -= STALLED_PART
        all.look()
    assert (stuck.is_aborted, slow.is_aborted) == (True, False)
