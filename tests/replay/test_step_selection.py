"""Which steps a filter leaves."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicPublish, QueueDeclare, QueueDeclareOk
from amqproxy.replay.capture_part import CaptureInParts
from amqproxy.replay.step_selection import selected, streams_of
from amqproxy.replay.steps import CommandSent
from amqproxy.rules.matching.filters import compiled
from tests.replay.recordings import Recording, message


def recording() -> Recording:
    """Two connections with a queue each, to which the first one publishes twice."""
    found = Recording()
    for stream in (0, 1):
        found.open(stream)
        found.open_channel(stream, 1)
        found.ask(stream, 1, QueueDeclare(queue=f"q{stream}"), QueueDeclareOk(f"q{stream}", 0, 0))
    for body in (b"1", b"2"):
        found.client(0, 1, message(BasicPublish(routing_key="q0"), body))
    found.close(0)
    found.close(1)
    return found


def test_what_a_filter_does_not_let_by_is_marked_and_what_opens_and_closes_stays() -> None:
    steps = list(selected(recording().steps(), compiled("method == 'basic.publish'")))
    unwanted = [each for each in steps if isinstance(each, CommandSent) and not each.is_wanted]
    assert [each.command.method.name for each in unwanted] == ["queue.declare", "queue.declare"]
    assert len(steps) == len(list(recording().steps()))


def test_connections_of_which_nothing_is_left_are_found() -> None:
    chosen = compiled("routing_key == 'q0'")
    streams = streams_of(recording().steps(), chosen)
    assert streams == {0}
    assert {each.stream for each in selected(recording().steps(), chosen, streams)} == {0}
    assert streams_of(recording().steps(), compiled("queue == 'q1' && user == 'guest'")) == {1}


def test_a_part_has_its_connections_channels_and_commands() -> None:
    capture = CaptureInParts(list(recording().steps()))
    whole = capture.whole
    assert (whole.streams, whole.channels) == (frozenset({0, 1}), frozenset({(0, 1), (1, 1)}))
    assert len(capture.commands_of(whole)) == 4
    assert [each.index for each in capture.steps_of(whole)] == [each.index for each in recording().steps()]
    first = capture.commands_of(whole)[0]
    part = type(whole)(frozenset({0}), whole.channels, frozenset({first}))
    left = [each for each in capture.steps_of(part) if isinstance(each, CommandSent) and each.sender == "client"]
    assert {each.stream for each in left} == {0}
    assert [each.command.method.name for each in left if not each.is_wanted] == ["basic.publish", "basic.publish"]
