"""Texts that are sent as short strings, which hold 255 bytes: names, reasons, and the texts of closes and returns."""

from __future__ import annotations

from amqproxy.amqp091.errors import BY_CODE, MAX_REPLY_TEXT, named_text
from amqproxy.amqp091.wire import MAX_SHORT_STRING
from amqproxy.rules.matching.templates import Template


def fits(text: str) -> bool:
    """Is it short enough for a short string?"""
    return len(text) <= MAX_SHORT_STRING // 4 or len(text.encode("utf-8", "surrogateescape")) <= MAX_SHORT_STRING


def check_short_string(text: str, key: str = "") -> None:
    """`ValueError`, with the key in front if one is given, when a text is too long for a short string."""
    if not fits(text):
        place = f".{key}: " if key else ""
        size = len(text.encode("utf-8", "surrogateescape"))
        raise ValueError(f"{place}{size} bytes; a name or short text has {MAX_SHORT_STRING} at most")


def check_short_template(template: Template, key: str = "") -> None:
    """The same for the literal parts of a template."""
    check_short_string(template.literal, key)


def check_reply_text(text: str, code: int | None = None) -> None:
    """`ValueError` when a text of the config's is longer than a reply text can be, behind the name of its `code`."""
    size = len((text if code is None else named_text(code, text)).encode("utf-8", "surrogateescape"))
    if size > MAX_REPLY_TEXT:
        name = "" if code is None or code not in BY_CODE else f", with `{BY_CODE[code].name} - ` in front"
        raise ValueError(f".text: {size} bytes{name}; a reply text has {MAX_REPLY_TEXT} at most")
