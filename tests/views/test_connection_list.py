"""The connections that are listed: those that ended badly rather than others."""

from __future__ import annotations

import pytest

from amqproxy.taps.trace.events import ConnectionOpened
from amqproxy.views.connection_list import ConnectionFigures, ConnectionList


def figures(stream: int, *, has_failed: bool = False) -> ConnectionFigures:
    return ConnectionFigures(stream, "10.0.0.1:5-10.0.0.2:6", 100 - stream, 200, has_failed=has_failed)


def test_of_too_many_the_bad_ones_are_listed() -> None:
    listed = ConnectionList(3)
    for stream, has_failed in enumerate((False, False, True, False, True, True, True, False)):
        listed.add(figures(stream, has_failed=has_failed))
    assert [each.stream for each in listed.in_order()] == [5, 4, 2]  # by when they began
    assert (len(listed), listed.more) == (3, 5)


def test_with_room_for_none_none_is_listed() -> None:
    listed = ConnectionList(0)
    listed.add(figures(1, has_failed=True))
    assert (listed.in_order(), listed.more) == ([], 1)


@pytest.mark.parametrize(
    "properties",
    [
        {"product": "qpid", "version": "6.4", "clientName": "billing"},
        {"product": "qpid", "qpid.client_version": "6.4", "qpid.client_process": "billing"},
        {"product": "qpid", "version": "6.4", "connection_name": "billing"},
    ],
)
def test_a_client_is_listed_by_what_it_says_of_itself(properties: dict[str, str]) -> None:
    listed = figures(1)
    listed.open(
        ConnectionOpened(
            ts_ns=0,
            channel=0,
            virtual_host="/",
            mechanism="PLAIN",
            user="guest",
            client_properties=properties,
            server_properties={},
            channel_max=1,
            frame_max=2,
            heartbeat=0,
            latency_ns=None,
        )
    )
    assert (listed.user, listed.vhost, listed.client) == ("guest", "/", "qpid 6.4 billing")
