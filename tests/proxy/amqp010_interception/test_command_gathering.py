"""How much of a command comes before it is judged, and what becomes of the rest; `test_interceptor` has the whole."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.controls import SessionFlush
from amqproxy.amqp010.errors import FramingError
from amqproxy.amqp010.frame import encode_method
from amqproxy.peer import CLIENT, SERVER
from tests.proxy.amqp010_interception.amqp010_stage import AMQP010Stage, transfer

OTHER = 'action = "refuse"\nmatch.exchange = "secret"\nmatch.method = "basic.publish"'
BODY = 'action = "refuse"\nmatch.body = "none"\n'


@pytest.mark.parametrize(("rule", "when"), [(OTHER, 2), (BODY, 4)])
def test_it_goes_on_as_soon_as_rules_have_seen_enough(rule: str, when: int) -> None:
    """Two frames have the method and the header; four are all."""
    stage = AMQP010Stage(rule)
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
    stage = AMQP010Stage(BODY)
    sent, flush = transfer(body=b"x" * 8000), encode_method(1, SessionFlush())
    assert stage.feed(CLIENT, sent[:5000] + b"") == []
    frames = stage.legs[CLIENT].readers[CLIENT].feed(sent[5000:])
    end = AMQP010Stage(BODY)
    assert end.feed(CLIENT, sent + flush)[-1].startswith("=> 1 session.flush")
    stage.interceptor.take(CLIENT, frames, 0)
    assert stage.listen()[0].startswith("=> 1 message.transfer")


def test_a_body_that_is_longer_than_was_judged_ends_the_connection() -> None:
    stage = AMQP010Stage('action = "refuse"\nmatch.method = "basic.publish"\nmatch.size.min = 100')
    with pytest.raises(FramingError, match="longer than its content-length"):
        stage.feed(CLIENT, transfer(body=b"x" * 50, content_length=10))
