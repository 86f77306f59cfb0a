"""A filter of what was recorded agrees with the filter of what passes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.observed import observed
from amqproxy.rules.context import Client
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.attributes import NAMES
from amqproxy.rules.matching.filters import compiled
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.observer import ObserverSettings, Report
from amqproxy.testing.record_filter import RecordFilter
from tests.capture import golden

EXPRESSIONS = [
    "sender == 'client'",
    "method == 'basic.publish'",
    "method != 'basic.publish'",
    "method.startsWith('queue.')",
    "exchange == ''",
    "exchange != ''",
    "routing_key.size() > 4",
    "method.startsWith('queue.') && queue.startsWith('amq.gen')",
    "consumer_tag != ''",
    "channel.number == 1",
    "size > 5",
    "size == 0",
    "headers.tenant == 'acme'",
    "has(headers.tenant)",
    "properties.delivery_mode == 2",
    "properties.content_type == 'application/json'",
    "body.contains('e')",
    "json.number > 0",
    "arguments['x-max-length'] > 0",
    "'' in exchanges",
    "'amq.topic' in exchanges || 'amq.fanout' in exchanges",
    "client.port > 0",
    "tags.size() == 0",
]


def record(**fields: Any) -> MessageRecord:
    return MessageRecord(**({"ts_ns": 0, "stream": 1, "connection": "a:1-b:2", "outcome": "answered"} | fields))


def holds(expression: str, client: Client | None = None, **fields: Any) -> bool:
    return RecordFilter(expression).holds(record(**fields), client or Client())


WHOLE = [path for path in golden.captures() if "snapped" not in path.stem]
"""Of bodies that were not captured whole, a record has less than frames have."""


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_the_same_messages_are_found_in_captures(path: Path) -> None:
    settings = ObserverSettings(body=1 << 20, kept_body=1 << 20)
    recorded = commands(observed(read_decoded(path), settings))
    clients = {each.stream: Client.named(each.stream, each.connection) for each in recorded}
    for expression in EXPRESSIONS:
        live, later = compiled(expression), RecordFilter(expression)
        passed = observed(
            read_decoded(path),
            settings,
            lambda number, name, live=live: CommandFilter(live, Client.named(number, name)),  # type: ignore[misc]
        )
        found = [each for each in recorded if later.holds(each, clients[each.stream])]
        assert texts(found) == texts(commands(passed)), expression


def commands(reports: Iterable[Report]) -> list[MessageRecord]:
    """Without returns, which are records of their own where their publish is not selected."""
    types = ("publish", "deliver", "get", "request")
    return [each for each in reports if isinstance(each, MessageRecord) and each.type in types]


def texts(records: Iterable[MessageRecord]) -> list[bytes]:
    return sorted(each.to_json() for each in records)


def test_who_the_client_is() -> None:
    client = Client(user="u", vhost="/v", address="10.0.0.1", properties={"product": "p"}, listener="a:1")
    expression = "user == 'u' && vhost == '/v' && client.address == '10.0.0.1' && client.properties.product == 'p'"
    assert holds(f"{expression} && listener == 'a:1'", client, type="publish", size=0)
    assert not holds("user == 'u'", type="publish", size=0)
    named = Client(properties={"connection_name": "billing"}, sni="a.example")
    both = "client.name == 'billing' && connection_name == 'billing' && client.connection_name == 'billing'"
    assert holds(f"{both} && tls.sni == 'a.example'", named, type="publish", size=0)


def test_events_of_connections_never_match() -> None:
    assert not holds("true", type="connection", method="queue.declare")
    assert holds("true", type="request", method="queue.declare")


def test_an_expression_that_fails_does_not_hold() -> None:
    assert not holds("headers.n > 3", type="publish", size=0, properties={"headers": {"n": "many"}})
    assert not holds("headers.n > 3", type="publish", size=0)


def test_a_body_of_which_a_part_was_kept_is_not_known() -> None:
    assert holds("body == 'hel'", type="publish", size=3, body="hel")
    assert not holds("body == 'hel'", type="publish", size=5, body="hel")
    assert not holds("json.n == 1", type="publish", size=9, body='{"n":1}')
    assert not holds("json.n == 1", type="publish", size=3, body='{"n')
    assert holds("body == ''", type="publish", size=0)


def test_a_body_that_is_no_text() -> None:
    assert holds("body == '\\ufffdx' && size == 2", type="publish", size=2, body={"base64": "/3g="})


def test_the_queue_of_a_delivery() -> None:
    """It is known of a recorded one by its consumer, where the method itself does not name it."""
    assert holds("queue == 'q' && queues == ['q']", type="deliver", queue="q", size=0)


def test_bindings() -> None:
    bind = {"source": "s", "destination": "d", "routing_key": "k", "arguments": {"x": 1}}
    expression = "exchange == 's' && destination == 'd' && exchanges == ['s', 'd'] && routing_keys == ['k']"
    assert holds(f"{expression} && arguments.x == 1", type="request", method="exchange.bind", arguments=bind)
    assert holds("fields.routing_key == 'k'", type="request", method="exchange.bind", arguments=bind)


@pytest.mark.parametrize("path", NAMES)
def test_every_name_may_be_asked_for(path: str) -> None:
    holds(f"{path} == null", type="publish", size=0)
    holds(f"{path} == null", type="request", method="queue.declare")


def test_a_wrong_expression() -> None:
    with pytest.raises(ValueError, match="exchanje"):
        RecordFilter("exchanje == 'q'")
