"""Counts of frames by kind."""

from amqproxy.amqp091.frame import (
    HEARTBEAT_FRAME,
)
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import BY_INDEX, BasicPublish, BasicQos
from amqproxy.amqp091.tally import KINDS, METHOD_COUNT, Tally, kind_labels
from tests.amqp091.samples import MESSAGE, NOTHING, PUBLISH, QOS, body, header


def test_every_frame_is_counted_by_what_it_is() -> None:
    tally = Tally()
    reader = FrameReader(tally)
    reader.open_content_state(1)
    reader.want(NOTHING, content=False)
    reader.feed(MESSAGE * 3 + QOS + HEARTBEAT_FRAME + header(1, 9) + body(b"x", 9))
    publish, qos = BasicPublish.index, BasicQos.index
    counted = {slot: (tally.frames[slot], tally.byte_counts[slot]) for slot in range(KINDS) if tally.frames[slot]}
    assert counted == {
        publish: (3, 3 * len(PUBLISH)),
        qos: (1, len(QOS)),
        METHOD_COUNT + publish: (3, 3 * len(header(5))),
        2 * METHOD_COUNT + publish: (3, 3 * len(body(b"hello"))),
        3 * METHOD_COUNT: (1, len(header(1))),
        3 * METHOD_COUNT + 1: (1, len(body(b"x"))),
        4 * METHOD_COUNT: (1, 8),
    }


def test_each_kind_of_frame_has_labels() -> None:
    labels = [kind_labels(slot) for slot in range(KINDS) if slot not in range(3 * len(BY_INDEX) + 2, KINDS - 1)]
    assert len(set(labels)) == len(labels)
    assert kind_labels(KINDS - 1) == ("heartbeat", "")
    assert {kind for kind, _ in labels} == {"method", "header", "body", "heartbeat"}
