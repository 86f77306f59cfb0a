"""Tokens that were not renewed."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import ConnectionClose
from tests.taps.findings.inspected import Inspected


@pytest.mark.parametrize(
    ("close", "kinds"),
    [
        (ConnectionClose(320, "CONNECTION_FORCED - credential expired"), ["token-renewal-fails"]),
        (
            ConnectionClose(403, "ACCESS_REFUSED - Provided JWT token has expired at timestamp 1 (validated at 2)"),
            ["token-renewal-fails"],
        ),
        (ConnectionClose(530, "NOT_ALLOWED - New secret was refused", 10, 70), ["token-renewal-fails"]),
        (ConnectionClose(320, "CONNECTION_FORCED - broker forced connection closure"), []),
        (ConnectionClose(403, "ACCESS_REFUSED - no more"), ["connection-error"]),
    ],
)
def test_a_close_because_of_a_token(close: ConnectionClose, kinds: list[str]) -> None:
    inspected = Inspected(1)
    inspected.server(close, channel=0)
    assert inspected.kinds == kinds


def test_a_close_by_the_client_is_none() -> None:
    inspected = Inspected(1)
    inspected.client(ConnectionClose(200, "token has expired"), channel=0)
    assert inspected.kinds == []
