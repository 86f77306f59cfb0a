"""Recognition of personal data and secrets in values, by their pattern or by the name of their field.

    ada@example.org        → "e-mail"
    4111 1111 1111 1111    → "card number", since its check digit fits
    {"birthday": "…"}      → "birth date (by name)"

The values themselves are never returned.
"""

from __future__ import annotations

import re
from functools import lru_cache

from amqproxy.export.examples import SECRET_NAMES, TOKENS

MAX_TEXT = 4096
"""Characters of a text that are searched."""

BY_NAME = " (by name)"
"""Suffix of a kind that only the field's name indicates."""

_EMAIL = re.compile(
    r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,8}\.[A-Za-z]{2,24}\b", re.ASCII
)
_CARD = re.compile(r"(?<![\dA-Za-z.-])(?:\d[ -]?){12,18}\d(?![\dA-Za-z-])", re.ASCII)
_ISSUED = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3[068]\d{12}|35\d{14}|6\d{15,18}", re.ASCII
)
"""Numbers of the large issuers; none begins as today's times in ms, µs or ns do."""
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?![A-Za-z0-9])", re.ASCII)
_PHONE = re.compile(r"(?<![\w+.])(?:\+|00)[1-9](?:[ ().-]{0,2}\d){7,14}(?![\w-])", re.ASCII)

_NO_WORD = re.compile(r"[\d:/+=_-]", re.ASCII)
"""Characters of tokens that plain words, such as "basic information", lack."""

_NAMES = (
    ("e-mail", r"e.?mail"),
    ("phone number", r"phone|mobile|msisdn|^tel$|^fax$"),
    ("card number", r"card.?(number|no)$|^pan$"),
    ("IBAN", r"iban"),
    ("birth date", r"birth|^dob$"),
    ("identity number", r"passport|^ssn$|social.?security|national.?id|tax.?id"),
    ("address", r"street|postal.?code|post.?code|^zip(.?code)?$"),
    ("name", r"(first|last|given|family|full|maiden).?name|surname"),
)
_NAMED = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _NAMES]


def held_by(value: str | int | float) -> str | None:
    """Return the kind of personal data or secret that a value looks like."""
    if not isinstance(value, str):
        return "card number" if isinstance(value, int) and 10**12 <= value < 10**19 and _is_card(str(value)) else None
    text = value[:MAX_TEXT]
    token = TOKENS.search(text)
    if token is not None and _NO_WORD.search(token[0]):
        return "token"
    if "@" in text and _EMAIL.search(text):
        return "e-mail"
    if any(_is_card(re.sub("[ -]", "", each)) for each in _CARD.findall(text)):
        return "card number"
    if any(_is_iban(each.replace(" ", "")) for each in _IBAN.findall(text)):
        return "IBAN"
    if _PHONE.search(text):
        return "phone number"
    return None


@lru_cache(4096)
def named(name: str) -> str | None:
    """Return the kind of personal data or secret that the name of a field indicates."""
    for kind, pattern in _NAMED:
        if pattern.search(name):
            return kind + BY_NAME
    return f"secret{BY_NAME}" if SECRET_NAMES.search(name) else None


def _is_card(digits: str) -> bool:
    """Whether digits are those of a card: of an issuer, with the check digit of ISO/IEC 7812 (Luhn)."""
    if not _ISSUED.fullmatch(digits):
        return False
    doubled = (sum(divmod(2 * int(each), 10)) for each in digits[-2::-2])
    return (sum(map(int, digits[::-2])) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """Whether the check digits of ISO 13616 fit: with the country last, and letters as numbers, it is 1 modulo 97."""
    if not 15 <= len(text) <= 34:
        return False
    return int("".join(str(int(each, 36)) for each in text[4:] + text[:4])) % 97 == 1
