"""Why pumps give connections back."""

from amqproxy.pump.return_reasons import REASONS
from amqproxy.taps.metrics import PUMP_RETURNS


def test_every_reason_is_counted_from_the_start() -> None:
    assert len(REASONS) == len(PUMP_RETURNS)
    assert set(REASONS.values()) == set(PUMP_RETURNS)
