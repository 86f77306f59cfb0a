"""Whole commands of 0-10 from the frames of a capture, and what they are in 0-9-1."""

from __future__ import annotations

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionSync, MessageTransfer, QueueDeclare
from amqproxy.amqp010.frame import COMMAND, FIRST_FRAME, LAST_FRAME, Frame, encode_frame, encode_method
from amqproxy.capture.amqp010.assembly_gatherer import AssemblyGatherer
from amqproxy.peer import CLIENT, SERVER
from tests.amqp010.samples import HEARTBEAT, TRANSFER_FRAMES, split


def frames(data: bytes) -> list[Frame]:
    return [Frame(raw) for raw in split(data)]


def test_a_message_is_whole_with_its_last_frame() -> None:
    gatherer = AssemblyGatherer()
    found = [gatherer.gather(SERVER, Frame(raw), 7) for raw in TRANSFER_FRAMES]
    assert found[:2] == [None, None]
    assert found[2] is not None
    assert found[2].view is not None
    assert (found[2].view.method.name, found[2].view.method.delivery_tag) == ("basic.deliver", 7)
    assert found[2].view.body == b"hello"


def test_what_has_no_counterpart_has_no_view() -> None:
    gatherer = AssemblyGatherer()
    (sync,) = frames(encode_method(1, ExecutionSync()))
    found = gatherer.gather(CLIENT, sync, 1)
    assert found is not None
    assert (found.assembly.method, found.view) == (ExecutionSync(), None)
    beat = gatherer.gather(CLIENT, Frame(HEARTBEAT), None)
    assert beat is not None
    assert beat.view is not None
    assert beat.view.index < 0


def test_what_is_cut_or_malformed_is_left_out() -> None:
    gatherer = AssemblyGatherer()
    rest = [gatherer.gather(CLIENT, Frame(raw), None) for raw in TRANSFER_FRAMES[1:]]
    assert rest == [None, None]
    odd = Frame(encode_frame(FIRST_FRAME | LAST_FRAME | 12, COMMAND, 1, b"\x08\x01\x01\x00\xff\xff"))
    assert gatherer.gather(CLIENT, odd, None) is None
    gatherer.gather(CLIENT, Frame(TRANSFER_FRAMES[0]), 0)  # whose rest does not come
    (declare,) = frames(encode_method(1, QueueDeclare("q")))
    found = gatherer.gather(CLIENT, declare, 1)
    assert found is not None
    assert found.view is not None
    assert found.view.method.name == "queue.declare"


def test_a_name_that_0_9_1_cannot_hold_is_left_out() -> None:
    long = Assembly(1, MessageTransfer("x"), None, b"")
    gatherer = AssemblyGatherer()
    assert [gatherer.gather(CLIENT, frame, 0) is not None for frame in frames(long.encode())][-1]
