"""Frames over REST: the rows of `decode --json`, numbered."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import records_of
from amqproxy.dashboard.api import frames, messages
from amqproxy.dashboard.field import Field
from amqproxy.dashboard.row_writer import ROW_BODY
from tests.dashboard.conftest import CAPTURES, Dashboard, capture_of
from tests.dashboard.dissected_fields import check_tiling

EXPECTED = [json.loads(line) for line in (CAPTURES / "confirms.jsonl").read_text().splitlines()]
FRAMES = "/api/v1/sources/0/frames"


def test_rows_are_those_of_decode(dashboard: Dashboard) -> None:
    rows = dashboard("confirms").get(FRAMES).json()["rows"]
    assert [row.pop("seq") for row in rows] == list(range(len(EXPECTED)))
    assert [{key: value for key, value in row.items() if key != "body"} for row in rows] == EXPECTED


@pytest.mark.parametrize("capture", ["confirms", "brokerj9.2__jms-010-tx", "qpidd1.40__qpidpy-010-types"])
def test_each_kind_of_frame_has_its_bytes_and_fields(dashboard: Dashboard, capture: str) -> None:
    client = dashboard(capture)
    decoded = read_decoded(capture_of(capture))
    records = [json.loads(each.to_json()) for passed in decoded for each in records_of(passed, body=ROW_BODY)]
    rows = client.get(FRAMES, params={"limit": 10_000}).json()["rows"]
    assert [{key: value for key, value in row.items() if key != "seq"} for row in rows] == records
    for row in {(row["type"], row.get("method")): row for row in rows}.values():
        shown = client.get(f"{FRAMES}/{row['seq']}").json()
        assert shown["record"]["seq"] == row["seq"]
        if row["type"] != "protocol-header":
            check_tiling(msgspec.convert(shown["fields"], list[Field]), 0, len(base64.b64decode(shown["bytes"])))


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("filter=method=='message.transfer'&limit=3", {"command", "header", "body"}),
        ("filter=routing_key=='jms.tx'&limit=1000", {"command", "header", "body"}),
        ("filter=vhost=='test'%26%26method=='tx.commit'", {"command"}),
        ("channel=0&limit=5", {"command", "control"}),
        ("filter=method=='session.attach'", {"control"}),
    ],
)
def test_a_query_of_0_10(dashboard: Dashboard, query: str, types: set[str]) -> None:
    client = dashboard("brokerj9.2__jms-010-tx")
    rows = client.get(f"{FRAMES}?{query}").json()["rows"]
    assert rows
    assert {row["type"] for row in rows} <= types


@pytest.mark.parametrize(
    ("query", "seqs", "has_more"),
    [
        ("limit=3", [29, 30, 31], True),
        ("limit=3&before=10", [7, 8, 9], True),
        ("limit=3&after=10", [11, 12, 13], True),
        ("limit=3&before=2", [0, 1], False),
        ("after=29", [30, 31], False),
        ("filter=method=='basic.ack'", [16, 27], False),
        ("filter=method=='basic.ack'&before=27", [16], False),
        ("filter=method=='basic.ack'&after=16", [27], False),
        ("filter=body=='refused'", [17, 18, 19], False),
        ("filter=body=='refused'&after=17", [18, 19], False),
        ("filter=body=='refused'&before=19", [17, 18], False),
        ("channel=1&limit=1", [29], True),
        ("connection=0&limit=1", [31], True),
        ("connection=7", [], False),
        ("connection=40257&limit=1", [], False),
        ("connection=:40257&limit=1", [31], True),
        ("start=1795234087650000000", [30, 31], False),
        ("start=%2B0.0095", [31], False),
        ("end=%2B0.0007&limit=2", [0, 1], False),
    ],
)
def test_a_query(dashboard: Dashboard, query: str, seqs: list[int], has_more: bool) -> None:
    found = dashboard("confirms").get(f"{FRAMES}?{query}").json()
    assert ([row["seq"] for row in found["rows"]], found["has_more"]) == (seqs, has_more)


@pytest.mark.parametrize(
    ("capture", "what", "faults"),
    [("channel-error", "messages", ["channel"]), ("kombu-table.broken", "frames", ["error"])],
)
def test_a_filter_shows_faults_only_on_demand(dashboard: Dashboard, capture: str, what: str, faults: list[str]) -> None:
    client = dashboard(capture)
    rows = f"/api/v1/sources/0/{what}?filter=method=='basic.recover'"
    assert client.get(rows).json()["rows"] == []
    assert [row["type"] for row in client.get(f"{rows}&faults=true").json()["rows"]] == faults


@pytest.mark.parametrize("what", ["frames", "messages"])
def test_what_comes_while_rows_are_looked_for_is_not_said_to_have_been_looked_at(
    dashboard: Dashboard, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page goes on at `next`: it would never see them."""
    client = dashboard("confirms")
    app: Any = client.app
    source = app.state.sources.sources[0]
    module, name = {"frames": (frames, "find"), "messages": (messages, "find_messages")}[what]
    ring = source.ring if what == "frames" else source.observed.messages
    before = ring.next_seq
    search = getattr(module, name)

    def slow(*arguments: Any) -> Any:
        monkeypatch.setattr(ring, "next_seq", before + 5)
        return search(*arguments)

    monkeypatch.setattr(module, name, slow)
    assert client.get(f"/api/v1/sources/0/{what}").json()["next"] == before


def test_a_wrong_filter_has_its_place(dashboard: Dashboard) -> None:
    response = dashboard("confirms").get(FRAMES, params={"filter": "method =="})
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert (problem["status"], problem["at"]) == (400, 9)
    assert "the expression is incomplete here" in problem["detail"]


def test_a_source_or_frame_that_is_not_there(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    assert client.get("/api/v1/sources/7/frames").status_code == 404
    assert client.get(f"{FRAMES}/4711").json()["detail"] == "there is no frame 4711: 0 to 31 are kept"
