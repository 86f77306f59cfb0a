"""Texts of the config's that are sent as short strings, which hold 255 bytes."""

from __future__ import annotations

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
    """The same for what a template says whatever fills its places."""
    check_short_string(template.literal, key)
