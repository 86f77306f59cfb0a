"""The list of connections: readers get what has changed since they last asked."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.dashboard import connection_table as module
from amqproxy.dashboard.connection_table import COUNTED, ConnectionRow, ConnectionTable, connection_row
from amqproxy.dashboard.connections import SeenConnection

pytestmark = pytest.mark.once


def row(number: int, *, sent: int = 0, user: str = "guest", is_open: bool = True) -> ConnectionRow:
    facts = {"session": number, "user": user, "is_open": is_open}
    return ConnectionRow(number=number, is_open=is_open, facts=facts, counters=("open", False, 1, 0, sent, 0))


def numbers(changes: dict[str, Any]) -> tuple[list[int], list[int], list[int]]:
    return (
        [each["session"] for each in changes["connections"]],
        [each[0] for each in changes["counters"]],
        changes["gone"],
    )


def test_only_changes_are_sent() -> None:
    table = ConnectionTable()
    table.update([row(1), row(2), row(3)])
    whole = table.changes(0, closed=False)
    assert whole["is_whole"]
    assert numbers(whole) == ([1, 2, 3], [], [])
    version = whole["version"]
    table.update([row(1), row(2, sent=5), row(4)])
    found = table.changes(version, closed=False)
    assert not found["is_whole"]
    assert numbers(found) == ([4], [2], [3])
    assert found["counters"] == [(2, "open", False, 1, 0, 5, 0)]
    assert numbers(table.changes(found["version"], closed=False)) == ([], [], [])


def test_a_change_of_facts_is_sent_whole() -> None:
    table = ConnectionTable()
    table.update([row(1)])
    version = table.version
    table.update([row(1, user="other", sent=5)])
    [found] = table.changes(version, closed=False)["connections"]
    assert (found["user"], found["from_client"]) == ("other", 5)


def test_closed_connections_are_gone_for_those_who_do_not_ask_for_them() -> None:
    table = ConnectionTable()
    table.update([row(1), row(2)])
    version = table.version
    table.update([row(1), row(2, is_open=False)])
    assert numbers(table.changes(version, closed=False)) == ([], [], [2])
    assert numbers(table.changes(version, closed=True)) == ([2], [], [])
    whole = table.changes(0, closed=False)
    assert numbers(whole) == ([1], [], [])
    assert (whole["open"], whole["closed"]) == (1, 1)


def test_whoever_missed_too_much_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_GONE", 2)
    table = ConnectionTable()
    table.update([row(each) for each in range(5)])
    version = table.version
    table.update([row(4)])
    assert table.changes(version, closed=False)["is_whole"]
    assert not table.changes(table.version, closed=False)["is_whole"]
    assert ConnectionTable().changes(table.version - 10**9, closed=False)["is_whole"]  # of an earlier process


def test_the_proxy_is_not_asked_for_each_reader() -> None:
    now = 0.0
    table = ConnectionTable(lambda: now)
    assert table.is_old()
    table.update([])
    assert not table.is_old()
    now = module.REFRESH
    assert table.is_old()


def test_a_row_is_of_the_proxy_or_of_the_traffic() -> None:
    entry = {
        "session": 3,
        "connection": "10.0.0.7:1-b:2",
        "connected_at": 5.0,
        "protocol": "0-9-1",
        "state": "open",
        "user": "guest",
        "vhost": "/",
        "product": "pika",
        "product_version": "1",
        "name": "",
        "platform": "x",
        "channels": 2,
        "consumers": 1,
        "blocked": False,
        "bytes": {"client": 7, "server": 8},
    }
    found = connection_row(None, entry)
    assert found.facts["client"] == "10.0.0.7"
    assert found.facts["product"] == "pika 1"
    assert dict(zip(COUNTED, found.counters, strict=True)) == {
        "state": "open", "blocked": False, "channels": 2, "consumers": 1, "from_client": 7, "from_server": 8,
    }  # fmt: skip
    seen = SeenConnection(stream=4, connection="a:1-b:2", since_ns=0, last_ns=0, first_seq=0, last_seq=0, is_open=False)
    seen.handshake = {"client_properties": {"connection_name": "shop"}, "user": "guest"}
    found = connection_row(seen, None)
    assert (found.number, found.is_open, found.facts["client"], found.facts["user"]) == (4, False, "shop", "guest")
