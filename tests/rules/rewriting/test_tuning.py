"""Limits of a connection, made smaller."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import ConnectionTune, ConnectionTuneOk
from amqproxy.rules.rewriting.tuning import Tuning


@pytest.mark.parametrize(
    ("most", "offered", "expected"),
    [
        ({}, (2047, 131_072, 60), (2047, 131_072, 60)),
        ({"channel_max": 10, "frame_max": 8192, "heartbeat": 5}, (2047, 131_072, 60), (10, 8192, 5)),
        ({"channel_max": 10, "frame_max": 8192, "heartbeat": 5}, (0, 0, 0), (10, 8192, 5)),
        ({"channel_max": 10, "frame_max": 8192, "heartbeat": 5}, (3, 4096, 1), (3, 4096, 1)),
        ({"heartbeat": 30}, (2047, 0, 0), (2047, 0, 30)),
    ],
)
def test_the_broker_offers_no_more(
    most: dict[str, int], offered: tuple[int, int, int], expected: tuple[int, int, int]
) -> None:
    assert Tuning(**most).offered(ConnectionTune(*offered)) == ConnectionTune(*expected)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ((10, 8192, 5), None),
        ((1, 4096, 600), None),  # which is made less for the broker
        ((1, 4096, 0), None),
        ((11, 8192, 5), "NOT_ALLOWED - negotiated channel_max = 11 is higher than the maximum allowed value (10)"),
        ((0, 8192, 5), "NOT_ALLOWED - negotiated channel_max = no limit is higher than the maximum allowed value (10)"),
        ((10, 8193, 5), "NOT_ALLOWED - negotiated frame_max = 8193 is higher than the maximum allowed value (8192)"),
        ((10, 0, 5), "NOT_ALLOWED - negotiated frame_max = no limit is higher than the maximum allowed value (8192)"),
    ],
)
def test_a_client_that_takes_more_is_refused(answer: tuple[int, int, int], text: str | None) -> None:
    close = Tuning(channel_max=10, frame_max=8192, heartbeat=5).objection(ConnectionTuneOk(*answer))
    assert (close and (close.code, close.text)) == (text and (530, text))
    assert Tuning().objection(ConnectionTuneOk(*answer)) is None


@pytest.mark.parametrize(("asked", "answered"), [(600, 5), (0, 5), (6, 5), (5, 5), (2, 2)])
def test_the_broker_gets_no_longer_heartbeat_than_configured(asked: int, answered: int) -> None:
    tuning, answer = Tuning(channel_max=10, heartbeat=5), ConnectionTuneOk(10, 8192, asked)
    assert tuning.answered(answer) == ConnectionTuneOk(10, 8192, answered)
    assert Tuning(channel_max=10).answered(answer) is answer


@pytest.mark.parametrize(("asked", "answered"), [(4096, 8192), (8191, 8192), (8192, 8192), (131_072, 131_072), (0, 0)])
def test_the_broker_gets_no_smaller_frame_max_than_configured(asked: int, answered: int) -> None:
    tuning = Tuning(least_frame_max=8192)
    assert tuning.answered(ConnectionTuneOk(10, asked, 5)) == ConnectionTuneOk(10, answered, 5)
    assert tuning.objection(ConnectionTuneOk(10, asked, 5)) is None
