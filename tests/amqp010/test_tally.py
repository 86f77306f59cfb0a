"""Counts of frames by kind."""

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import SessionAttach, SessionCompleted
from amqproxy.amqp010.frame import BODY, COMMAND, CONTROL, HEADER, encode_frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.tally import KINDS, METHOD_COUNT, Tally, kind_labels
from tests.amqp010.samples import COMPLETED, NOTHING, TRANSFER, TRANSFER_FRAMES


def test_every_frame_is_counted_by_what_it_is() -> None:
    tally = Tally()
    reader = FrameReader(tally)
    reader.want(NOTHING, content=False)
    unknown = (encode_frame(15, CONTROL, 1, b"\x09\x63"), encode_frame(11, COMMAND, 1, b"\x09\x63"))
    content = (encode_frame(3, HEADER, 1, b""), encode_frame(7, BODY, 1, b"x"))
    frames = reader.feed(TRANSFER * 3 + COMPLETED + b"".join((*unknown, *content)))
    assert [frame.index for frame in frames] == [-1, -1], "what is not known is handed over"
    assert reader.error is None
    transfer = MessageTransfer.index
    counted = {slot: (tally.frames[slot], tally.byte_counts[slot]) for slot in range(KINDS) if tally.frames[slot]}
    assert counted == {
        transfer: (3, 3 * len(TRANSFER_FRAMES[0])),
        SessionCompleted.index: (1, len(COMPLETED)),
        METHOD_COUNT + transfer: (3, 3 * len(TRANSFER_FRAMES[1])),
        2 * METHOD_COUNT + transfer: (3, 3 * len(TRANSFER_FRAMES[2])),
        3 * METHOD_COUNT: (1, 14),
        3 * METHOD_COUNT + 1: (1, 14),
        3 * METHOD_COUNT + 2: (1, 12),
        3 * METHOD_COUNT + 3: (1, 13),
    }


def test_pieces_of_a_command_are_counted_as_the_command() -> None:
    tally = Tally()
    reader = FrameReader(tally)
    data = MessageTransfer("q" * 9).encode()
    reader.feed(encode_frame(14, COMMAND, 1, data[:5]) + encode_frame(13, COMMAND, 1, data[5:]))
    assert tally.frames[MessageTransfer.index] == 2
    assert reader.error is None


def test_each_kind_of_frame_has_labels() -> None:
    assert kind_labels(SessionAttach.index) == ("control", "session.attach")
    assert kind_labels(MessageTransfer.index) == ("command", "message.transfer")
    assert kind_labels(METHOD_COUNT + MessageTransfer.index) == ("header", "message.transfer")
    assert kind_labels(2 * METHOD_COUNT + MessageTransfer.index) == ("body", "message.transfer")
    assert [kind_labels(3 * METHOD_COUNT + kind)[0] for kind in range(4)] == ["control", "command", "header", "body"]
