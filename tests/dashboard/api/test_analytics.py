"""The API of the Analytics screen: known numbers, what is refused, and that nothing else has to wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from amqproxy.pipeline.questions import PANELS
from tests.dashboard.conftest import Dashboard
from tests.pipeline.known_tables import HOUR, MS, START_NS, write_known_tables

pytestmark = pytest.mark.once

PATHS = ("traffic", "latencies", "top", "clients", "errors", "findings", "anomalies", "capacity", "answers/objectives")


def get(client: TestClient, path: str, status: int = 200, **parameters: Any) -> Any:
    response = client.get(f"/api/v1/analytics{path}", params=parameters)
    assert response.status_code == status, response.text
    return response.json()


def test_known_numbers(dashboard: Dashboard, tmp_path: Path) -> None:
    write_known_tables(tmp_path)
    client = dashboard(tables=str(tmp_path))
    about = get(client, "")
    assert (about["path"], about["start_ns"], about["end_ns"]) == (str(tmp_path), START_NS, START_NS + 3 * HOUR)
    whole = get(client, "/traffic")
    assert whole["asked"]["step"] == "minute"
    assert (whole["asked"]["start_ns"], len(whole["points"])) == (START_NS, 180)
    hours = get(client, "/traffic", step="hour", by="exchange", name="orders", virtual_host="shop")["points"]
    assert [point["published"] for point in hours] == [60, 60, 60]
    latencies = get(client, "/latencies", step="day", virtual_host="shop")["points"]
    assert [(point["confirm_count"], point["confirm_max"]) for point in latencies] == [(120, 60 * MS), (60, 60 * MS)]
    assert [row["name"] for row in get(client, "/top", by="queue")["rows"]] == ["orders.new", "probes.raw"]
    assert [row["name"] for row in get(client, "/clients", limit=1)["rows"]] == ["alice's client"]
    assert [row["count"] for row in get(client, "/errors")["rows"]] == [3]
    assert [row["kind"] for row in get(client, "/findings")["rows"]] == ["poison", "no-prefetch"]
    assert [row["score"] for row in get(client, "/anomalies")["rows"]] == [10.8, 3.5]
    assert [row["virtual_host"] for row in get(client, "/capacity")["rows"]] == ["lab", "shop"]
    part = get(client, "/capacity", start=START_NS + HOUR, end=START_NS + 2 * HOUR, virtual_host="shop")["rows"]
    assert [(row["published"], row["published_bytes"]) for row in part] == [(60, 6000)]


def test_answers_have_columns_with_their_kinds(dashboard: Dashboard, tmp_path: Path) -> None:
    write_known_tables(tmp_path)
    client = dashboard(tables=str(tmp_path))
    panels = get(client, "/answers")["panels"]
    assert [each["name"] for each in panels] == list(PANELS)
    assert panels[0]["title"] == "dependencies of services: publisher, exchange and key, queue, consumer"
    for each in panels:
        assert get(client, f"/answers/{each['name']}")["question"] == each["name"]
    answer = get(client, "/answers/objectives", virtual_host="shop", limit=1)
    kinds = {each["name"]: each["kind"] for each in answer["columns"]}
    assert (kinds["what"], kinds["messages"], kinds["met_share"], kinds["worst_hour"]) == (
        *("text", "number", "share", "time"),
    )
    [row] = answer["rows"]
    found = dict(zip(kinds, row, strict=True))
    assert (found["what"], found["messages"], found["missed"], found["worst_hour"]) == (
        *("confirm", 180, 3, START_NS + 2 * HOUR),
    )
    assert [each["title"] for each in answer["columns"]][:2] == ["what", "exchange"]
    assert "dependencies" in get(client, "/answers/everything", 404)["detail"]


def test_without_tables(dashboard: Dashboard, tmp_path: Path) -> None:
    none = dashboard()
    assert get(none, "") == {"path": None, "tables": [], "start_ns": None, "end_ns": None}
    assert "--tables DIR" in get(none, "/traffic", 404)["detail"]
    empty = dashboard(tables=str(tmp_path / "none"))
    assert get(empty, "")["tables"] == []
    for path in PATHS:
        answer = get(empty, f"/{path}")
        assert not answer.get("points", answer.get("rows"))


def test_what_is_refused_or_cannot_be_read(dashboard: Dashboard, tmp_path: Path) -> None:
    write_known_tables(tmp_path)
    client = dashboard(tables=str(tmp_path))
    assert "longer steps" in get(client, "/traffic", 400, start=0, end=START_NS, step="minute")["detail"]
    assert "before the start" in get(client, "/traffic", 400, start=2, end=1)["detail"]
    get(client, "/traffic", 422, by="planet")
    get(client, "/top", 422, limit=0)
    evil = "x' OR TRUE; DROP TABLE messages --"
    assert get(client, "/latencies", by="exchange", name=evil)["points"] == []
    for file in tmp_path.glob("errors/*/*/*.parquet"):
        file.write_bytes(b"not Parquet")
    assert "cannot be read" in get(client, "/errors", 502)["detail"]
    get(client, "/findings")
