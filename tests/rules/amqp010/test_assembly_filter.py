"""Filters on captures of 0-10."""

from pathlib import Path

import pytest

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import records_of
from amqproxy.capture.filtering import filtered
from amqproxy.rules.matching.attributes import NAMES, AttributeSource
from amqproxy.rules.matching.filters import Filter
from tests.amqp010 import recorded

QPIDD = recorded.FOLDER / f"{recorded.QPIDD}.pcap.gz"
BROKER_J = recorded.FOLDER / "brokerj9.2__jms-010-types.pcapng.gz"


def kinds(expression: str, path: Path = QPIDD) -> list[str]:
    return [
        f"{record.sender} {record.method or record.type}"
        for passed in filtered(read_decoded(path), Filter(expression))
        for record in records_of(passed)
    ]


def test_a_message_comes_whole() -> None:
    assert kinds("method == 'message.transfer' && size == 5") == [
        *["client message.transfer", "client header", "client body"],
        *["server message.transfer", "server header", "server body"],
    ]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("method == 'queue.declare' && queue == 'q-A'", {"client queue.declare"}),
        ("routing_key == 'bk' && sender == 'client' && queue == 'q-A'", None),
        ("exchange == 'x-A' && method.startsWith('exchange.')", None),
        ("properties.priority == 7", None),
        ("body == 'hello'", None),
        ("consumer_tag == 'd2' && method == 'message.subscribe'", {"client message.subscribe"}),
        ("method == 'tx.commit' && channel.number == 2", {"client tx.commit"}),
        ("fields.heartbeat == 1", {"client connection.tune-ok"}),
        ("queue == 'nothing like it'", set()),
        ("'audit' in tags", set()),
    ],
)
def test_names(expression: str, found: set[str] | None) -> None:
    shown = kinds(expression)
    if found is None:
        assert shown
    else:
        assert set(shown) == found


def test_users_and_names_of_connections_are_known() -> None:
    assert kinds("vhost == 'test' && method == 'connection.close'", BROKER_J) == ["client connection.close"]
    assert not kinds("vhost == 'other'", BROKER_J)
    assert "client session.attach" in kinds("has(client.name) && method == 'session.attach'", BROKER_J)
    for other in ("connection_name", "client.connection_name"):
        assert not kinds(f"client.name != {other} && method == 'session.attach'", BROKER_J)


@pytest.mark.parametrize("path", [path for path, name in NAMES.items() if name.source is AttributeSource.CLIENT])
def test_every_name_about_the_client_may_be_asked_for(path: str) -> None:
    kinds(f"{path} == null", BROKER_J)


def test_headers_are_known() -> None:
    assert kinds("has(headers.JMS_QPID_DESTTYPE) || size > 100000", BROKER_J) is not None
