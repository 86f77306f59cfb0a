"""Errors, their codes, and what they end."""

from __future__ import annotations

from amqproxy.amqp010 import errors
from amqproxy.amqp010.domains import CloseCode, DetachCode, ErrorCode
from amqproxy.amqp010.errors import BY_CODE, CommandInvalid, FramingError, Scope


def test_there_is_an_error_for_every_code() -> None:
    assert set(BY_CODE) == {*CloseCode, *DetachCode, *ErrorCode} - {CloseCode.NORMAL, DetachCode.NORMAL}
    scopes = {CloseCode: Scope.CONNECTION, DetachCode: Scope.ATTACHMENT, ErrorCode: Scope.SESSION}
    for code, error in BY_CODE.items():
        assert error.name == error.code.name.lower().replace("_", "-")
        assert error.code == code
        assert error.usual_scope is scopes[type(error.code)]


def test_what_an_error_says() -> None:
    error = CommandInvalid("no such command", channel=3, class_code=4, method_code=99, offset=120, command_id=7)
    assert str(error) == "503 command-invalid: no such command at byte 120"
    assert error.reply_text == "command-invalid: no such command"
    assert (error.channel, error.class_code, error.method_code, error.command_id) == (3, 4, 99, 7)
    assert str(FramingError("too large")) == "501 framing-error: too large"


def test_a_text_is_cut_to_what_fits_where_it_goes() -> None:
    assert len(FramingError("x" * 1000).reply_text) == errors.MAX_REPLY_TEXT
    assert len(CommandInvalid("x" * 1000).reply_text) == len("command-invalid: ") + 1000
    assert len(CommandInvalid("x" * 99_999).reply_text) == errors.MAX_DESCRIPTION
    text = FramingError("é" * 1000).reply_text
    assert len(text.encode()) <= errors.MAX_REPLY_TEXT
    assert set(text.removeprefix("framing-error: ")) == {"é"}
    assert FramingError("\udcff").reply_text == "framing-error: ?"


def test_a_scope_can_be_another_one() -> None:
    assert CommandInvalid("x", scope=Scope.CONNECTION).scope is Scope.CONNECTION
