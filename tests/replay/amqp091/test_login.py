"""A played client logs in as the target's user, within what the live broker offers."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.login import user_of
from amqproxy.amqp091.methods import (
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqproxy.amqp091.wire import Table
from amqproxy.replay.amqp091.login import exceeds, open_method, start_ok, tune_ok
from amqproxy.replay.target import Target

TARGET = Target(user="me", password="mine")
RECORDED = Table({"product": "recorded"})


@pytest.mark.parametrize(
    ("recorded", "offered", "mechanism"),
    [
        ("PLAIN", b"AMQPLAIN PLAIN", "PLAIN"),
        ("AMQPLAIN", b"AMQPLAIN PLAIN", "AMQPLAIN"),
        ("EXTERNAL", b"AMQPLAIN PLAIN", "PLAIN"),
        ("EXTERNAL", b"AMQPLAIN", "AMQPLAIN"),
    ],
)
def test_the_mechanism_is_the_recorded_one_where_it_has_a_password(
    recorded: str, offered: bytes, mechanism: str
) -> None:
    method = start_ok(TARGET, ConnectionStart(mechanisms=offered), ConnectionStartOk(RECORDED, recorded, b"***"))
    assert (method.mechanism, user_of(method)) == (mechanism, "me")
    assert b"mine" in method.response
    assert method.client_properties == RECORDED


def test_limits_are_the_recorded_ones_but_none_goes_past_what_is_offered() -> None:
    offered = ConnectionTune(2047, 131072, 60)
    assert tune_ok(offered, ConnectionTuneOk(10, 4096, 5)) == ConnectionTuneOk(10, 4096, 5)
    assert tune_ok(offered, ConnectionTuneOk(0, 1_000_000, 0)) == ConnectionTuneOk(2047, 131072, 0)
    assert tune_ok(ConnectionTune(0, 0, 60), ConnectionTuneOk(7, 4096, 60)) == ConnectionTuneOk(7, 4096, 60)
    assert exceeds(ConnectionTuneOk(0, 4096, 0), offered)
    assert not exceeds(ConnectionTuneOk(1, 4096, 0), offered)


def test_the_virtual_host_is_the_targets_if_it_has_one() -> None:
    recorded = ConnectionOpen("recorded")
    assert open_method(TARGET, recorded) is recorded
    assert open_method(Target(virtual_host="test"), recorded).virtual_host == "test"
    assert open_method(TARGET, None).virtual_host == "/"
