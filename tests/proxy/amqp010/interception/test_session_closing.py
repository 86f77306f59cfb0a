"""What both peers are sent where a session is closed, by where its attachment stands."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.errors import Scope
from amqproxy.peer import CLIENT, SERVER
from amqproxy.rules.verdict import Close
from tests.proxy.amqp010.interception.amqp010_stage import OPENING, Amqp010Stage, transfer

CLOSE = Close(Scope.CHANNEL, 320, "closed by an operator")
EXCEPTION = "<= 1 execution.exception error_code=541 description=closed by an operator"


def test_an_attached_session() -> None:
    stage = Amqp010Stage()
    stage.interceptor.close_channel(1, CLOSE, 0)
    assert stage.listen() == ["=> 1 session.detach name_=s", EXCEPTION, "<= 1 session.detach name_=s"]
    stage.interceptor.close_channel(1, CLOSE, 0)
    assert stage.listen() == []


def test_one_that_may_be_resumed_is_given_up() -> None:
    stage = Amqp010Stage()
    stage.say(">> 1 session.request-timeout timeout=10\n<< 1 session.timeout timeout=10")
    stage.interceptor.close_channel(1, CLOSE, 0)
    assert stage.listen()[0] == "=> 1 session.request-timeout timeout=0"


def test_one_that_the_broker_has_not_answered() -> None:
    stage = Amqp010Stage(opening=OPENING + ">> 1 session.attach name_=s")
    stage.interceptor.close_channel(1, CLOSE, 0)
    assert stage.listen() == [
        "=> 1 session.detach name_=s",
        "<= 1 session.attached name_=s",
        "<= 1 session.command-point command_id=0 command_offset=0",
        EXCEPTION,
        "<= 1 session.detach name_=s",
    ]


def test_none() -> None:
    stage = Amqp010Stage(opening=OPENING)
    stage.interceptor.close_channel(1, CLOSE, 0)
    assert stage.listen() == []
    assert stage.say(">> 1 session.attach name_=s") == ["=> 1 session.attach name_=s"]


def test_not_within_a_message_to_the_client() -> None:
    stage = Amqp010Stage()
    stage.say(">> 1 message.subscribe queue=q destination=d accept_mode=0 acquire_mode=0")
    sent = transfer(SERVER, destination="d", accept_mode=0, body=b"x" * 6000)
    assert stage.feed(SERVER, sent[:5000]) == []
    stage.interceptor.close_channel(1, CLOSE, 0)
    assert stage.listen() == ["=> 1 session.detach name_=s"]
    heard = stage.feed(SERVER, sent[5000:])
    assert heard[0].startswith("<= 1 message.transfer destination=d")
    assert heard[1:] == [EXCEPTION, "<= 1 session.detach name_=s"]


def test_not_within_a_message_to_the_broker() -> None:
    """The rest of it behind a detach would be the end of the connection."""
    stage = Amqp010Stage()
    sent = transfer(body=b"x" * 6000)
    begin = _whole_frames(sent)
    stage.feed(CLIENT, sent[:begin])
    stage.interceptor.close_channel(1, CLOSE, 0)
    assert stage.listen() == [EXCEPTION, "<= 1 session.detach name_=s"]
    heard = stage.feed(CLIENT, sent[begin:])
    assert [each.split()[2] for each in heard] == ["message.transfer", "session.detach"]
    stage.say(">> 1 session.detached name_=s code=0\n<< 1 session.detached name_=s code=0")
    assert stage.say(">> 1 session.attach name_=other") == ["=> 1 session.attach name_=other"]


def test_the_rest_of_a_message_to_a_broker_that_has_detached_goes_no_further() -> None:
    stage = Amqp010Stage()
    sent = transfer(body=b"x" * 6000)
    begin = _whole_frames(sent)
    stage.feed(CLIENT, sent[:begin])
    stage.interceptor.close_channel(1, CLOSE, 0)
    stage.listen()
    assert stage.say("<< 1 session.detach name_=s") == ["=> 1 session.detached name_=s code=0"]
    assert stage.feed(CLIENT, sent[begin:]) == []
    assert stage.say(">> 1 session.detached name_=s code=0") == []
    assert stage.say(">> 1 session.attach name_=other") == ["=> 1 session.attach name_=other"]


def test_a_message_that_the_client_cuts_does_not_keep_the_broker_waiting() -> None:
    stage = Amqp010Stage()
    sent = transfer(body=b"x" * 6000)
    stage.feed(CLIENT, sent[: _whole_frames(sent)])
    stage.interceptor.close_channel(1, CLOSE, 0)
    stage.listen()
    heard = stage.say(">> 1 session.detached name_=s code=0")
    assert heard == ["=> 1 session.detach name_=s"]
    assert stage.say(">> 1 session.attach name_=other\n>> 1 session.command-point command_id=0 command_offset=0") == []
    heard = stage.say("<< 1 session.detached name_=s code=0")
    assert [each.split()[2] for each in heard] == ["session.attach", "session.command-point"]
    stage.heard[SERVER] = b""
    stage.feed(CLIENT, sent)
    assert stage.heard[SERVER] == sent


@pytest.mark.parametrize("name", ["session.detached name_=s code=0", "session.detach name_=s"])
def test_a_message_that_the_broker_cuts_does_not_keep_the_client_waiting(name: str) -> None:
    stage = Amqp010Stage()
    stage.say(">> 1 message.subscribe queue=q destination=d accept_mode=0 acquire_mode=0")
    sent = transfer(SERVER, destination="d", accept_mode=0, body=b"x" * 6000)
    assert len(sent) > 6000
    stage.feed(SERVER, sent[: _whole_frames(sent)])
    stage.interceptor.close_channel(1, CLOSE, 0)
    assert stage.listen() == ["=> 1 session.detach name_=s"]
    heard = stage.say(f"<< 1 {name}")
    assert [each for each in heard if each.startswith("<=")] == [
        "<= 1 session.gap commands=0",
        EXCEPTION,
        "<= 1 session.detach name_=s",
    ]
    stage.say(">> 1 session.detached name_=s code=0")
    assert stage.say(">> 1 session.attach name_=other") == ["=> 1 session.attach name_=other"]


def _whole_frames(data: bytes) -> int:
    """Where the last frame begins."""
    at = following = 0
    while following < len(data):
        at, following = following, following + int.from_bytes(data[following + 2 : following + 4])
    assert at > 0
    return at


def test_what_the_broker_sends_until_it_has_detached_goes_no_further() -> None:
    stage = Amqp010Stage()
    stage.say(">> 1 message.subscribe queue=q destination=d accept_mode=0 acquire_mode=0")
    stage.interceptor.close_channel(1, CLOSE, 0)
    stage.listen()
    assert stage.feed(SERVER, transfer(SERVER, destination="d", accept_mode=0)) == []
    assert stage.feed(CLIENT, transfer()) == []
