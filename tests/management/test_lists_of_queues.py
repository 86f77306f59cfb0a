"""Lists of queues over the API's application: what the broker sorts, what this process sorts, and compression."""

from __future__ import annotations

import gzip
import json

import pytest

from amqproxy.management.app import LEAST_COMPRESSED, accepts_gzip
from amqproxy.management.statistics import ranges
from tests.management.local_api import LocalApi


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> LocalApi:
    made = LocalApi(monkeypatch)
    for name in ("b", "a", "c"):
        assert made.ask("PUT", f"queues/%2F/{name}", {"durable": True}).status == 201
    made.ask("POST", "exchanges/%2F/amq.default/publish", _message("c"))
    return made


def _message(queue: str) -> dict[str, object]:
    return {"routing_key": queue, "payload": "x", "payload_encoding": "string", "properties": {}}


def test_pages_are_the_same_whoever_sorts(api: LocalApi) -> None:
    by_broker = api.ask("GET", "queues?page=1&page_size=2&sort=messages&sort_reverse=true").json
    for column in ("message_stats.publish", "message_stats.publish_details.rate"):
        by_api = api.ask("GET", f"queues?page=1&page_size=2&sort={column}&sort_reverse=true").json
        assert [each["name"] for each in by_broker["items"]] == [each["name"] for each in by_api["items"]] == ["c", "b"]
        assert {name: by_broker[name] for name in by_broker if name != "items"} == {
            name: by_api[name] for name in by_api if name != "items"
        }
    assert [each["name"] for each in api.ask("GET", "queues").json] == ["a", "b", "c"]
    assert api.ask("GET", "queues?page=3&page_size=2&sort=messages").status == 400
    assert api.ask("GET", "queues?page=1&name=%5B&use_regex=true").json["filtered_count"] == 0
    assert api.ask("GET", "queues?page=1&name=%5Ba&use_regex=true&sort=name").json["total_count"] == 3


def test_the_api_matches_regular_expressions_and_the_broker_sends_the_page(api: LocalApi) -> None:
    page = api.ask("GET", "queues?page=2&page_size=1&name=%5E[AC]&use_regex=true&sort=messages&sort_reverse=true").json
    assert [each["name"] for each in page["items"]] == ["a"]
    assert (page["total_count"], page["filtered_count"], page["page_count"]) == (3, 2, 2)
    assert api.source.pages[-2:] == [
        {"sort": "messages", "reverse": True, "brief": True},
        {"names": [("/", "a")]},
    ]
    assert api.ask("GET", "queues?page=1&name=%5Ez&use_regex=true").json["items"] == []
    assert api.ask("GET", "queues?page=2&name=%5Ez&use_regex=true").status == 400
    long = api.ask("GET", f"queues?page=1&name={'a' * 300}&use_regex=true")
    assert (long.status, long.json["reason"]) == (400, "name filter regex is too long")


def test_a_page_by_rate_is_sorted_by_what_was_sampled_and_only_its_rows_are_sent(api: LocalApi) -> None:
    for name, times in (("a", 1), ("c", 2)):
        for _ in range(times):
            api.ask("POST", "exchanges/%2F/amq.default/publish", _message(name))
    api.sample(1000.0)
    for name, times in (("a", 5), ("c", 1)):
        for _ in range(times):
            api.ask("POST", "exchanges/%2F/amq.default/publish", _message(name))
    api.sample(1005.0)
    rate = "message_stats.publish_details.rate"
    page = api.ask("GET", f"queues?page=1&page_size=2&sort={rate}&sort_reverse=true").json
    assert [(each["name"], each["message_stats"]["publish_details"]["rate"]) for each in page["items"]] == [
        ("a", 1.0),
        ("c", 0.2),
    ]
    assert (page["total_count"], page["filtered_count"], page["page_count"]) == (3, 3, 2)
    assert api.source.pages[-1] == {"names": [("/", "a"), ("/", "c")]}
    page = api.ask("GET", f"queues?page=1&page_size=2&sort={rate}&name=%5E[BC]&use_regex=true").json
    assert [each["name"] for each in page["items"]] == ["b", "c"]  # without a rate, as in RabbitMQ, it comes first
    assert (page["total_count"], page["filtered_count"]) == (3, 2)
    assert [each["name"] for each in api.ask("GET", f"queues?page=1&sort={rate}&name=A").json["items"]] == ["a"]


@pytest.mark.parametrize("sort", ["", "&sort=name", "&sort=messages"])
def test_a_list_of_too_many_samples_is_refused_and_not_cut(
    api: LocalApi, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    path = f"queues?lengths_age=60&lengths_incr=5{sort}"
    monkeypatch.setattr(ranges, "MOST_SAMPLES_SHOWN", 3 * 3 * 13)  # of three queues, three lengths each
    assert len(api.ask("GET", path).json) == 3
    monkeypatch.setattr(ranges, "MOST_SAMPLES_SHOWN", 3 * 3 * 13 - 1)
    refused = api.ask("GET", path)
    assert (refused.status, refused.json["reason"].partition(",")[0]) == (400, "too many samples")
    assert api.ask("GET", f"{path}&page=1&page_size=2").status == 200


def test_a_published_message_is_counted(api: LocalApi) -> None:
    stats = api.ask("GET", "queues/%2F/c").json["message_stats"]
    assert stats["publish"] == 1
    assert stats["publish_details"] == {"rate": 0.0}
    assert "message_stats" not in api.ask("GET", "queues/%2F/a").json
    assert api.ask("GET", "overview").json["message_stats"]["publish"] == 1
    api.ask("POST", "queues/%2F/c/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})
    assert api.ask("GET", "vhosts/%2F").json["message_stats"]["get"] == 1
    assert api.ask("GET", "exchanges/%2F/amq.default").json["message_stats"]["publish_in"] == 1


@pytest.mark.parametrize("path", ["queues", "queues/%2F/c", "overview", "queues?page=1"])
def test_clients_that_accept_it_get_gzip(api: LocalApi, path: str) -> None:
    packed = api.ask("GET", path, headers={"accept-encoding": "deflate, gzip;q=1.0"})
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body)) == api.ask("GET", path).json
    assert "content-encoding" not in api.ask("GET", path).headers


def test_a_short_response_is_not_compressed(api: LocalApi) -> None:
    short = api.ask("GET", "whoami", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in short.headers
    assert len(short.body) < LEAST_COMPRESSED


def test_which_headers_accept_gzip() -> None:
    assert all(map(accepts_gzip, ["gzip", "br, GZIP", "deflate,gzip;q=0.5"]))
    assert not any(map(accepts_gzip, ["", "br", "gzip;q=0", "gzip; q=0.0", "x-gzip-not"]))
