"""Labels of the kinds of frames."""

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import SessionAttach
from amqproxy.amqp010.tally import METHOD_COUNT
from amqproxy.taps.amqp010.kind_labels import kind_labels


def test_each_kind_of_frame_has_labels() -> None:
    assert kind_labels(SessionAttach.index) == ("control", "session.attach")
    assert kind_labels(MessageTransfer.index) == ("command", "message.transfer")
    assert kind_labels(METHOD_COUNT + MessageTransfer.index) == ("header", "message.transfer")
    assert kind_labels(2 * METHOD_COUNT + MessageTransfer.index) == ("body", "message.transfer")
    assert [kind_labels(3 * METHOD_COUNT + kind)[0] for kind in range(4)] == ["control", "command", "header", "body"]
