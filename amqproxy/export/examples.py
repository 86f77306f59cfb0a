"""Examples of messages, masked where they look like secrets, and small enough to be read."""

from __future__ import annotations

import re
from typing import Any

MASKED = "<masked>"

MAX_TEXT = 200
"""Maximum characters of a text."""

MAX_ENTRIES = 30
"""Maximum entries of an object, or items of an array."""

MAX_DEPTH = 8
"""Maximum nesting of objects and arrays."""

SECRET_NAMES = re.compile(
    r"pass(word|wd|phrase|code)?|pwd|secret|token|api.?key|access.?key|private|credential|authori[sz]ation|^auth|bearer"
    r"|cookie|session|signature|card.?(number|no)?$|cvv|cvc|iban|ssn|^pin$|otp",
    re.IGNORECASE,
)
"""Names that indicate a secret, wherever the word stands in the name."""

TOKENS = re.compile(
    r"\beyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*"  # a JSON web token
    r"|\b(?:bearer|basic|digest)\s+[\w+/=.~-]{8,}"  # as in the Authorization header
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"  # user and password in a URL
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
    r"|\bAKIA[0-9A-Z]{16}\b|\b(?:gh[pousr]|glpat|xox[abprs])[-_][\w-]{10,}",
    re.IGNORECASE,
)
"""Texts that give access to something."""

_CARD_NUMBER = r"\b(?:\d[ -]?){12,18}\d\b"

_SECRET_TEXTS = re.compile(f"{TOKENS.pattern}|{_CARD_NUMBER}", re.IGNORECASE)


def example_of(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with secrets masked, recognized by name or by content, and with excess content omitted."""
    if isinstance(value, dict):
        if depth >= MAX_DEPTH:
            return {}
        return {
            name: MASKED if SECRET_NAMES.search(name) and not _is_flag(each) else example_of(each, depth + 1)
            for name, each in list(value.items())[:MAX_ENTRIES]
        }
    if isinstance(value, list):
        return [] if depth >= MAX_DEPTH else [example_of(each, depth + 1) for each in value[:MAX_ENTRIES]]
    if isinstance(value, str):
        text = _SECRET_TEXTS.sub(MASKED, value)
        return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**12:
        return MASKED if len(str(abs(value))) >= 15 else value  # a card number; 13 digits are milliseconds
    return value


def _is_flag(value: Any) -> bool:
    return value is None or isinstance(value, bool)
