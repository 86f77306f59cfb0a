"""How much of a command comes before it is judged, and what becomes of the rest; `test_interceptor` has the whole."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.controls import SessionFlush
from amqproxy.amqp010.errors import FramingError
from amqproxy.amqp010.frame import encode_method
from amqproxy.peer import CLIENT, SERVER
from tests.proxy.amqp010.interception.amqp010_stage import ATTACHING, OPENING, Amqp010Stage, transfer

OTHER = 'action = "refuse"\nmatch.exchange = "secret"\nmatch.method = "basic.publish"'
BODY = 'action = "refuse"\nmatch.body = "none"\n'


@pytest.mark.parametrize(("rule", "when"), [(OTHER, 2), (BODY, 4)])
def test_it_goes_on_as_soon_as_rules_have_seen_enough(rule: str, when: int) -> None:
    """Two frames have the method and the header; four are all."""
    stage = Amqp010Stage(rule)
    sent = transfer(body=b"x" * 8000, content_length=8000)
    stage.heard[SERVER] = b""
    frames = stage.legs[CLIENT].readers[CLIENT].feed(sent)
    assert len(frames) == 4
    for number, frame in enumerate(frames, 1):
        stage.interceptor.take(CLIENT, [frame], 0)
        stage.listen()
        assert bool(stage.heard[SERVER]) is (number >= when)
    assert stage.heard[SERVER] == sent


def test_a_control_waits_behind_a_command_that_is_gathered() -> None:
    stage = Amqp010Stage(BODY)
    sent, flush = transfer(body=b"x" * 8000), encode_method(1, SessionFlush())
    assert stage.feed(CLIENT, sent[:5000] + b"") == []
    frames = stage.legs[CLIENT].readers[CLIENT].feed(sent[5000:])
    end = Amqp010Stage(BODY)
    assert end.feed(CLIENT, sent + flush)[-1].startswith("=> 1 session.flush")
    stage.interceptor.take(CLIENT, frames, 0)
    assert stage.listen()[0].startswith("=> 1 message.transfer")


def test_a_body_that_is_longer_than_was_judged_ends_the_connection() -> None:
    stage = Amqp010Stage('action = "refuse"\nmatch.method = "basic.publish"\nmatch.size.min = 100')
    with pytest.raises(FramingError, match="longer than its content-length"):
        stage.feed(CLIENT, transfer(body=b"x" * 50, content_length=10))


ON_CHANNEL_0 = OPENING + ATTACHING.replace(" 1 ", " 0 ")
HOLD = 'action = "hold"\ntimeout = 600\nmatch.method = ["basic.publish", "basic.deliver"]'


def test_what_is_of_the_connection_waits_for_no_command_on_its_channel() -> None:
    """Qpid's JMS has its first session on channel 0: its heartbeats would come too late."""
    stage = Amqp010Stage(HOLD, opening=ON_CHANNEL_0)
    for sender, mark, arrow in ((CLIENT, ">>", "=>"), (SERVER, "<<", "<=")):
        sent = transfer(sender, channel=0)
        begin = int.from_bytes(sent[2:4])
        assert stage.feed(sender, sent[:begin]) == []
        assert stage.say(f"{mark} connection.heartbeat") == [f"{arrow} connection.heartbeat"]
        assert stage.feed(sender, sent[begin:]) == []
        assert stage.say(f"{mark} connection.heartbeat") == [f"{arrow} connection.heartbeat"]
    assert stage.say("<< connection.close reply_code=200 reply_text=bye")[-1].startswith("<= connection.close")
    assert stage.say(">> connection.close-ok") == ["=> connection.close-ok"]


@pytest.mark.parametrize("log", [[], ['action = "log"']])
def test_the_connection_may_end_while_a_session_on_its_channel_is_closed(log: list[str]) -> None:
    stage = Amqp010Stage(*log, OTHER, opening=ON_CHANNEL_0)
    heard = stage.feed(CLIENT, transfer(destination="secret", channel=0))
    assert [each.split()[1] for each in heard[:1]] == ["session.detach"], heard
    assert stage.say(">> connection.heartbeat") == ["=> connection.heartbeat"]
    assert stage.say(">> connection.close reply_code=200") == ["=> connection.close reply_code=200"]
    assert stage.say("<< connection.close-ok") == ["<= connection.close-ok"]
