"""Errors of both protocols, as taps are shown them."""

from __future__ import annotations

from amqproxy.amqp010.errors import CommandInvalid
from amqproxy.amqp091.errors import FrameError
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.record import record_error


def test_an_error_names_its_protocol() -> None:
    errors: list[AnyProtocolError] = [FrameError("no frame", offset=3), CommandInvalid("no command")]
    records = [record_error(each, ts_ns=1, stream=1, connection="c", sender="client") for each in errors]
    assert [(each.protocol, each.code) for each in records] == [("0-9-1", 501), ("0-10", int(CommandInvalid.code))]
