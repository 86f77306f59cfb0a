"""Captures that are played to a broker from a browser."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from amqproxy.dashboard import replays
from amqproxy.testing.local_broker import LocalBroker
from tests.cli.process import silent_broker
from tests.dashboard.conftest import CAPTURES, Dashboard

pytestmark = [pytest.mark.once, pytest.mark.slow]

REPLAY, REPLAYS = "/api/v1/captures/replay", "/api/v1/captures/replays"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def ended(client: TestClient, number: int) -> dict[str, Any]:
    """How a replay stands once it has ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found: dict[str, Any] = next(each for each in client.get(REPLAYS).json()["replays"] if each["id"] == number)
        if found["state"] != "running":
            return found
        time.sleep(0.05)
    raise AssertionError("it does not end")


def capture(name: str) -> str:
    return str((CAPTURES / f"{name}.pcapng").resolve())


def test_a_replay_reports_what_the_broker_answers_otherwise(dashboard: Dashboard, broker: LocalBroker) -> None:
    client = dashboard("blocked", "confirms")
    answer = client.post(REPLAY, json={"path": capture("blocked"), "to": broker.url, "speed": "max"})
    assert (answer.status_code, answer.json()["state"]) == (202, "running")
    found = ended(client, answer.json()["id"])
    assert (found["state"], found["difference_count"]) == ("different", 2)
    assert found["text"] == "replay: the broker's answers differ"
    assert [each["method"] for each in found["differences"]] == ["connection.blocked", "connection.unblocked"]
    assert found["summary"]["commands_sent"] > 0
    assert found["to"] == broker.url.replace("guest:guest", "guest")
    answer = client.post(REPLAY, json={"path": capture("confirms"), "to": broker.url.split("@")[1], "speed": "max"})
    assert ended(client, answer.json()["id"])["state"] == "same"
    listed = client.get(REPLAYS, params={"differences": 1}).json()["replays"]
    assert [(each["name"], len(each["differences"])) for each in listed] == [
        ("confirms.pcapng", 0),
        ("blocked.pcapng", 1),
    ]


def test_a_replay_says_how_far_it_has_come(dashboard: Dashboard, broker: LocalBroker) -> None:
    client = dashboard("confirms")
    task = {"path": capture("confirms"), "to": broker.url, "speed": "max", "loop": 0}
    number = client.post(REPLAY, json=task).json()["id"]
    progress: dict[str, Any] | None = None
    deadline = time.monotonic() + 60
    while progress is None or progress["loop"] < 2:
        assert time.monotonic() < deadline
        [found] = client.get(REPLAYS).json()["replays"]
        progress = found["progress"]
        assert found["state"] == "running"
        time.sleep(0.05)
    assert progress["commands_sent"] > 10
    assert progress["answers_compared"] > 0
    found = client.delete(f"{REPLAYS}/{number}").json()
    assert found["summary"]["commands_sent"] >= progress["commands_sent"]


def test_no_list_of_processes_and_no_log_has_the_password(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    with silent_broker() as (url, is_greeted), capture_logs() as logs:
        address = url.removeprefix("amqp://")
        to = f"amqp://guest:pass%20w0rd@{address}/test"
        started = client.post(REPLAY, json={"path": capture("confirms"), "to": to, "loop": 0}).json()
        assert started["to"] == f"amqp://guest@{address}/test"
        assert is_greeted.wait(30)
        processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert "amqproxy.dashboard.replay_child" in processes
        found = client.delete(f"{REPLAYS}/{started['id']}").json()
    assert found["state"] == "ended"
    assert [(each["action"], each["outcome"]) for each in logs if each["event"] == "dashboard action"] == [
        ("replay", "started"),
        ("replay-end", "done"),
        ("replay", "ended"),
    ]
    assert {each["by"] for each in logs} == {"testclient"}
    for text in (processes, str(logs), str(found), str(started)):
        assert "w0rd" not in text


def test_a_replay_that_hangs_is_killed(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(replays, "KILL_SECONDS", 0.1)
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(replays.sys, "executable", str(hanging))
    client = dashboard("confirms")
    task = {"path": capture("confirms"), "to": "127.0.0.1:1"}
    numbers = [client.post(REPLAY, json=task).json()["id"] for _ in range(replays.MAX_RUNNING)]
    refused = client.post(REPLAY, json=task)
    assert (refused.status_code, refused.json()["detail"]) == (409, "2 replays are running already: end one, or wait")
    for number in numbers:
        assert client.delete(f"{REPLAYS}/{number}").json()["state"] == "ended"
    assert client.delete(f"{REPLAYS}/99").status_code == 404


def test_what_cannot_be_played_is_refused(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    path = capture("confirms")
    for task, status, text in (
        ({"path": "/etc/passwd", "to": "127.0.0.1:1"}, 404, "no such capture"),
        ({"path": path, "to": "http://u:s3cret@x/"}, 400, "to: a broker's URL begins with"),
        ({"path": path, "to": "amqp://u:s3cret@x:99999/"}, 400, "to: the port is a number"),
        ({"path": path, "to": "amqp://[u:s3cret"}, 400, "to: the URL cannot be read"),
        ({"path": path, "to": "x", "speed": 0}, 422, "speed"),
        ({"path": path, "to": "x", "clients": 0}, 422, "clients"),
    ):
        answer = client.post(REPLAY, json=task)
        assert (answer.status_code, text in answer.json()["detail"]) == (status, True), answer.text
        assert "s3cret" not in answer.text
    failed = client.post(REPLAY, json={"path": path, "to": "127.0.0.1:1"}).json()
    found = ended(client, failed["id"])
    assert found["state"] == "failed"
    assert "127.0.0.1:1" in found["text"]
    only_shows = dashboard("confirms", read_only=True)
    assert only_shows.post(REPLAY, json={"path": path, "to": "x"}).status_code == 403
    assert only_shows.get(REPLAYS).json() == {"replays": []}
