"""Texts of a config that fit into short strings."""

from __future__ import annotations

import pytest

from amqproxy.rules.short_strings import check_reply_text, check_short_string, fits


@pytest.mark.parametrize(("text", "does_fit"), [("é" * 127, True), ("é" * 128, False), ("\udcff" * 255, True)])
def test_a_short_string_has_255_bytes(text: str, does_fit: bool) -> None:
    assert fits(text) is does_fit
    if does_fit:
        check_short_string(text, "key")
        return
    with pytest.raises(ValueError, match=r"^\.key: the text has 256 bytes, the limit is 255$"):
        check_short_string(text, "key")


def test_a_reply_text_has_room_for_the_name_of_its_code() -> None:
    check_reply_text("x" * 255)
    check_reply_text("x" * 255, 999)
    check_reply_text("x" * (255 - len("PRECONDITION_FAILED - ")), 406)
    with pytest.raises(
        ValueError, match=r"^\.text: the text has 256 bytes, with `PRECONDITION_FAILED - ` in front, the limit is"
    ):
        check_reply_text("x" * (256 - len("PRECONDITION_FAILED - ")), 406)
