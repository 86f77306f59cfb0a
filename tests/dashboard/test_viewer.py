"""The WebSocket: views with filters, cursors and credit; and browsers that misbehave."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from starlette.testclient import TestClient, WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

from amqproxy.amqp091.frame import HEARTBEAT_FRAME
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.dashboard import live_view, viewer
from amqproxy.dashboard.api import live as live_api
from amqproxy.dashboard.frame_selection import FrameSelection
from amqproxy.dashboard.live_view import MAX_BATCH_ROWS, AgeLimit, FrameView
from amqproxy.dashboard.ring import Ring
from amqproxy.dashboard.row_writer import RowWriter
from amqproxy.dashboard.shared_rows import SharedRows
from amqproxy.dashboard.viewer import MAX_VIEWS
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from tests.dashboard.conftest import Dashboard

LIVE = "ws://127.0.0.1:8672/api/v1/live"


def view(session: WebSocketTestSession, name: str = "a", **keys: Any) -> dict[str, Any]:
    """Ask for a view: what is answered."""
    session.send_json({"type": "view", "view": name, "source": 0, **keys})
    return next_of(session, "view")


def next_of(session: WebSocketTestSession, kind: str) -> dict[str, Any]:
    while True:
        message: dict[str, Any] = session.receive_json()
        if message["type"] == kind:
            return message


def seqs(batch: dict[str, Any]) -> list[int]:
    return [row["seq"] for row in batch["rows"]]


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are whole, however long a busy machine takes for them."""
    monkeypatch.setattr(live_view, "BUILD_SECONDS", 600.0)


@pytest.fixture
def client(dashboard: Dashboard) -> TestClient:
    return dashboard("confirms")


def test_frames_behind_a_row(client: TestClient) -> None:
    with client.websocket_connect(LIVE) as live:
        assert view(live, after=-1)["ok"]
        batch = next_of(live, "batch")
        assert seqs(batch) == list(range(32))
        assert (batch["seq"], batch["skipped"]) == (31, 0)
        assert view(live, after=28)["ok"]
        assert seqs(next_of(live, "batch")) == [29, 30, 31]


def test_a_filter_and_a_place(client: TestClient) -> None:
    with client.websocket_connect(LIVE) as live:
        view(live, after=-1, filter="method == 'basic.ack'")
        assert seqs(next_of(live, "batch")) == [16, 27]
        view(live, after=-1, filter="user == 'guest' && channel.number == 1 && body == 'refused'")
        assert seqs(next_of(live, "batch")) == [17, 18, 19]
        view(live, "b", after=-1, channel=0)
        assert {row.get("channel", 0) for row in next_of(live, "batch")["rows"]} == {0}


@pytest.mark.parametrize("what", ["frames", "messages"])
def test_a_filter_that_fails_says_so_once(client: TestClient, what: str) -> None:
    expression = "int(routing_key) >= 0"
    with client.websocket_connect(LIVE) as live:
        view(live, what=what, after=-1, filter=expression, credit=1)
        warning = next_of(live, "batch")["warning"]
        assert warning.startswith(f"'{expression}' fails on some records, which are shown (reported once): ")
        view(live, what=what, after=-1, filter="routing_key != 'x'")
        assert next_of(live, "batch")["warning"] is None
    answer = client.get(f"/api/v1/sources/0/{what}", params={"filter": expression}).json()
    assert (answer["warning"], len(answer["rows"]) > 0) == (warning, True)


def test_messages_and_findings(client: TestClient) -> None:
    with client.websocket_connect(LIVE) as live:
        view(live, what="messages", after=-1, filter="body == 'refused'")
        (row,) = next_of(live, "batch")["rows"]
        assert (row["type"], row["outcome"], row["frame"]) == ("publish", "nacked", 19)
        view(live, what="findings", after=-1)
        assert {row["kind"] for row in next_of(live, "batch")["rows"]} >= {"nacked-publish"}


def test_a_wrong_filter_has_its_place(client: TestClient) -> None:
    with client.websocket_connect(LIVE) as live:
        answer = view(live, filter="method ==")
        assert (answer["ok"], answer["at"]) == (False, 9)
        assert not view(live, source=7)["ok"]


def test_rubbish_is_answered_and_harms_nobody(client: TestClient) -> None:
    with client.websocket_connect(LIVE) as live:
        for text in ("", "{", "[]", '{"type":"view"}', '{"type":"nothing"}', '{"type":"more","view":"b"}', "\udc80"):
            live.send_text(text.encode("utf-8", "replace").decode())
        assert "not understood" in next_of(live, "error")["text"]
        assert view(live, after=-1)["ok"]
        assert next_of(live, "batch")["rows"]


def test_there_are_not_too_many_views(client: TestClient) -> None:
    with client.websocket_connect(LIVE) as live:
        assert all(view(live, str(number), credit=0)["ok"] for number in range(MAX_VIEWS))
        assert not view(live, "one more")["ok"]
        live.send_json({"type": "end", "view": "0"})
        assert view(live, "one more")["ok"]


def test_many_browsers_that_never_read(client: TestClient) -> None:
    sessions = [client.websocket_connect(LIVE) for _ in range(100)]
    for session in sessions:
        session.__enter__()
        session.send_json({"type": "view", "view": "a", "source": 0, "after": -1})
    with client.websocket_connect(LIVE) as live:
        view(live, after=-1)
        assert len(next_of(live, "batch")["rows"]) == 32
    for session in sessions:
        session.__exit__(None, None, None)


# --- without a server


