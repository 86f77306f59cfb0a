"""What taps are to know of commands, by their verdicts."""

from __future__ import annotations

from amqproxy.amqp010.commands import ExecutionException
from amqproxy.amqp010.frame import encode_method
from amqproxy.peer import CLIENT, SERVER
from amqproxy.proxy.amqp010.interception.tap_notes import shown_frames
from tests.proxy.amqp010.interception.amqp010_stage import Amqp010Stage, transfer


def notes(rule: str) -> list[tuple[tuple[str, ...], str, str]]:
    stage = Amqp010Stage(rule, is_tapped=True)
    stage.interceptor.take_passed(CLIENT)
    stage.feed(CLIENT, transfer(routing_key="k"))
    seen = [(note.rules, note.verdict, note.leg) for note, _ in stage.interceptor.take_passed(CLIENT)]
    return list(dict.fromkeys(seen))  # a message may pass in several pieces


def test_notes() -> None:
    match = 'match.method = "basic.publish"\n'
    assert notes(f'action = "tag"\ntags = ["a"]\n{match}') == [(("r",), "tagged", "")]
    assert notes(f'action = "tag"\ntags = ["a"]\nmode = "shadow"\n{match}') == [(("r (shadow)",), "shadow", "")]
    assert notes(f'action = "rewrite"\nrouting_key = "n"\n{match}') == [
        (("r",), "changed", "client"),
        (("r",), "changed", "upstream"),
    ]
    refused = notes(f'action = "refuse"\n{match}')
    assert refused[0] == (("r",), "refused", "client")
    assert notes(f'action = "redact"\nbody = true\n{match}') == [(("r",), "redacted", "")]


def test_an_exception_that_names_are_restored_in_is_the_brokers() -> None:
    stage = Amqp010Stage('action = "rewrite"\nqueue.prefix = "t1."', is_tapped=True)
    stage.say(">> 1 queue.declare queue=q passive=true")
    stage.interceptor.take_passed(SERVER)
    exception = ExecutionException(error_code=404, command_id=0, description="no queue 't1.q'")
    (heard,) = stage.feed(SERVER, encode_method(1, exception))
    assert "description=no queue 'q'" in heard
    seen = [note for note, _ in stage.interceptor.take_passed(SERVER)]
    assert [(note.verdict, note.leg) for note in seen] == [("changed", "upstream"), ("changed", "client")]
    assert not any(note.is_of_proxy(SERVER) for note in seen)


def test_what_may_not_be_shown_is_not() -> None:
    assert shown_frames(CLIENT, None, None) == ()  # type: ignore[arg-type]
