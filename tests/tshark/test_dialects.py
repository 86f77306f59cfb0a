"""Kinds of frames, as tshark tells them apart."""

from __future__ import annotations

from amqproxy.amqp010.commands import QueueDelete
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.frame import encode_method as encode_amqp010
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame, encode_method
from amqproxy.amqp091.methods import QueuePurge
from amqproxy.tshark.dialects import COMPARED, FrameShape


def test_methods_are_told_apart_where_tshark_numbers_them_right() -> None:
    shape_of = COMPARED["0-9-1"].shape_of
    assert shape_of(Frame(encode_method(1, QueuePurge(queue="q")))) == ("method", "queue.purge", 0, (50, 30))
    assert shape_of(Frame(HEARTBEAT_FRAME)) == FrameShape("heartbeat", None)
    shape = COMPARED["0-10"].shape_of(Amqp010Frame(encode_amqp010(1, QueueDelete(queue="q"))))
    assert shape == ("command", "queue.delete", 15, None)
