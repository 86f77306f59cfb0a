"""Reply codes as exceptions. What each is called and closes is compared in test_specification."""

import pytest

from amqproxy.amqp091.errors import BY_CODE, CommandInvalid, FrameError, NotFound, PreconditionFailed, Scope, reply_text


def test_every_code_is_found_by_its_number() -> None:
    assert {code: error.code for code, error in BY_CODE.items()} == {code: code for code in BY_CODE}
    assert BY_CODE[404] is NotFound


def test_an_error_determines_its_answer() -> None:
    error = FrameError("it ends in 0x00", channel=3, class_id=60, method_id=40, offset=17)
    assert (error.code, error.name, error.scope) == (501, "FRAME_ERROR", Scope.CONNECTION)
    assert (error.channel, error.class_id, error.method_id, error.offset) == (3, 60, 40, 17)
    assert error.reply_text == "FRAME_ERROR - it ends in 0x00"
    assert str(error) == "501 FRAME_ERROR: it ends in 0x00 at byte 17"


def test_an_error_that_is_not_about_bytes_has_no_offset() -> None:
    assert str(CommandInvalid("no")) == "503 COMMAND_INVALID: no"
    assert CommandInvalid("no").offset is None


def test_a_scope_can_be_widened() -> None:
    assert PreconditionFailed("").scope is Scope.CHANNEL
    assert PreconditionFailed("", scope=Scope.CONNECTION).scope is Scope.CONNECTION


@pytest.mark.parametrize("text", ["x" * 1000, "ü" * 500, "€" * 300])
def test_a_reply_text_fits_a_short_string(text: str) -> None:
    data = NotFound(text).reply_text.encode()
    assert 250 < len(data) <= 255
    assert data.decode().startswith("NOT_FOUND - ")


@pytest.mark.parametrize(
    ("text", "fitting"),
    [
        ("", ""),
        ("x" * 255, "x" * 255),
        ("x" * 256, "x" * 252 + "..."),
        ("é" * 127, "é" * 127),
        ("é" * 128, "é" * 126 + "..."),
        ("x" + "é" * 128, "x" + "é" * 125 + "..."),
        ("x" * 251 + "😀" * 2, "x" * 251 + "..."),
        ("\udcff" * 255, "\udcff" * 255),
    ],
)
def test_a_text_that_is_too_long_is_cut_between_characters(text: str, fitting: str) -> None:
    assert reply_text(999, text) == fitting
    assert len(fitting.encode("utf-8", "surrogateescape")) <= 255


def test_a_reply_text_begins_with_the_name_of_its_code() -> None:
    assert reply_text(406, "no") == "PRECONDITION_FAILED - no"
    assert reply_text(406, "no", "ERROR") == "PRECONDITION_FAILED - no"
    assert reply_text(406, "") == "PRECONDITION_FAILED"
    assert reply_text(999, "no") == "no"
    assert reply_text(999, "no", "ERROR") == "ERROR - no"
    assert reply_text(999, "", "ERROR") == "ERROR"
    assert len(reply_text(406, "é" * 300).encode()) <= 255
