"""The lists, and the lines above them."""

from __future__ import annotations

from typing import Any

from amqproxy.top import views
from amqproxy.top.samples import Sample
from amqproxy.top.views import VIEWS, byte_rate_text, first, header, rate_text, rows, session_of
from tests.top.fake_source import connection, sample_response

CONNECTIONS = VIEWS[0]
HEADINGS = [column.heading for column in CONNECTIONS.columns]


def shown(
    entries: list[dict[str, Any]], sort: str = "session", is_reversed: bool = False, filter: str = ""
) -> list[Any]:
    found = CONNECTIONS.entries([], entries, 1.0)
    column = HEADINGS.index(sort)
    return [row.key for row in rows(CONNECTIONS, found, sort=column, is_reversed=is_reversed, filter=filter)]


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
    [(_, cells, _)] = rows(CONNECTIONS, [entry], sort=0, is_reversed=False, filter="")
    assert cells[HEADINGS.index("client/s")] == "2.5 kB/s"
    assert cells[HEADINGS.index("server/s")] == "6 B/s"


def test_every_list_has_a_key_for_each_entry() -> None:
    channel = {"session": 1, "channel": 2, "consumer_tag": "t"}
    assert [view.key(channel) for view in VIEWS[1:3]] == [(1, 2), (1, 2, "t")]
    binding = {"kind": "binding", "vhost": "/", "source": "x", "destination": "q", "routing_key": "k", "arguments": {}}
    assert VIEWS[3].key(binding) != VIEWS[3].key(binding | {"arguments": {"x": 1}})


def test_the_header_has_two_lines_with_what_matters_first() -> None:
    buckets = [({"le": "0.001"}, 0.0), ({"le": "0.01"}, 100.0), ({"le": "+Inf"}, 100.0)]
    before = Sample(sample_response(60.0, amqproxy_messages_published_total=100.0))
    after = Sample(
        sample_response(
            62.0,
            amqproxy_connections=3.0,
            amqproxy_connections_blocked=0.0,
            amqproxy_messages_published_total=5100.0,
            amqproxy_publish_confirm_seconds_bucket=buckets,
        )
    )
    assert header(before, after, 80) == [
        "up 1 m  connections 3  late by 200 µs (at most 4 ms)  amqproxy 1.2, process 7",
        "published 2,500/s  delivered -/s  confirm p99 9.91 ms  ack p99 -  here p99 -",
    ]
    assert header(before, after, 110)[1].endswith("here p99 -  confirm p95 9.55 ms  ack p95 -")
    assert header(None, after, 80)[1].startswith("published -/s")


def test_troubles_come_first_in_the_header_while_there_are_any() -> None:
    before = Sample(sample_response(60.0, amqproxy_messages_returned_total=1.0))
    after = Sample(
        sample_response(
            62.0, amqproxy_connections=3.0, amqproxy_connections_blocked=1.0, amqproxy_messages_returned_total=9.0
        )
    )
    state, flow = header(before, after, 40)
    assert state == "up 1 m  blocked 1  connections 3"
    assert flow.startswith("returned 4/s  published -/s")


def test_the_first_columns_of_a_list() -> None:
    assert [column.heading for column in first(CONNECTIONS.columns, "age", "user")][:3] == ["age", "user", "session"]


def test_long_texts_are_cut_but_found_as_a_whole() -> None:
    [row] = rows(
        CONNECTIONS,
        CONNECTIONS.entries([], [connection(1, name="n" * 30 + "end")], 1.0),
        sort=0,
        is_reversed=False,
        filter="nend",
    )
    assert row.cells[HEADINGS.index("name")] == "n" * 23 + "…"


def test_the_session_of_an_entry() -> None:
    assert session_of(connection(3)) == 3
    assert session_of({"kind": "queue", "declared_by": {"session": 4}}) == 4
    assert session_of({"kind": "queue", "declared_by": {"session": 4}, "deleted_by": {"session": 5}}) == 5
    assert session_of({"kind": "queue", "declared_by": None}) is None


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
