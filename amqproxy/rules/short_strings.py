"""Texts sent as short strings of at most 255 bytes: names, reasons, and the texts of closes and returns."""

from __future__ import annotations

from amqproxy.amqp091.errors import BY_CODE, MAX_REPLY_TEXT, named_text
from amqproxy.amqp091.wire import MAX_SHORT_STRING
from amqproxy.rules.matching.templates import Template


def fits(text: str) -> bool:
    """Whether the text fits a short string."""
    return len(text) <= MAX_SHORT_STRING // 4 or len(text.encode("utf-8", "surrogateescape")) <= MAX_SHORT_STRING


def check_short_string(text: str, key: str = "") -> None:
    """Raise `ValueError` if a text is too long for a short string, with the key in front if one is given."""
    if not fits(text):
        place = f".{key}: " if key else ""
        size = len(text.encode("utf-8", "surrogateescape"))
        raise ValueError(f"{place}the text has {size} bytes, the limit is {MAX_SHORT_STRING}")


def check_short_template(template: Template) -> None:
    """Raise `ValueError` if the literal parts of a template are too long for a short string."""
    check_short_string(template.literal)


def check_reply_text(text: str, code: int | None = None) -> None:
    """Raise `ValueError` if a configured reply text, with the name of its `code`, is too long."""
    size = len((text if code is None else named_text(code, text)).encode("utf-8", "surrogateescape"))
    if size > MAX_REPLY_TEXT:
        name = "" if code is None or code not in BY_CODE else f", with `{BY_CODE[code].name} - ` in front"
        raise ValueError(f".text: the text has {size} bytes{name}, the limit is {MAX_REPLY_TEXT}")
