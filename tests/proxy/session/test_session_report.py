"""The end of a session in its report, where there are several reasons."""

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.methods import (
    ChannelClose,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    TxSelect,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.configuration.upstream_config import Ejection
from amqproxy.proxy.session.session_report import SessionEnd, SessionReport
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member
from amqproxy.rules.context import Client
from amqproxy.taps.metrics import Metrics


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def account(metrics: Metrics) -> SessionReport:
    return SessionReport(7, "10.0.0.1:40000-10.0.0.2:5672", metrics, None)


def count(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(f"amqproxy_{name}", labels) or 0


def test_the_first_to_say_how_it_ended_is_right(account: SessionReport, metrics: Metrics, log: list[EventDict]) -> None:
    account.note_method(SERVER, ConnectionClose(541, "INTERNAL_ERROR"), 0.0)
    account.note_violation(CLIENT, FrameError("too large", offset=9))
    account.finish(SessionEnd("client", 0, "client closed without connection.close"))
    account.close(0.0)
    assert count(metrics, "connection_closes_total", by="server", code="541") == 1
    assert count(metrics, "protocol_errors_total", sender="client", code="501") == 1
    assert log == [
        {
            "event": "connection closed",
            "log_level": "warning",
            "session": 7,
            "client": "10.0.0.1:40000",
            "by": "server",
            "code": 541,
            "reason": "INTERNAL_ERROR",
        }
    ]


async def test_the_member_of_an_upstream_is_told_of_blocking_and_of_virtual_hosts_that_are_down(
    account: SessionReport,
) -> None:
    member = account.member = Member("a:1")
    group = UpstreamGroup("g", [member, Member("b:1")], ejection=Ejection(failures=2))
    account.note_method(SERVER, ConnectionBlocked("memory"), 0.0)
    account.note_method(SERVER, ConnectionBlocked("disk"), 1.0)
    assert member.blocked == 1
    assert [each.address for each in group.candidates(0.0)] == ["b:1", "a:1"]
    account.note_method(SERVER, ConnectionUnblocked(), 2.0)
    assert member.blocked == 0
    account.note_method(SERVER, ConnectionBlocked("memory"), 3.0)
    account.close(4.0)
    assert member.blocked == 0


@pytest.mark.parametrize(
    ("code", "text", "is_open", "failures"),
    [
        (541, "INTERNAL_ERROR - access to vhost '/' refused for user 'guest': vhost '/' is down", False, 2),
        (541, "INTERNAL_ERROR - access to vhost '/' refused for user 'guest': vhost '/' is down", True, 0),
        (541, "INTERNAL_ERROR", False, 1),
        (403, "ACCESS_REFUSED - user 'is down'", False, 1),
        (530, "NOT_ALLOWED - vhost is down not found", False, 1),
    ],
)
async def test_only_virtual_hosts_that_are_down_are_failures_of_the_member(
    account: SessionReport, code: int, text: str, is_open: bool, failures: int
) -> None:
    member = account.member = Member("a:1")
    UpstreamGroup("g", [member])
    member.failures = 1
    if is_open:
        account.note_open("/", 0)
    account.note_method(SERVER, ConnectionClose(code, text), 0.0)
    assert member.failures == failures
    assert member.failures_by_kind["vhost down"] == failures // 2


def test_nobody_said_how_it_ended(account: SessionReport, metrics: Metrics) -> None:
    account.close(0.0)
    assert count(metrics, "connection_closes_total", by="proxy", code="none") == 1


@pytest.mark.parametrize(("code", "level"), [(200, "info"), (0, "info"), (320, "warning")])
def test_a_close_with_200_or_0_is_nothing_to_worry_about(
    code: int, level: str, account: SessionReport, log: list[EventDict]
) -> None:
    account.note_method(CLIENT, ConnectionClose(code), 0.0)
    account.close(0.0)
    assert (log[-1]["log_level"], log[-1]["reason"]) == (level, "closed")


def test_channels_come_and_go(account: SessionReport, metrics: Metrics) -> None:
    other = SessionReport(8, "a-b", metrics, None)
    account.note_channels(3)
    other.note_channels(2)
    account.note_channels(1)
    assert count(metrics, "channels") == 3
    account.close(0.0)
    assert count(metrics, "channels") == 2
    other.close(0.0)
    assert count(metrics, "channels") == 0


def test_methods_that_count(account: SessionReport, metrics: Metrics) -> None:
    for method in (ChannelOpenOk(), ChannelClose(404), ChannelClose(9999), TxSelect()):
        account.note_method(SERVER, method, 0.0)
    assert count(metrics, "channels_opened_total") == 1
    assert count(metrics, "channel_closes_total", by="server", code="404") == 1
    assert count(metrics, "channel_closes_total", by="server", code="other") == 1


def test_blocked_connections_and_for_how_long(account: SessionReport, metrics: Metrics) -> None:
    account.note_method(SERVER, ConnectionBlocked("low on memory"), 10.0)
    account.note_method(SERVER, ConnectionBlocked("low on disk"), 11.0)
    assert count(metrics, "connections_blocked") == 1
    account.note_method(SERVER, ConnectionUnblocked(), 12.5)
    account.note_method(SERVER, ConnectionUnblocked(), 13.0)
    assert count(metrics, "connections_blocked") == 0
    account.note_method(SERVER, ConnectionBlocked("low on memory"), 20.0)
    account.close(21.0)
    assert count(metrics, "connections_blocked") == 0
    assert count(metrics, "connection_blocked_seconds_total") == 3.5


def test_refused_logins(account: SessionReport, metrics: Metrics) -> None:
    account.note_method(SERVER, ConnectionClose(403, "ACCESS_REFUSED"), 0.0)
    account.note_open("/", 0)
    account.note_method(SERVER, ConnectionClose(403, "ACCESS_REFUSED"), 0.0)
    assert count(metrics, "authentication_failures_total") == 1


@pytest.mark.parametrize("name", ["connection_name", "clientName", "qpid.client_process"])
def test_log_lines_name_the_client(account: SessionReport, name: str) -> None:
    with capture_logs() as logs:
        account.introduce(Client(user="anna", properties={name: "billing"}))
        account.log("info", "hello")
    [line] = logs
    assert (line["event"], line["user"], line["name"]) == ("hello", "anna", "billing")
