"""Counts with rates and samples, in RabbitMQ's keys."""

from __future__ import annotations

import pytest

from amqproxy.management.failure import Failure
from amqproxy.management.statistics import ranges as module
from amqproxy.management.statistics.figures import DELIVERIES, PUBLISHES, Figures, wanted_details
from amqproxy.management.statistics.history import History
from amqproxy.management.statistics.ranges import MOST_STEPS, Range, Ranges, ranges_of
from amqproxy.management.statistics.series import INTERVAL

NOW = 1_000_000_000

RATE = 100


def counts(published: int = 0, delivered: int = 0) -> tuple[int, ...]:
    return (published, 0, 0, 0, published, delivered, 0, 0, 0, 0, 0, delivered)


def history(steps: int = 4) -> History:
    """A queue that gets `RATE` messages a second since the second sample, and keeps half of them."""
    made = History()
    for step in range(steps):
        total = RATE * INTERVAL * step
        made.begin(NOW + INTERVAL * step)
        made.add(("queues", "/", "q"), (total // 2, 0, *counts(total, total // 2)), is_new=step > 0)
        made.add(("vhosts", "", "/"), (total // 2, 0, *counts(total, total // 2)), is_new=step > 0)
        made.end()
    return made


def test_the_rate_is_that_of_the_last_two_samples() -> None:
    row = Figures(history(), Ranges()).of_queue("/", "q", counts(1700, 800))
    assert row["messages_details"] == {"rate": RATE / 2}
    stats = row["message_stats"]
    assert (stats["publish"], stats["publish_details"]) == (1700, {"rate": RATE})
    assert (stats["deliver_get"], stats["deliver_get_details"]) == (800, {"rate": RATE / 2})
    assert stats["get_empty_details"] == {"rate": 0.0}
    assert "confirm" not in stats


def test_a_queue_that_rests_has_no_rate() -> None:
    rested = history()
    rested.begin(NOW + 4 * INTERVAL)
    rested.end()
    row = Figures(rested, Ranges()).of_queue("/", "q", counts(1))
    assert row["message_stats"]["publish_details"] == {"rate": 0.0}
    assert "deliver" not in row["message_stats"]
    assert "message_stats" not in Figures(rested, Ranges()).of_queue("/", "q", None)
    assert Figures(History(), Ranges()).of_vhosts(["/"], counts(), (PUBLISHES, DELIVERIES)) == {}


def test_samples_of_a_range() -> None:
    ranges = Ranges(message_rates=Range(20, 10))
    shown = Figures(history(), ranges).of_vhosts(["/", "none"], counts(1500), (PUBLISHES,))["publish_details"]
    assert shown == {
        "rate": RATE,
        "samples": [
            {"sample": 1000, "timestamp": 1000 * (NOW + 10)},
            {"sample": 0, "timestamp": 1000 * NOW},
            {"sample": 0, "timestamp": 1000 * (NOW - 10)},
        ],
        "avg_rate": RATE / 2,
        "avg": 1000 / 3,
    }


def test_ranges_of_a_query() -> None:
    query = {
        "msg_rates_age": "60",
        "msg_rates_incr": "5",
        "lengths_age": "60",
        "data_rates_age": "x",
        "data_rates_incr": "5",
    }
    assert ranges_of(query) == Ranges(message_rates=Range(60, 5))


@pytest.mark.parametrize(("age", "increment"), [(MOST_STEPS + 1, 1), (0, 5), (60, 0), (-60, 5)])
def test_a_range_of_too_many_steps_or_none_is_refused(age: int, increment: int) -> None:
    with pytest.raises(Failure, match=f"Invalid range parameters: age {age}, incr {increment}"):
        ranges_of({"lengths_age": str(age), "lengths_incr": str(increment)})


def test_the_samples_of_a_response_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SAMPLES_SHOWN", 100)
    figures = Figures(history(), Ranges(lengths=Range(100, 10)))
    for _ in range(3):
        figures.of_queue("/", "q", None)
    with pytest.raises(Failure, match="too many samples") as refused:
        figures.of_queue("/", "q", None)
    assert refused.value.status == 400
    with pytest.raises(Failure, match="too many samples"):
        Figures(history(), Ranges(lengths=Range(100, 10))).lengths_of_vhosts(["/"] * 10)


def test_only_the_rates_and_samples_of_the_chosen_columns_are_made() -> None:
    ranges = Ranges(Range(60, 5), Range(60, 5))
    columns = [("name",), ("messages_details", "avg"), ("message_stats", "ack_details", "rate")]
    wanted = wanted_details(columns, "message_stats.publish_details.rate")
    row = Figures(history(), ranges, wanted).of_queue("/", "q", counts(1700, 800))
    stats = row.pop("message_stats")
    assert set(row) == {"messages_details"}
    assert {name for name in stats if name.endswith("_details")} == {"ack_details", "publish_details"}
    assert (stats["publish"], stats["deliver"]) == (1700, 800)
    assert wanted_details([("name",), ("message_stats",)], None) is None
    assert wanted_details([], "name") is None
    assert wanted_details([("name",)], None) == frozenset()
