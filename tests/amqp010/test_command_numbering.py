"""The ids of commands, from the frames of one peer."""

import pytest

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.commands import ExecutionSync, MessageTransfer
from amqproxy.amqp010.controls import SessionAttach, SessionCommandPoint, SessionDetached
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.frame_reader import FrameReader

SYNC = encode_method(1, ExecutionSync())
POINT = encode_method(1, SessionCommandPoint(command_id=0xFFFF_FFFF, command_offset=0))
TRANSFER = Assembly(1, MessageTransfer(), None, b"b" * 5000).encode(4096)


def numbers(numbering: CommandNumbering, data: bytes) -> list[int | None]:
    return [numbering.number(frame) for frame in FrameReader(is_midstream=True).feed(data)]


def test_ids_follow_the_command_point_and_roll_over() -> None:
    numbering = CommandNumbering()
    assert numbers(numbering, SYNC + POINT + SYNC + TRANSFER + SYNC) == [None, None, 0xFFFF_FFFF, 0, 0, 0, 1]
    assert numbers(numbering, encode_method(2, ExecutionSync()) + SYNC) == [None, 2], "channels count for themselves"


def test_another_session_has_other_ids() -> None:
    for method in (SessionAttach(name_=b"s"), SessionDetached(name_=b"s")):
        numbering = CommandNumbering()
        assert numbers(numbering, POINT + encode_method(1, method) + SYNC) == [None, None, None]


def test_what_is_forgotten_is_not_known() -> None:
    numbering = CommandNumbering()
    numbers(numbering, POINT)
    numbering.forget()
    assert numbers(numbering, SYNC) == [None]


def test_a_command_point_that_is_malformed() -> None:
    point = encode_method(1, SessionCommandPoint(command_id=5, command_offset=0))
    size = len(point) - 6
    assert numbers(CommandNumbering(), point[:2] + size.to_bytes(2) + point[4:-6] + SYNC) == [None, None]


def test_what_came_elsewhere_is_skipped() -> None:
    numbering = CommandNumbering()
    numbers(numbering, POINT)
    numbering.skip(1, 3, is_under_way=False)
    numbering.skip(2, 3, is_under_way=True)
    assert numbers(numbering, SYNC + encode_method(2, ExecutionSync())) == [2, None]


def test_the_last_of_what_was_skipped_may_be_under_way() -> None:
    numbering = CommandNumbering()
    first, *rest = FrameReader().feed(TRANSFER)
    numbers(numbering, POINT)
    numbering.skip(1, 2, is_under_way=True)
    assert [numbering.number(frame) for frame in rest] == [0, 0]
    assert numbering.number(first) == 1
    numbering.skip(1, 0, is_under_way=True)
    assert numbering.number(rest[0]) == 1
    numbering.skip(1, 0, is_under_way=False)
    assert numbering.number(rest[1]) is None, "its end came elsewhere"


@pytest.mark.parametrize("channel", [1, 2])
def test_what_is_passed_over_is_counted(channel: int) -> None:
    sync = encode_method(channel, ExecutionSync())
    numbering = CommandNumbering()
    numbering.pass_over(POINT + sync + TRANSFER + sync)
    assert numbering.following(1) == (2 if channel == 1 else 0)
    numbering.pass_over(TRANSFER[: int.from_bytes(TRANSFER[2:4])])
    assert numbering.current(1) == (2 if channel == 1 else 0)
    numbering.pass_over(memoryview(encode_method(1, SessionDetached(name_=b"s"))))
    numbering.pass_over(b"")
    assert numbering.following(1) is None


def test_what_is_not_whole_is_not_passed_over() -> None:
    for data in (SYNC[:-1], SYNC + SYNC[:5], SYNC[:2] + bytes(20)):
        with pytest.raises(ValueError, match="not whole"):
            CommandNumbering().pass_over(data)
