"""Labels of the kinds of frames."""

from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.tally import KINDS
from amqproxy.taps.amqp091.kind_labels import kind_labels


def test_each_kind_of_frame_has_labels() -> None:
    labels = [kind_labels(slot) for slot in range(KINDS) if slot not in range(3 * len(BY_INDEX) + 2, KINDS - 1)]
    assert len(set(labels)) == len(labels)
    assert kind_labels(KINDS - 1) == ("heartbeat", "")
    assert {kind for kind, _ in labels} == {"method", "header", "body", "heartbeat"}