def heartbeats(count: int) -> Amqp091DecodedFrames:
    return Amqp091DecodedFrames(1, 1, "a-b", "client", Amqp091Chunk(HEARTBEAT_FRAME * count, 0))


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_rows_are_made_once_for_all_who_show_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    write = RowWriter.rows
    monkeypatch.setattr(RowWriter, "rows", lambda self, *asked: made.append(asked) or write(self, *asked))
    ring = Ring(1 << 20)
    rows = SharedRows()
    views = [FrameView(ring, rows, FrameSelection(), None) for _ in range(100)]
    for number in range(5):
        ring.append(heartbeats(10 + number))
    batches = [view.batch() for view in views]
    assert len(made) == 5
    assert all(batch == batches[0] for batch in batches)
    assert [json.loads(row)["seq"] for row in batches[0].rows] == list(range(60))  # type: ignore[union-attr]
    shared = SharedRows(25)
    for number, entry in ring.entries.items():
        assert len(shared.rows_of(number, entry)) == entry.count
        assert shared.size <= 25


def test_credit_is_used_up_and_given_again() -> None:
    ring = Ring(1 << 20)
    ring.append(heartbeats(3 * MAX_BATCH_ROWS))
    shown = FrameView(ring, SharedRows(), FrameSelection(), -1, clock=Time())
    batches = [shown.batch() for _ in range(3)]
    assert [len(each.rows) if each else None for each in batches] == [MAX_BATCH_ROWS, MAX_BATCH_ROWS, None]
    shown.grant(1)
    last = shown.batch()
    assert last is not None
    assert (len(last.rows), shown.has_more) == (MAX_BATCH_ROWS, False)


def test_who_is_behind_is_told_how_much_was_skipped() -> None:
    time = Time()
    ring = Ring(1 << 20, clock=time)
    shown = FrameView(ring, SharedRows(), FrameSelection(), None, max_age=1.0, clock=time)
    ring.append(heartbeats(10))
    time.now = 5.0
    ring.append(heartbeats(3))
    batch = shown.batch()
    assert batch is not None
    assert (len(batch.rows), batch.skipped, batch.seq) == (3, 10, 12)


def test_what_came_while_the_browser_read_the_past_is_shown_however_late_it_asks() -> None:
    time = Time()
    ring = Ring(1 << 20, clock=time)
    ring.append(heartbeats(5))
    time.now = 10.0
    ring.append(heartbeats(2))
    time.now = 12.0
    shown = FrameView(ring, SharedRows(), FrameSelection(), -1, max_age=1.0, clock=time)
    ring.append(heartbeats(3))
    time.now = 14.0
    ring.append(heartbeats(1))
    batch = shown.batch()
    assert batch is not None
    assert (batch.skipped, batch.rows[0][:8]) == (5, b'{"seq":5')


def test_both_kinds_of_lists_have_one_limit_of_age() -> None:
    """What came shortly before a list began is not too old for it; what came before or behind that, may be."""
    time = Time()
    time.now = 10.0
    limit = AgeLimit(1.0, time)
    time.now = 20.0
    times = (6.9, 7.0, 9.9, 10.0, 18.9, 19.0, 19.7, 19.9)
    assert list(map(limit(), times)) == [True, False, False, True, True, True, True, False]
    assert not limit()(19.0)  # only where something is skipped, so is all but the newest
    assert not AgeLimit(None, time)()(0.0)


def test_what_is_overwritten_is_counted() -> None:
    ring = Ring(10_000)
    shown = FrameView(ring, SharedRows(), FrameSelection(), None)
    for _ in range(100):
        ring.append(heartbeats(10))
    batch = shown.batch()
    assert batch is not None
    assert len(batch.rows) + batch.skipped == 1000
    assert ring.size <= 10_000


def test_a_batch_of_large_rows_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_view, "MAX_BATCH_BYTES", 3000)
    ring = Ring(1 << 20)
    shown = FrameView(ring, SharedRows(), FrameSelection(), -1)
    for _ in range(10):
        ring.append(heartbeats(10))
    found = []
    while shown.has_more:
        batch = shown.batch()
        assert batch is not None
        assert sum(map(len, batch.rows)) < 6000
        found += [json.loads(row)["seq"] for row in batch.rows]
        shown.grant(1)
    assert found == list(range(100))


def test_rows_that_are_shared_have_a_bound_in_bytes() -> None:
    ring = Ring(1 << 20)
    shared = SharedRows(memory=3000)
    for _ in range(20):
        ring.append(heartbeats(10))
    for number, entry in ring.entries.items():
        assert len(shared.rows_of(number, entry)) == 10
    assert shared.memory_used < 6000


def test_a_browser_that_asks_without_end_waits(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has saved up is spent; another has its answers meanwhile."""
    monkeypatch.setattr(viewer, "VIEW_SECONDS", 0.5)
    with client.websocket_connect(LIVE) as hostile, client.websocket_connect(LIVE) as live:
        began = time.monotonic()
        for number in range(6):
            hostile.send_json({"type": "view", "view": f"x{number}", "source": 0, "after": -1})
        assert view(live, after=-1)["ok"]
        assert next_of(live, "batch")["rows"]
        names = [next_of(hostile, "view")["view"] for _ in range(6)]
        assert names == [f"x{number}" for number in range(6)]
        assert time.monotonic() - began > 1.0


def test_there_are_not_too_many_browsers(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_api, "MAX_OF_ONE", 2)
    with client.websocket_connect(LIVE), client.websocket_connect(LIVE) as second:
        with pytest.raises(WebSocketDisconnect) as refused, client.websocket_connect(LIVE):
            pass
        assert refused.value.code == 1013
        assert view(second, after=-1)["ok"]
    with client.websocket_connect(LIVE) as live:
        assert view(live, after=-1)["ok"]
