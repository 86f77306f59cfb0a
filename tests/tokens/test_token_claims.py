"""Parts of tokens that are read without their signature."""

from __future__ import annotations

import math
from base64 import urlsafe_b64encode
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.tokens.token_claims import WrongToken, expiry_of, header_of, is_token, time_of


def token_of(header: bytes, claims: bytes) -> str:
    return ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in (header, claims, b"signature"))


def test_a_token_looks_like_one() -> None:
    assert is_token(token_of(b'{"alg":"RS256"}', b"{}"))
    assert is_token(token_of(b'{"alg":"none"}', b"{}").rpartition(".")[0] + ".")
    for text in ("", "tulip", "a.b.c", "eyJ.a", "eyJ.a.b.c", "eyJ.a.b c", "eyJ.a.b\n", "eyJ.ä.b"):
        assert not is_token(text), text


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        (b'{"exp": 12}', 12.0),
        (b'{"exp": 12.5}', 12.5),
        (b"{}", math.inf),
        (b'{"exp": "12"}', math.inf),
        (b'{"exp": true}', math.inf),
        (b'{"exp": 1' + b"0" * 400 + b"}", math.inf),
        (b"[]", math.inf),
        (b"{" * 100_000, math.inf),
    ],
)
def test_an_expiry_is_read_where_there_is_one(claims: bytes, expected: float) -> None:
    assert expiry_of(token_of(b'{"alg":"RS256"}', claims)) == expected


def test_what_is_no_token_has_no_expiry() -> None:
    assert expiry_of("tulip") == math.inf


@given(st.text(alphabet="abcXYZ019-_.", max_size=80))
def test_any_text_is_a_header_or_refused(text: str) -> None:
    with suppress(WrongToken):
        assert isinstance(header_of(f"eyJ{text}.a.b"), dict)


def test_a_time_is_required() -> None:
    with pytest.raises(WrongToken, match="it has no `exp`"):
        time_of({}, "exp")
    assert time_of({}, "nbf", 0) == 0
