"""Plain words as filters, over commands of both protocols."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicPublish, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.dashboard.viewer_filter import viewer_filter
from amqproxy.dashboard.word_filter import MAX_WORDS, WordFilter, words_of
from amqproxy.rules.matching.tokens import TextError
from tests.dashboard.conftest import Dashboard
from tests.rules.scene import from_client

pytestmark = pytest.mark.once

PUBLISH = from_client(
    BasicPublish(exchange="shop.Orders", routing_key="order.new"),
    Properties(message_id="m-77", headers=Table({"tenant": "acme", "deep": Table({"trace": "t1"})})),
    "Straße 7, 42 boxes".encode(),
)
DECLARE = from_client(QueueDeclare(queue="jobs", arguments=Table({"x-queue-type": "quorum"})))


@pytest.mark.parametrize(
    "words",
    ["orders", "order.new", "publish", "m-77", "ACME", "tenant", "t1", "boxes", "STRASSE", "acme boxes", "orders-1"],
)
def test_a_message_with_the_words_is_found(words: str) -> None:
    found = viewer_filter(words)
    assert isinstance(found, WordFilter)
    assert found.condition.holds(PUBLISH)
    assert not viewer_filter(f"{words} absent").condition.holds(PUBLISH)


def test_a_request_is_found_by_its_names_and_arguments() -> None:
    assert viewer_filter("jobs").condition.holds(DECLARE)
    assert viewer_filter("quorum queue.declare").condition.holds(DECLARE)
    assert not viewer_filter("boxes").condition.holds(DECLARE)


def test_words_and_an_expression_must_both_hold() -> None:
    assert viewer_filter("acme && exchange == 'shop.Orders'").condition.holds(PUBLISH)
    assert not viewer_filter("acme && exchange == 'other'").condition.holds(PUBLISH)
    assert not viewer_filter("absent && exchange == 'shop.Orders'").condition.holds(PUBLISH)


@pytest.mark.parametrize("expression", ["true", "channel.is_confirming", "size > 1", "has(headers.tenant)"])
def test_what_is_cel_is_no_word(expression: str) -> None:
    assert not isinstance(viewer_filter(expression), WordFilter)


@pytest.mark.parametrize("expression", ["usr == 'a'", "size >", "(a", "a && usr == 1", " ".join("a" * (MAX_WORDS + 1))])
def test_what_is_neither_is_refused(expression: str) -> None:
    with pytest.raises(TextError):
        viewer_filter(expression)


def test_words_before_an_expression_are_split_off() -> None:
    assert words_of("a b && c == 'x && y'") == ("a b", "c == 'x && y'")
    assert words_of("a") == ("a", "")
    assert words_of("a || b && c") is None


@pytest.mark.parametrize("capture", ["confirms", "brokerj9.2__jms-010-request-reply"])
@pytest.mark.parametrize("what", ["frames", "messages"])
def test_words_select_rows_of_both_protocols(what: str, capture: str, dashboard: Dashboard) -> None:
    client = dashboard(capture)
    path = f"/api/v1/sources/0/{what}"
    messages = client.get("/api/v1/sources/0/messages").json()["rows"]
    key = next(str(row["routing_key"]) for row in messages if row.get("routing_key"))
    found = client.get(path, params={"filter": key.upper()}).json()["rows"]
    assert 0 < len(found) < len(client.get(path).json()["rows"])
