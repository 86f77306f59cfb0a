"""Ends of connections without connection.close."""

from __future__ import annotations

import pytest

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.findings.ends import ended_by, is_reset
from amqproxy.taps.trace.events import ConnectionClosed


def closed(text: str, by: Peer | None = None) -> ConnectionClosed:
    return ConnectionClosed(ts_ns=0, by=by, code=0, text=text)


@pytest.mark.parametrize(
    ("text", "peer", "reset"),
    [
        ("client closed without connection.close", CLIENT, False),
        ("server reset the connection", SERVER, True),
        ("client reset by the peer", CLIENT, True),
        ("client missed its heartbeats, of which there is one in 2 s", SERVER, False),
        ("the capture ends", None, False),
        ("another connection has the same ports", None, False),
    ],
)
def test_who_has_ended_it(text: str, peer: Peer | None, reset: bool) -> None:
    assert ended_by(closed(text)) is peer
    assert is_reset(closed(text)) is reset


def test_a_close_is_no_such_end() -> None:
    assert ended_by(closed("server shuts down", SERVER)) is None
