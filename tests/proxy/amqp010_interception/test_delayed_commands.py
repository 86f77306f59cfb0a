"""What waits, on a connection of AMQP 0-10."""

from __future__ import annotations

import pytest

from amqproxy.peer import CLIENT
from amqproxy.proxy.amqp010_interception.delayed_commands import TURN
from tests.proxy.amqp010_interception.amqp010_stage import AMQP010Stage, transfer

MATCH = 'match.method = "basic.publish"\n'
SENT = "=> 1 message.transfer destination=orders accept_mode=1 acquire_mode=0 body=hello"


def test_a_hold_that_is_refused_at_its_timeout() -> None:
    stage = AMQP010Stage(f'action = "hold"\n{MATCH}timeout = 10\non_timeout = "refuse"\n')
    assert stage.feed(CLIENT, transfer()) == []
    assert stage.wait(9) == []
    heard = stage.wait(1)
    assert "held by rule 'r', and not released in time" in heard[1]
    assert [verdict.marks for _, _, verdict in stage.interceptor.take_effects().refused] == [("r",)]


def test_release() -> None:
    stage = AMQP010Stage(f'action = "hold"\n{MATCH}timeout = 10\n')
    stage.feed(CLIENT, transfer() + transfer())
    [number] = stage.interceptor.waiting
    with pytest.raises(KeyError):
        stage.interceptor.release(number + 1, None, stage.now)
    stage.interceptor.release(number, None, stage.now)
    assert stage.listen() == [SENT]
    stage.interceptor.release_all(stage.now)
    assert stage.listen() == [SENT]
    assert stage.interceptor.waiting == {}


def test_a_turn_is_bounded() -> None:
    stage = AMQP010Stage(f'action = "fault"\n{MATCH}fault = {{kind = "delay", seconds = 1}}\n')
    attaching = "\n".join(
        f">> {n} session.attach name_=s{n}\n<< {n} session.attached name_=s{n}\n"
        f">> {n} session.command-point command_id=0 command_offset=0"
        for n in range(2, TURN + 5)
    )
    stage.say(attaching)
    for number in range(1, TURN + 5):
        stage.feed(CLIENT, transfer(channel=number))
    stage.interceptor.tick(stage.now + 1)
    assert len(stage.listen()) == TURN
    stage.interceptor.tick(stage.now + 1)
    assert len(stage.listen()) == 4


def test_nothing_goes_on_once_all_is_over() -> None:
    stage = AMQP010Stage(f'action = "hold"\n{MATCH}timeout = 10\n')
    stage.feed(CLIENT, transfer())
    stage.interceptor.end()
    assert stage.interceptor.waiting == {}
    assert stage.interceptor.next_deadline == float("inf")
    assert stage.interceptor.share.used == 0
