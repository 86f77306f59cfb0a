"""No client floods the log."""

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from amqproxy.broker.server import connection_log
from amqproxy.broker.server.connection_log import INTERVAL, MOST_LINES, ConnectionLog


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def written(log: ConnectionLog, count: int, address: str = "10.0.0.1", level: str = "info") -> list[str]:
    with capture_logs() as events:
        for number in range(count):
            log.write(level, "event", address, number=number)
    return [f"{each['log_level']} {each['event']} {each.get('number', each.get('count'))}" for each in events]


def test_few_lines_are_all_written() -> None:
    assert written(ConnectionLog(Clock()), 2) == ["info event 0", "info event 1"]


def test_of_many_lines_their_number_is_written() -> None:
    clock = Clock()
    log = ConnectionLog(clock)
    assert len(written(log, MOST_LINES + 7)) == MOST_LINES
    assert len(written(log, 1, "10.0.0.2")) == 1
    clock.now += INTERVAL
    assert written(log, 1) == ["warning more lines about connections 7", "info event 0"]


def test_lines_at_debug_are_not_counted() -> None:
    log = ConnectionLog(Clock())
    assert len(written(log, MOST_LINES + 7, level="debug")) == MOST_LINES + 7
    assert len(written(log, 1)) == 1


def test_so_many_addresses_are_counted_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_log, "MOST_ADDRESSES", 3)
    clock = Clock()
    log = ConnectionLog(clock)
    lines = [line for number in range(MOST_LINES + 50) for line in written(log, 1, f"10.0.0.{number}")]
    assert len(lines) == MOST_LINES + 3
    clock.now += INTERVAL
    assert written(log, 1, "10.0.1.1") == ["warning more lines about connections 47", "info event 0"]


async def test_what_was_left_out_is_logged_in_time(autojump_clock: trio.testing.MockClock) -> None:
    log = ConnectionLog(trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        written(log, MOST_LINES + 7)
        with capture_logs() as events:
            await trio.sleep(2 * INTERVAL)
        assert [(each["event"], each["address"], each["count"]) for each in events] == [
            ("more lines about connections", "10.0.0.1", 7)
        ]
        nursery.cancel_scope.cancel()
