"""Commands of our own: when they are sent, and how many may be remembered."""

from __future__ import annotations

import pytest

from amqproxy.peer import CLIENT, SERVER
from amqproxy.proxy.amqp010.interception import own_commands
from tests.proxy.amqp010.interception.amqp010_stage import ATTACHING, OPENING, Amqp010Stage, transfer

NACK = 'action = "refuse"\nmatch.exchange = "orders"\nmatch.method = "basic.publish"\nwith = "nack"\n'
SUBSCRIBE = ">> 1 message.subscribe queue=a destination=d accept_mode=0 acquire_mode=0"


def test_not_within_a_command_of_the_peer() -> None:
    stage = Amqp010Stage(NACK)
    stage.say(SUBSCRIBE)
    sent = transfer(SERVER, destination="d", accept_mode=0, body=b"x" * 6000)
    stage.feed(SERVER, sent[:5000])
    assert stage.feed(CLIENT, transfer(accept_mode=0)) == ["=> 1 execution.sync"]
    heard = stage.feed(SERVER, sent[5000:])
    assert heard[0].startswith("<= 1 message.transfer destination=d")
    assert heard[1].startswith("<= 1 message.reject transfers=1")


def test_a_server_that_has_sent_no_command_yet() -> None:
    point = "<< 1 session.command-point command_id=0 command_offset=0"
    stage = Amqp010Stage(NACK, opening=OPENING + ATTACHING.replace(point, ""))
    assert stage.feed(CLIENT, transfer(accept_mode=0))[1:] == [
        "<= 1 session.command-point command_id=0 command_offset=0",
        "<= 1 message.reject transfers=0 code=0 text=refused by a rule of the proxy",
    ]
    assert stage.say("<< 1 session.command-point command_id=0 command_offset=0") == [
        "<= 1 session.command-point command_id=1 command_offset=0"
    ]


def test_what_is_settled_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_commands, "MAX_INSERTIONS", 3)
    stage = Amqp010Stage(NACK)
    for number in range(10):
        assert len(stage.feed(CLIENT, transfer(accept_mode=0))) == 2
        stage.say(f">> 1 session.completed commands=0-{number}")
    assert stage.feed(SERVER, transfer(SERVER, destination="d"))[0].startswith("<= 1 message.transfer")
    assert stage.say(">> 1 session.completed commands=0-10") == ["=> 1 session.completed commands=0"]


def test_more_than_can_be_remembered_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_commands, "MAX_INSERTIONS", 3)
    stage = Amqp010Stage(NACK)
    stage.say(SUBSCRIBE)
    stage.feed(SERVER, transfer(SERVER, destination="d", accept_mode=0))  # which is held, and so may be referred to
    for _ in range(3):
        assert len(stage.feed(CLIENT, transfer(accept_mode=0))) == 2
    heard = stage.feed(CLIENT, transfer(accept_mode=0))
    assert heard[-2].startswith("<= 1 execution.exception error_code=506")


def test_more_than_may_wait_for_the_end_of_a_command_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_commands, "MAX_PUT_OFF", 3)
    stage = Amqp010Stage(NACK)
    stage.say(SUBSCRIBE)
    sent = transfer(SERVER, destination="d", accept_mode=0, body=b"x" * 6000)
    stage.feed(SERVER, sent[:5000])
    for _ in range(3):
        assert stage.feed(CLIENT, transfer(accept_mode=0)) == ["=> 1 execution.sync"]
    assert stage.feed(CLIENT, transfer(accept_mode=0))[-1] == "=> 1 session.detach name_=s"
    heard = stage.feed(SERVER, sent[5000:])
    assert [each.split()[2] for each in heard] == ["message.transfer", "execution.exception", "session.detach"]
    assert "error_code=506" in heard[1]
