"""Runs over queues by the API: what is said before, what each does, and who may."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amqproxy.dashboard.workbench_runs import AUDIT
from tests.dashboard.api.api_browser import ApiBrowser
from tests.dashboard.browser.broker_stage import furnish, queue_of
from tests.dashboard.browser.stage import Stage
from tests.dashboard.conftest import Dashboard
from tests.real.poll import until

pytestmark = [pytest.mark.real, pytest.mark.once]

RUNS = "sources/0/workbench/runs"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workbench")


@pytest.fixture(scope="module")
def stage(directory: Path) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(AUDIT, str(directory / "audit.jsonl"))
        running = Stage(directory)
    try:
        furnish(running)
        yield running
    finally:
        running.kill()


def started(browser: ApiBrowser, command: str, queue: str = "dead", **keys: Any) -> dict[str, Any]:
    """Begin a run, and return it when it has ended."""
    status, run = browser.ask("POST", RUNS, {"command": command, "queue": queue, **keys})
    assert status == 202, run

    def ended() -> Any:
        found = browser.ask("GET", f"{RUNS}/{run['id']}")[1]
        return found if found["state"] != "running" else None

    until(lambda: ended() is not None, "the run to end")
    found: dict[str, Any] = ended()
    return found


def test_runs(stage: Stage, directory: Path) -> None:
    guest = ApiBrowser(stage)
    assert guest.ask("POST", RUNS, {"command": "peek", "queue": "dead", "limit": 1})[0] == 403
    assert guest.log_in()[0] == 200

    status, facts = guest.ask("POST", "sources/0/workbench/facts", {"queue": "dead"})
    assert (status, facts["state"]) == (200, "done")
    assert facts["before"]["facts"] == {"type": "classic", "messages": 6, "consumers": 0}
    assert "as redelivered" in facts["before"]["lines"][0]
    assert "old places" in facts["before"]["lines"][1]

    peeked = started(guest, "peek", limit=2, where="headers.tenant == 'acme'")
    assert (peeked["state"], peeked["result"]["done"]) == ("done", 2)
    first, _ = peeked["messages"]
    assert (first["position"], first["form"], json.loads(first["shown"])) == (1, "json", {"order": 1})
    assert first["properties"]["headers"]["x-first-death-queue"] == "orders"

    moved = started(guest, "move", to="moved", dry_run=True)
    assert (moved["state"], moved["result"]["done"], queue_of(stage, "moved")["ready"]) == ("done", 6, 0)
    moved = started(guest, "move", to="moved", limit=1)
    assert (moved["state"], moved["result"]["done"], queue_of(stage, "moved")["ready"]) == ("done", 1, 1)
    assert moved["result"]["to"] == "queue 'moved'"

    properties = first["properties"] | {"type": "mended"}
    one = {"position": first["position"] - 1, "digest": first["digest"], "properties": properties, "body": '{"a": 1}'}
    wrong = started(guest, "edit", one=one | {"digest": "0" * 32})
    assert wrong["state"] == "left"
    assert "another message is in this place" in wrong["result"]["left"][0]["reason"]
    dry = started(guest, "edit", one=one, goes_back=True, dry_run=True)
    edited = started(guest, "edit", one=one, goes_back=True)
    assert edited["state"] == "done"
    assert dry["edits"][0]["changes"] == edited["edits"][0]["changes"]
    [edit] = edited["edits"]
    assert edit["changes"]["properties.type"] == {"from": None, "to": "mended"}
    assert '+{"a": 1}' in edit["changes"]["body"]["diff"]
    assert queue_of(stage, "orders")["ready"] == 1

    every = {"headers": {"again": True}, "properties": {"priority": 3}}
    assert started(guest, "edit", every=every, limit=1)["edits"][0]["changes"]["headers.again"]["to"] is True
    assert started(guest, "requeue", where="headers.tenant == 'acme'")["result"]["done"] == 2
    drained = started(guest, "drain", file="rest.jsonl")
    assert (drained["state"], queue_of(stage, "dead")["ready"]) == ("done", 0)
    assert re.fullmatch(r"rest-\d+-[0-9a-f]{8}\.jsonl", drained["result"]["to"])
    with guest.open("GET", f"{RUNS}/{drained['id']}/file") as response:
        assert len(response.read().splitlines()) == drained["result"]["done"] == 2

    assert len(guest.ask("GET", RUNS)[1]["runs"]) > 5
    other = ApiBrowser(stage)
    assert other.ask("GET", RUNS) == (200, {"runs": []})
    assert other.ask("GET", f"{RUNS}/{drained['id']}")[0] == 403
    assert guest.change("put-user", name="other", password="other", tags=["administrator"])[0] == 200
    assert other.log_in(user="other", password="other")[0] == 200
    assert other.ask("GET", RUNS) == (200, {"runs": []})
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/file")):
        assert other.ask(method, f"{RUNS}/{drained['id']}{path}")[0] == 404
    same = ApiBrowser(stage)
    assert same.log_in()[0] == 200
    assert same.ask("GET", f"{RUNS}/{drained['id']}")[0] == 200

    lines = [json.loads(each) for each in (directory / "audit.jsonl").read_text().splitlines()]
    begun = [each for each in lines if each["event"] == "begun"]
    assert {each["command"] for each in begun} == {"move", "edit", "requeue", "drain"}
    assert {each["dashboard"] for each in begun} == {"127.0.0.1"}
    assert next(each["changes"] for each in lines if each["event"] == "edited") == edit["changes"]
    assert "queue-drain" in stage.log


def test_a_quorum_queue_and_a_stream_are_known(stage: Stage) -> None:
    guest = ApiBrowser(stage)
    guest.log_in()
    facts = guest.ask("POST", "sources/0/workbench/facts", {"queue": "quorum"})[1]["before"]
    assert facts["facts"]["type"] == "quorum"
    assert any("delivery limit" in line for line in facts["lines"])
    stream = guest.ask("POST", "sources/0/workbench/facts", {"queue": "log"})[1]["before"]
    assert stream["lines"] == ["A stream is read from an offset: nothing in it changes."]
    refused = started(guest, "move", "log", to="moved")
    assert (refused["state"], "cannot be taken out" in refused["text"]) == ("failed", True)


def test_wrong_runs_are_refused(stage: Stage) -> None:
    guest = ApiBrowser(stage)
    guest.log_in()
    before = queue_of(stage, "dead")["ready"]
    for body, status in [
        ({"command": "move"}, 400),
        ({"command": "move", "to": "dead"}, 400),
        ({"command": "edit"}, 400),
        ({"command": "drain"}, 400),
        ({"command": "drain", "file": "../a.jsonl"}, 422),
        ({"command": "peek"}, 400),
        ({"command": "peek", "limit": 1, "where": "a =="}, 400),
        ({"command": "peek", "limit": 1, "queue": "none"}, 404),
    ]:
        assert guest.ask("POST", RUNS, {"queue": "dead", **body})[0] == status, body
    body = {"command": "move", "queue": "dead", "to": "moved"}
    assert guest.ask("POST", RUNS, body, origin="http://evil.example")[0] == 403
    assert guest.ask("GET", f"{RUNS}/77")[0] == 404
    assert guest.ask("DELETE", f"{RUNS}/77")[0] == 404
    assert started(guest, "move", to="nowhere")["state"] == "failed"
    assert queue_of(stage, "dead")["ready"] == before


def test_a_capture_and_a_read_only_dashboard_have_no_workbench(dashboard: Dashboard) -> None:
    client = dashboard("confirms", read_only=True)
    body = {"command": "peek", "queue": "a", "limit": 1}
    assert client.post(f"/api/v1/{RUNS}", json=body).status_code == 403
    assert client.delete(f"/api/v1/{RUNS}/1").status_code in (403, 404)
    assert client.get(f"/api/v1/{RUNS}").json() == {"runs": []}
    client = dashboard("confirms")
    login = {"user": "guest", "password": "guest"}
    assert client.post("/api/v1/sources/0/broker/login", json=login).status_code == 404
