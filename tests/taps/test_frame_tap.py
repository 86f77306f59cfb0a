"""Records of frames, and the bound of those that wait to be printed."""

from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.frame import BODY, Frame, encode_frame
from amqproxy.amqp091.frame import HEADER as HEADER_FRAME
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.taps.frame_tap import FrameTap
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.record_queue import RecordQueue
from tests.taps.sessions import Session
from tests.transcripts.words import method


class Bell:
    rings = 0

    def __call__(self) -> None:
        self.rings += 1


FRAMES = [Frame(method(name, 1)) for name in ("tx.select", "tx.commit", "tx.rollback")]


def dropped(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value("amqproxy_records_dropped_total", {"tap": "print"}) or 0


def test_records_in_order() -> None:
    bell = Bell()
    queue = RecordQueue(100, 1 << 20, Metrics(), bell)
    tap = FrameTap(queue)
    tap.saw_protocol_header(Session(), HEADER)
    tap.saw_frames(Session(), SERVER, FRAMES)
    tap.saw_violation(Session(), CLIENT, FrameError("too large", offset=9))
    records, lost = queue.take_records(), queue.take_dropped()
    assert [record.method or record.type for record in records] == [
        "protocol-header",
        "tx.select",
        "tx.commit",
        "tx.rollback",
        "error",
    ]
    assert [record.sender for record in records] == ["client", "server", "server", "server", "client"]
    assert {(record.stream, record.connection) for record in records} == {(7, "c:1-p:2")}
    assert lost == 0
    assert bell.rings == 3
    assert (queue.take_records(), queue.take_dropped()) == (type(records)(), 0)


def test_what_there_is_no_room_for_is_counted() -> None:
    metrics = Metrics()
    queue = RecordQueue(4, 1 << 20, metrics, Bell())
    tap = FrameTap(queue)
    for _ in range(3):
        tap.saw_frames(Session(), CLIENT, FRAMES)
    tap.saw_protocol_header(Session(), HEADER)
    tap.saw_violation(Session(), CLIENT, FrameError("too large"))
    records, lost = queue.take_records(), queue.take_dropped()
    assert [record.method for record in records] == ["tx.select", "tx.commit", "tx.rollback", "tx.select"]
    assert lost == dropped(metrics) == 7
    tap.saw_frames(Session(), CLIENT, FRAMES)
    records, lost = queue.take_records(), queue.take_dropped()
    assert (len(records), lost) == (3, 0)
    assert dropped(metrics) == 7


def test_bytes_that_wait_are_bounded_too() -> None:
    metrics = Metrics()
    queue = RecordQueue(1000, 100_000, metrics, Bell())
    tap = FrameTap(queue)
    large = Frame(
        encode_frame(HEADER_FRAME, 1, ContentHeader(0, Properties(headers=Table({"x": "y" * 5000}))).encode())
    )
    tap.saw_frames(Session(), CLIENT, [large] * 20)
    count = len(queue.take_records())
    assert 3 < count < 10
    assert dropped(metrics) == 20 - count
    tap.saw_frames(Session(), CLIENT, [large] * 20)  # while those are being written
    assert len(queue.take_records()) == 0
    tap.saw_frames(Session(), CLIENT, [large] * 20)  # they are written by now
    assert len(queue.take_records()) == count


def test_bodies_count_where_they_are_shown() -> None:
    frames = [Frame(encode_frame(BODY, 1, b"x" * 10_000))] * 10
    for body, kept in ((0, 10), (100, 10), (10_000, 2)):
        queue = RecordQueue(100, 100_000, Metrics(), Bell())
        tap = FrameTap(queue, body=body)
        tap.saw_frames(Session(), CLIENT, frames)
        records = queue.take_records()
        assert len(records) == kept
        assert {len(record.body or "") for record in records} == {body}
