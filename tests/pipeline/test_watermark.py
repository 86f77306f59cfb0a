"""Until when all that passed is known."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from amqproxy.pipeline.settle.watermark import Watermark, watermark

WINDOW_NS = 100


def test_one_chain_is_known_as_far_as_it_goes() -> None:
    assert watermark([1000], [], WINDOW_NS) == Watermark(known_ns=1000)
    assert watermark([1000], [900], WINDOW_NS) == Watermark(known_ns=1000, late_ns=800)


def test_of_several_the_one_furthest_behind_counts() -> None:
    found = watermark([1000, 940, 970], [900, 850], WINDOW_NS)
    assert found == Watermark(known_ns=940, late_ns=750, is_behind=True)
    assert watermark([1000, 1000], [], WINDOW_NS) == Watermark(known_ns=1000)


def test_one_that_is_further_behind_than_the_window_has_ended() -> None:
    assert watermark([1000, 899], [], WINDOW_NS) == Watermark(known_ns=1000)
    assert watermark([1000, 900], [], WINDOW_NS) == Watermark(known_ns=900, is_behind=True)


def test_what_has_no_time_has_no_watermark() -> None:
    assert watermark([], [], WINDOW_NS) == Watermark(known_ns=0)
