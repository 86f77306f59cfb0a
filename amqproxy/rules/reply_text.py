"""Texts of closes and returns, which hold only so much."""

from __future__ import annotations

from amqproxy.amqp091.errors import MAX_REPLY_TEXT


def cut(text: str) -> str:
    """The text, as much of it as a reply text can hold; dots end what is too long."""
    octets = text.encode("utf-8", "surrogateescape")
    if len(octets) <= MAX_REPLY_TEXT:
        return text
    return (octets[: MAX_REPLY_TEXT - 3] + b"...").decode("utf-8", "surrogateescape")
