"""Results of a dry run."""

import pytest

from amqproxy.capture.connection_dry_run import DryRunResult


@pytest.mark.parametrize("ts_ns", [2**63, -1, 1_857_000_000_000_000_000_000])
def test_times_that_no_calendar_has(ts_ns: int) -> None:
    rehearsed = DryRunResult(
        ts_ns=ts_ns, stream=1, connection="a-b", sender="client", channel=1, method="m", rules=("r",), what=("done",)
    )
    assert str(rehearsed).endswith("#1 > 1 m: done  [r]")
