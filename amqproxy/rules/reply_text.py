"""Texts of closes and returns, which hold only so much."""

from __future__ import annotations

from amqproxy.amqp091.errors import BY_CODE, MAX_REPLY_TEXT, cut_reply_text

cut = cut_reply_text


def reply_text(code: int, text: str) -> str:
    """The text with the name of its reply code in front, where that has one; cut to what a close can hold."""
    return cut(_whole(code, text))


def check_reply_text(text: str, code: int | None = None) -> None:
    """`ValueError` when a text of the config's is longer than a reply text can be, behind the name of its `code`."""
    size = len((text if code is None else _whole(code, text)).encode("utf-8", "surrogateescape"))
    if size > MAX_REPLY_TEXT:
        name = "" if code is None or code not in BY_CODE else f", with `{BY_CODE[code].name} - ` in front"
        raise ValueError(f".text: {size} bytes{name}; a reply text has {MAX_REPLY_TEXT} at most")


def _whole(code: int, text: str) -> str:
    error = BY_CODE.get(code)
    if error is None:
        return text
    return f"{error.name} - {text}" if text else error.name
