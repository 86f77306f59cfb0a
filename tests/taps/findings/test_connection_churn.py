"""Connections for one message each."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicDeliver, BasicGet, BasicGetEmpty, BasicGetOk, BasicPublish
from amqproxy.taps.findings import connection_churn
from amqproxy.taps.findings.connection_churn import IN_A_ROW, ConnectionPerMessage
from amqproxy.taps.findings.finding import RecordNumber
from tests.taps.findings.inspected_together import Member, Together


def publish(member: Member) -> None:
    member.client(BasicPublish())


def get(member: Member) -> None:
    member.ask(BasicGet(queue="q"), BasicGetOk(1, False, "", "q", 0))


def get_nothing(member: Member) -> None:
    member.ask(BasicGet(queue="q"), BasicGetEmpty())


def take_delivery(member: Member) -> None:
    member.server(BasicDeliver("c", 1, False, "", "q"))


@pytest.mark.parametrize("use", [publish, get, get_nothing, take_delivery])
def test_connections_in_a_row(use: object) -> None:
    together = Together()
    for number in range(1, IN_A_ROW + 1):
        assert together.kinds == []
        member = together.connect()
        use(member)  # type: ignore[operator]
        member.close()
        assert bool(together.kinds) == (number == IN_A_ROW)
    (finding,) = together.findings
    assert finding.kind == "connection-per-message"
    assert finding.text == f"{IN_A_ROW} connections in a row were opened for one message each"
    assert (finding.stream, finding.connection, finding.channel) == (10, "10.0.0.1:10-b:1", None)
    assert [each.stream for each in finding.evidence] == [*range(1, IN_A_ROW), None]
    if use is publish:  # after start-ok, tune-ok, open and channel.open: method and header
        assert finding.evidence[-1] == RecordNumber("client", 6)


def test_what_repeats_is_counted() -> None:
    together = Together()
    for _ in range(IN_A_ROW * 20):
        member = together.connect()
        publish(member)
        member.close()
    assert [each.count for each in together.findings] == [1, 10]


@pytest.mark.parametrize(
    "messages",
    [
        [2] * 30,
        [0] * 30,
        [1] * 9,
        ([1] * 9 + [2]) * 3,
    ],
)
def test_other_uses_are_right(messages: list[int]) -> None:
    together = Together()
    for count in messages:
        member = together.connect()
        for _ in range(count):
            publish(member)
        member.close()
    assert together.kinds == []


def test_a_check_in_between_does_not_matter() -> None:
    together = Together()
    for _ in range(IN_A_ROW):
        member = together.connect()
        publish(member)
        member.close()
        together.connect().close()
    assert together.kinds == ["connection-per-message"]


def test_a_program_that_runs_now_and_then_is_right() -> None:
    together = Together()
    for _ in range(30):
        member = together.connect()
        publish(member)
        member.close()
        together.later(7)
    assert together.kinds == []


def test_each_client_has_a_row_of_its_own() -> None:
    together = Together()
    for number in range(18):
        member = together.connect(address=f"10.0.0.{number % 2}")
        publish(member)
        member.close()
    assert together.kinds == []


def test_connections_that_were_joined_are_not_counted() -> None:
    together = Together()
    for _ in range(30):
        member = together.connect(joined=True)
        publish(member)
        member.close()
    assert together.kinds == []


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_churn, "MAX_CLIENTS", 3)
    monkeypatch.setattr(connection_churn, "MAX_CONNECTIONS", 5)
    together = Together()
    (detector,) = [each for each in together.inspector._detectors if isinstance(each, ConnectionPerMessage)]
    members = [together.connect(address=f"10.0.0.{number}") for number in range(20)]
    assert len(detector._open) == 5
    for member in members:
        publish(member)
        member.close()
    assert len(detector._open) == 0
    assert len(detector._clients) == 3
