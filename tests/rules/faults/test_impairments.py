"""Impairments are values, whose direction and time all have."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.faults import impairments
from amqproxy.rules.verdict import Impairment

KINDS = [kind for kind in vars(impairments).values() if isinstance(kind, type) and kind.__base__ is Impairment]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_value(kind: type[Impairment]) -> None:
    assert kind(CLIENT) == kind(CLIENT, None)
    assert kind(CLIENT) != kind(SERVER)
    assert kind(CLIENT, 2.0).duration == 2.0
    with pytest.raises(AttributeError):
        kind(CLIENT).duration = 3.0  # type: ignore[misc]


def test_there_are_as_many_as_toxiproxy_has() -> None:
    assert {kind.__name__ for kind in KINDS} == {
        "Bandwidth",
        "Cutoff",
        "HalfClose",
        "Latency",
        "Reset",
        "Silence",
        "Slicing",
        "SlowClose",
    }
