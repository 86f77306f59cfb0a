"""The lists, and the lines above them."""

from __future__ import annotations

from typing import Any

from amqproxy.top import views
from amqproxy.top.samples import Sample
from amqproxy.top.views import VIEWS, byte_rate_text, overview, rate_text, rows
from tests.top.fake_source import connection, sample_response

CONNECTIONS = VIEWS[0]
HEADINGS = [column.heading for column in CONNECTIONS.columns]


def shown(
    entries: list[dict[str, Any]], sort: str = "session", is_reversed: bool = False, filter: str = ""
) -> list[Any]:
    found = CONNECTIONS.entries([], entries, 1.0)
    column = HEADINGS.index(sort)
    return [key for key, _ in rows(CONNECTIONS, found, sort=column, is_reversed=is_reversed, filter=filter)]


def test_sorting_by_numbers_and_texts() -> None:
    entries = [connection(10, "b"), connection(9, "c"), connection(2, "a")]
    assert shown(entries) == [2, 9, 10]
    assert shown(entries, is_reversed=True) == [10, 9, 2]
    assert shown(entries, "user") == [2, 10, 9]
    assert shown(entries, "from client", is_reversed=True) == [10, 9, 2]


def test_what_has_no_value_comes_last() -> None:
    entries = [connection(1, name=None), connection(2, name="b"), connection(3, name="a")]
    assert shown(entries, "name") == [3, 2, 1]
    assert shown(entries, "name", is_reversed=True) == [2, 3, 1]


def test_a_filter_is_words_that_a_row_has() -> None:
    entries = [connection(1, "alice"), connection(2, "bob", blocked=True), connection(3, "bob")]
    assert shown(entries, filter="BOB") == [2, 3]
    assert shown(entries, filter="blocked bob") == [2]
    assert shown(entries, filter="nobody") == []


def test_rows_are_bounded() -> None:
    entries = [connection(number) for number in range(views.MOST_ROWS + 10)]
    assert shown(entries, is_reversed=True)[0] == views.MOST_ROWS + 9
    assert len(shown(entries)) == views.MOST_ROWS


def test_rates_of_a_connection() -> None:
    [entry] = CONNECTIONS.entries([connection(1)], [connection(1, bytes={"client": 6000, "server": 12})], 2.0)
    [(_, cells)] = rows(CONNECTIONS, [entry], sort=0, is_reversed=False, filter="")
    assert cells[HEADINGS.index("client/s")] == "2.5 kB/s"
    assert cells[HEADINGS.index("server/s")] == "6 B/s"


def test_every_list_has_a_key_for_each_entry() -> None:
    channel = {"session": 1, "channel": 2, "consumer_tag": "t"}
    assert [view.key(channel) for view in VIEWS[1:3]] == [(1, 2), (1, 2, "t")]
    binding = {"kind": "binding", "vhost": "/", "source": "x", "destination": "q", "routing_key": "k", "arguments": {}}
    assert VIEWS[3].key(binding) != VIEWS[3].key(binding | {"arguments": {"x": 1}})


def test_the_lines_above() -> None:
    buckets = [({"le": "0.001"}, 0.0), ({"le": "0.01"}, 100.0), ({"le": "+Inf"}, 100.0)]
    before = Sample(sample_response(60.0, amqproxy_messages_published_total=100.0))
    after = Sample(
        sample_response(
            62.0,
            amqproxy_connections=3.0,
            amqproxy_messages_published_total=5100.0,
            amqproxy_publish_confirm_seconds_bucket=buckets,
        )
    )
    assert overview(before, after) == [
        "amqproxy 1.2  process 7  up for 1 m  late by 200 µs (at most 4 ms)",
        "now:  connections 3",
        "per second:  published 2,500  confirmed -  returned -  delivered -  acked -  requeued -",
        "p50 / p95 / p99:  publish → confirm 5.5 ms / 9.55 ms / 9.91 ms   deliver → ack - / - / -   here - / - / -",
    ]
    assert "published -" in overview(None, after)[2]


def test_texts_of_rates() -> None:
    assert [rate_text(each) for each in (None, 0.0, 0.125, 9.5, 12.3, 12345.0)] == [
        "",
        "0",
        "0.125",
        "9.5",
        "12",
        "12,345",
    ]
    assert [byte_rate_text(each) for each in (None, 1500.0)] == ["", "1.5 kB/s"]
