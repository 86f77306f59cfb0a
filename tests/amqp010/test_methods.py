"""Controls and commands to bytes and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from amqproxy.amqp010.commands import DtxStart, ExecutionException, FileReturn, MessageTransfer, QueueQuery
from amqproxy.amqp010.controls import ConnectionClose, ConnectionHeartbeat, ConnectionTuneOk, SessionFlush
from amqproxy.amqp010.domains import AcceptMode, AcquireMode, CloseCode, ErrorCode, SegmentType
from amqproxy.amqp010.frame import COMMAND, CONTROL, decode_method
from amqproxy.amqp010.methods import BY_INDEX, BY_NAME, METHODS, Command, Control, Method, spec_name
from amqproxy.amqp010.results import QueueQueryResult, Xid
from tests.amqp010 import strategies


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (ConnectionHeartbeat(), "010a" + "0000"),
        (ConnectionTuneOk(heartbeat=1), "0106" + "0400" + "0001"),
        (ConnectionClose(CloseCode.NORMAL, "bye"), "010b" + "0300" + "00c8" + "03627965"),
        (SessionFlush(completed=True), "020c" + "0400"),
        (
            MessageTransfer("q", AcceptMode.NONE, AcquireMode.PRE_ACQUIRED, sync=True),
            "0401" + "0101" + "0700" + "01710100",
        ),
        (QueueQuery("q"), "0804" + "0100" + "0100" + "0171"),
        (DtxStart(Xid(1, b"", b"")), "0602" + "0100" + "0100" + "0000000a" + "0604" + "0700" + "000000010000"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_bytes(method: Method, expected: str) -> None:
    data = bytes.fromhex(expected)
    assert method.encode() == data
    assert decode_method(method.segment, data) == method


@given(strategies.methods)
def test_they_come_back_as_they_were(method: Any) -> None:
    data = method.encode()
    again = decode_method(method.segment, data)
    assert again == method
    assert type(again) is type(method)
    assert again.encode() == data


def test_the_tables_hold_the_same() -> None:
    assert set(BY_NAME.values()) == set(METHODS.values()) == set(BY_INDEX)
    assert [cls.index for cls in BY_INDEX] == list(range(len(BY_INDEX)))
    for cls in BY_INDEX:
        assert issubclass(cls, Control if cls.segment is SegmentType.CONTROL else Command)
        assert cls.segment == (CONTROL if issubclass(cls, Control) else COMMAND)
        assert METHODS[cls.class_code << 8 | cls.method_code] is cls


def test_fields_by_the_names_of_the_specification() -> None:
    exception = ExecutionException(ErrorCode.NOT_FOUND, 3, failing_class_code=8, failing_command_code=4)
    assert exception.to_dict() == {"error_code": 404, "command_id": 3, "class_code": 8, "command_code": 4}
    assert ExecutionException.choices == {"error_code": ErrorCode}
    assert spec_name("global_") == "global"
    assert FileReturn(312).to_dict() == {"reply_code": 312}


def test_fields_that_have_to_be_there() -> None:
    assert ConnectionTuneOk(heartbeat=1).absent == ("channel_max",)
    assert ConnectionTuneOk(0).absent == ()
    assert MessageTransfer().absent == ("accept_mode", "acquire_mode")


def test_what_a_command_may_lead_to() -> None:
    assert QueueQuery.result is QueueQueryResult
    assert BY_NAME["exchange.declare"].exceptions["exchange.reserved-names"] is ErrorCode.NOT_ALLOWED  # type: ignore[attr-defined]
