"""How long a client has for its part in a close."""

import pytest

from amqproxy.broker.connections.closing import CLOSING_TIME, closing_time


@pytest.mark.parametrize(
    ("heartbeat", "expected"), [(0, CLOSING_TIME), (4, 4.0), (29, 29.0), (30, CLOSING_TIME), (60, CLOSING_TIME)]
)
def test_closing_time(heartbeat: int, expected: float) -> None:
    """As RabbitMQ 3.10 has it: a short heartbeat makes it short."""
    assert closing_time(heartbeat) == expected
