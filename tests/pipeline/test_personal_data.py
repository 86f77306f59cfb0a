"""Personal data and secrets, recognised by pattern and check digits, or by name."""

from __future__ import annotations

import time

import pytest

from amqproxy.pipeline.personal_data import held_by, named

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("ada@example.org", "e-mail"),
        ("write to Ada.Lovelace+x@mail.example.co.uk, please", "e-mail"),
        ("not@home", None),
        ("4111 1111 1111 1111", "card number"),
        ("paid with 5500-0000-0000-0004.", "card number"),
        (378282246310005, "card number"),
        ("4111 1111 1111 1112", None),  # its check digit
        (4111111111111112, None),
        (1795384800000, None),  # ms since 1970
        ("1795384800000000008", None),
        ("GB82 WEST 1234 5698 7654 32", "IBAN"),
        ("DE89370400440532013000", "IBAN"),
        ("DE88370400440532013000", None),
        ("+49 (30) 901820-12", "phone number"),
        ("0044 20 7946 0958", "phone number"),
        ("2026-11-29T10:00:00+01:00", None),
        ("1.5+2000000000", None),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "token"),
        ("amqps://shop:secret1@broker", "token"),
        ("Bearer abcdef1234567890", "token"),
        ("basic information", None),
        ("550e8400-e29b-41d4-a716-446655440000", None),
        ("order 12345", None),
        (True, None),
        (7.5, None),
        ("", None),
        ("\ud800@\udfff", None),
    ],
)
def test_values(value: str | int | float, kind: str | None) -> None:
    assert held_by(value) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("customerEmail", "e-mail"),
        ("e_mail", "e-mail"),
        ("mobile", "phone number"),
        ("dateOfBirth", "birth date"),
        ("firstName", "name"),
        ("street", "address"),
        ("zip", "address"),
        ("passportNo", "identity number"),
        ("apiKey", "secret"),
        ("name", None),  # of whatever it is
        ("total", None),
        ("zipper", None),
    ],
)
def test_names(name: str, kind: str | None) -> None:
    assert named(name) == (None if kind is None else f"{kind} (by name)")


@pytest.mark.parametrize(
    "text", ["4" * 4096, "a" * 4096, "a@" * 2048, "A1 " * 1400, "+1 " * 1400, "1-" * 2048, "GB82" * 1024]
)
def test_no_text_takes_long(text: str) -> None:
    begins = time.thread_time()
    held_by(text)
    assert time.thread_time() - begins < 1  # takes less than 20 ms; a pattern that goes back and forth takes minutes
