"""A proxy as a source: live, gone, restarted, hanging, sending rubbish."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from amqproxy.amqp091.methods import BasicAck
from amqproxy.capture.unreadable_bytes import MISSING
from amqproxy.control import RequestError
from amqproxy.control.proxy_requests import ProxyRequests
from amqproxy.dashboard import feed_pace, proxy_source
from amqproxy.dashboard.api import captures
from amqproxy.dashboard.feed_pace import FRESH
from amqproxy.dashboard.frame_query import find
from amqproxy.dashboard.frame_selection import FrameSelection
from amqproxy.dashboard.list_query import ListQuery
from amqproxy.dashboard.message_query import find_messages
from amqproxy.dashboard.message_selection import MessageSelection
from amqproxy.dashboard.missing_frames import MissingFrames
from amqproxy.dashboard.proxy_source import ProxySource
from amqproxy.dashboard.ring_reading import selected
from amqproxy.dashboard.selection import Place
from amqproxy.dashboard.settings import Settings
from amqproxy.dashboard.source import SourceState
from amqproxy.dashboard.sources import Sources
from amqproxy.taps.observer import Observer
from amqproxy.taps.record import encoded
from tests.dashboard.conftest import CAPTURES
from tests.dashboard.fake_proxy import HELLO, OPEN, FakeProxy

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_source, "FIRST_PAUSE", 0.005)
    monkeypatch.setattr(proxy_source, "LONGEST_PAUSE", 0.02)
    monkeypatch.setattr(proxy_source, "SAMPLE_SECONDS", 0.02)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def played(tmp_path: Path, test: Callable[[FakeProxy, ProxySource], Awaitable[None]]) -> None:
    """Run a test with a proxy, and a source that reads it."""

    async def run() -> None:
        path = tmp_path / "control.sock"
        source = ProxySource(0, path, 1 << 20, lambda: None)
        task = asyncio.create_task(source.run())
        try:
            await test(FakeProxy(path), source)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(run())


def test_what_passes_is_there_numbered_as_its_session(tmp_path: Path) -> None:
    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        assert source.state is SourceState.CONNECTING
        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            proxy.passes(7, OPEN)
            await until(lambda: source.ring.next_seq > 0)
            assert {entry.decoded.stream for entry in source.ring.snapshot()} == {7}
            assert (source.version, "close" in source.understood) == ("9.9", True)
            await until(lambda: any(each["request"] == "more" for each in proxy.asked))

    played(tmp_path, test)


def test_what_is_late_is_skipped(tmp_path: Path) -> None:
    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        def granted() -> list[float | None]:
            return [each.get("max_age") for each in proxy.asked if each["request"] == "more"]

        async with proxy.running():
            await until(lambda: len(granted()) == 1)
            proxy.passes(7, OPEN)
            await until(lambda: len(granted()) == 2)
            proxy.passes(7, OPEN, ts_ns=time.time_ns())
            await until(lambda: len(granted()) == 3)
            assert granted() == [None, None, None]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(feed_pace, "PATIENT_BATCHES", 1)
                patch.setattr(feed_pace, "PATIENT_FRAMES", 0)
                patch.setattr(feed_pace, "PATIENCE", 0)
                proxy.send({"event": "batch", "behind": 4.0})
                await until(lambda: len(granted()) == 4)
            assert granted()[-1] == FRESH

    played(tmp_path, test)


def test_what_was_lost_is_one_row_and_a_gap_in_each_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = []
    monkeypatch.setattr(Observer, "gap", lambda self, peer, *_, **__: gaps.append((self._recorder._stream, peer)) or [])

    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        def rows() -> list[dict[str, Any]]:
            return [json.loads(row) for row in find(source.ring.snapshot(), FrameSelection(), ListQuery()).rows]

        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            for session in (1, 2):
                proxy.passes(session, OPEN)
            proxy.send({"event": "lost", "count": 3})
            proxy.send({"event": "lost", "count": 4})
            for session in (1, 2):
                proxy.loses(session, 3)
                proxy.passes(session, OPEN)
            await until(lambda: len(rows()) == 5)
            assert [(row["seq"], row["type"], row.get("count")) for row in rows()] == [
                *((seq, "method", None) for seq in (0, 1)),
                (2, "gap", 7),
                *((seq, "method", None) for seq in (3, 4)),
            ]
            assert "could show" in rows()[2]["reason"]
            filtered = FrameSelection("method == 'basic.ack'", Place(connection="1"))
            assert [json.loads(row)["type"] for row in find(source.ring.snapshot(), filtered, ListQuery()).rows] == [
                "gap"
            ]
            assert not any(
                isinstance(each, MissingFrames)
                for each in selected(source.ring.snapshot(), FrameSelection(), ListQuery())
            )
            assert gaps == [(1, "client"), (2, "client")]
        await until(lambda: rows()[-1]["type"] == "gap")
        assert rows()[-1]["reason"] == proxy_source.LOST

    played(tmp_path, test)


def test_a_gap_is_one_row_of_messages_whatever_the_filter(tmp_path: Path) -> None:
    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        def gaps(filter: str | None = None) -> list[int | None]:
            messages = source.observed.messages.snapshot()
            found = find_messages(messages, MessageSelection(filter, Place(connection="1")), ListQuery()).rows
            return [
                row.get("count")
                for row in map(json.loads, found)
                if row["type"] == "gap" or row.get("reason") == MISSING
            ]

        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            for session in (1, 2, 3):
                proxy.passes(session, OPEN)
            proxy.send({"event": "lost", "count": 6})
            for session in (1, 2, 3):
                proxy.loses(session, 2)
                proxy.passes(session, OPEN)
            await until(lambda: source.ring.next_seq == 7)
            for filter in (None, "method == 'basic.ack'"):
                assert gaps(filter) == [6]
        await until(lambda: gaps("method == 'basic.ack'") == [6, None])

    played(tmp_path, test)


def test_a_proxy_that_is_restarted(tmp_path: Path) -> None:
    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            proxy.passes(1, OPEN)
            await until(lambda: source.ring.next_seq > 0)
        await until(lambda: source.state is SourceState.RETRYING)
        rows = source.ring.next_seq
        assert source.observed.connections.seen[1].is_open
        proxy.pid = 2
        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            assert (source.restarts, source.ring.next_seq) == (1, rows)  # what it had sent is still here
            assert source.observed.connections.seen[1].ended == "the proxy was restarted"
            proxy.passes(1, OPEN)
            await until(lambda: source.ring.next_seq > rows)
            assert source.observed.connections.seen[1].is_open

    played(tmp_path, test)


def test_a_proxy_that_hangs_and_goes_on(tmp_path: Path) -> None:
    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        source.requests = source.counter_requests = ProxyRequests(source.path, patience=0.1)
        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            proxy.is_hanging = True
            await until(lambda: source.state is SourceState.RETRYING)
            assert "does not answer" in source.reason
            with pytest.raises(RequestError, match="does not answer"):
                await source.requests.ask("connections")
            proxy.is_hanging = False
            await until(lambda: source.state is SourceState.LIVE)

            def is_seen() -> bool:
                proxy.passes(1, OPEN)  # again, for with so little patience the source may connect once more meanwhile
                return source.ring.next_seq > 0

            await until(is_seen)

    played(tmp_path, test)


@pytest.mark.parametrize(
    "rubbish",
    [
        b"{no json",
        b'{"event":"packets"}',
        b'{"event":"packets","data":"!"}',
        b'{"event":"packets","data":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="}',
        b'{"ok":false,"error":"busy","text":"too many"}',
    ],
)
def test_rubbish_is_contained_and_the_proxy_tried_again(tmp_path: Path, rubbish: bytes) -> None:
    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            proxy.send(rubbish)
            await until(lambda: sum(each["request"] == "subscribe" for each in proxy.asked) > 1)
            await until(lambda: source.state is SourceState.LIVE)
            proxy.passes(3, OPEN)
            await until(lambda: source.ring.next_seq > 0)

    with capture_logs():
        played(tmp_path, test)


def test_what_was_lost_is_counted(tmp_path: Path) -> None:
    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            proxy.send({"event": "lost", "count": 5})
            await until(lambda: source.lost == 5)
            proxy.send({"event": "findings-lost", "count": 2})
            await until(lambda: source.lost_findings == 2)
            assert source.lost == 5

    played(tmp_path, test)


def test_how_many_connections_are_shown_is_told(tmp_path: Path) -> None:
    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            proxy.send({"event": "sample", "shown": 7, "of": 100})
            await until(lambda: source.describe(read_only=True)["sample"] == {"shown": 7, "of": 100})
            proxy.send({"event": "sample", "shown": None, "of": 100})
            await until(lambda: source.sample is None)

    played(tmp_path, test)


def test_findings_are_those_of_the_proxy(tmp_path: Path) -> None:
    """Its own gaps do not make any: the dashboard evaluates none, and shows what the proxy sends."""
    sent = {
        "ts_ns": 1,
        "stream": 7,
        "connection": "10.0.0.7:40000-10.0.0.9:5672",
        "kind": "unknown-ack",
        "severity": "error",
        "text": "delivery tag 9 is acked",
        "evidence": [{"from": "client", "number": 2}],
        "why": "w",
        "remedy": "r",
    }

    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            asked = [each for each in proxy.asked if each["request"] == "subscribe"]
            assert all(each["findings"] for each in asked)
            proxy.passes(7, OPEN, BasicAck(9))
            await until(lambda: source.ring.next_seq > 0)
            assert not source.observed.findings.rows
            proxy.send({"event": "finding", "record": sent})
            proxy.send({"event": "finding", "record": sent | {"evidence": [{"from": "client", "number": 12}]}})
            await until(lambda: len(source.observed.findings.rows) == 2)
            assert source.observed.kinds["unknown-ack"] == 2
            linked, other = [json.loads(row.shown or row.json) for row in source.observed.findings.rows.values()]
            assert linked["evidence"] == [{"from": "client", "number": 2, "seq": 1}]
            assert other["evidence"] == [{"from": "client", "number": 12}]  # the proxy has seen more than the dashboard

    played(tmp_path, test)


def test_what_a_proxy_says_of_itself_has_a_bound(tmp_path: Path) -> None:
    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        long = "x" * 2_000
        requests = [*HELLO["requests"], *[f"{number}{long}" for number in range(1000)]]
        proxy.answers["hello"] = lambda request: {
            **HELLO,
            "version": long,
            "requests": requests,
            "listen": [long] * 1000,
        }
        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            assert len(encoded(source.describe(read_only=False))) < 100_000

    played(tmp_path, test)


def test_a_proxy_that_hangs_does_not_hold_up_the_captures_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(proxy: FakeProxy, source: ProxySource) -> None:
        recording = {"ok": True, "recording": {"directory": str(tmp_path)}}
        proxy.answers["hello"] = lambda request: {**HELLO, "requests": [*HELLO["requests"], "record-status"]}
        proxy.answers["record-status"] = lambda request: recording
        sources = Sources(Settings(captures=(CAPTURES,)))
        sources.sources[7] = source
        async with proxy.running():
            await until(lambda: source.state is SourceState.LIVE)
            assert await captures.directories(sources) == {CAPTURES, tmp_path}
            proxy.is_hanging = True
            monkeypatch.setattr(captures, "DIRECTORY_SECONDS", 0.05)
            async with asyncio.timeout(5):
                assert await captures.directories(sources) == {CAPTURES, tmp_path}
            proxy.is_hanging = False

    played(tmp_path, test)
