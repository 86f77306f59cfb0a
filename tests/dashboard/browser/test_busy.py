"""A hundred clients while somebody looks: what the page shows of their messages is what their own log says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.browser.busy_clients import LOGGED, Log
from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.watched_page import WatchedPage
from tests.dashboard.browser.watching import MIB, WATCH

pytestmark = [pytest.mark.real, pytest.mark.once]  # the page is not compiled

MINUTES = float(os.environ.get("AMQPROXY_TEST_MINUTES", "10"))
RATE = 2_000
FLUENT = 0.95
"""Share of looks at which the newest row has to be less than a second old: other programs use the machine too."""

UNKNOWN = 0.05
"""Most messages of which the end may be unknown, since their connection is no longer among those that are shown."""

RING = "4MiB"
"""Limit of the dashboard's rings: of traffic that is only shown in part, larger ones fill in a quarter of an hour."""

GRACE = 1 / 3
"""Share of the looks after which memory is taken as what it stays at: the server's rings are full by then."""


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_every_life_of_a_message_is_as_its_clients_log_it(tmp_path: Path, page: WatchedPage) -> None:
    running = Stage(tmp_path, dashboard={"listen": "127.0.0.1:0", "ring": RING})
    log = tmp_path / "clients.json"
    options = [str(running.port), str(MINUTES * 60), str(RATE), str(log)]
    start = [sys.executable, "-m", "tests.dashboard.browser.busy_clients", *options]
    shown: dict[str, dict[str, Any]] = {}
    ages: list[float] = []
    memory: list[tuple[int, int, int]] = []
    try:
        with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as clients:
            assert clients.stdout is not None
            assert clients.stdout.readline() == "ready\n"
            page.goto(running.url + "messages")
            page.page.get_by_role("grid", name="Messages").wait_for()
            while clients.poll() is None:
                seen = page.page.evaluate(WATCH, 3)
                ages += seen["ages"]
                memory.append((running.server.memory_info().rss // MIB, seen["heap"] // MIB, running.rss() // MIB))
                collect(running.get("sources/0/messages?limit=500")["rows"], shown)
        assert clients.returncode == 0
        truth = json.loads(log.read_text())
        lost = running.get("sources/0/overview")["lost"]
    finally:
        running.kill()
    fates: Log = truth["fates"]
    counts = truth["counts"]
    assert counts["publish"] == counts["published"] == counts["deliver"] + counts["returned"]
    false = [row for row in shown.values() if not is_open(row) and not is_true(row, fates)]
    unknown = sum(map(is_open, shown.values())) / len(shown)
    fluent = sum(age < 1 for age in ages) / len(ages)
    print(f"{counts['published']:,} messages, {len(shown):,} rows compared: {len(false)} false, {unknown:.2%} unknown")
    print(f"lost {lost:,}; newest row under 1 s old in {fluent:.2%} of {len(ages)} looks; {max(ages):.2f} s at most")
    settled = memory[int(GRACE * len(memory))]
    print(f"MiB of server, page, proxy: {settled} -> {memory[-1]}")
    assert len(shown) > 10 * MINUTES
    assert not false, false[:5]
    assert unknown <= UNKNOWN
    assert fluent >= FLUENT, sorted(ages)[-20:]
    for before, after in zip(settled, memory[-1], strict=True):
        assert after < 1.2 * before + 20
    assert page.violations() == []


def collect(rows: list[dict[str, Any]], shown: dict[str, dict[str, Any]]) -> None:
    """Keep the rows of messages that clients log."""
    for row in rows:
        name = (row.get("properties") or {}).get("message_id")
        if name and int(name.rpartition("-")[2]) % LOGGED == 0:
            shown[f"{row['type']} {name}"] = row


def is_open(row: dict[str, Any]) -> bool:
    """Whether a row claims nothing of the end."""
    return row["outcome"] in ("unknown", "pending")


def is_true(row: dict[str, Any], fates: Log) -> bool:
    """Whether a row says what the clients' log says of its message."""
    name = row["properties"]["message_id"]
    fate = fates.get(name, {})
    if row["type"] == "publish":
        return row["outcome"] == fate.get("publish") and (row.get("code") == 312) == ("returned" in fate)
    if row["type"] == "deliver":
        return row["outcome"] == fate.get("deliver") and row.get("queue") == f"busy-{name.partition('-')[0]}"
    return row["type"] == "return" and "returned" in fate
