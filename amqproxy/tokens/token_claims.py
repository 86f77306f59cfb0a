"""Parts of JSON Web Tokens (RFC 7519) that are read before their signature is checked, or instead."""

from __future__ import annotations

import math
import re
from base64 import urlsafe_b64decode
from typing import Any

import msgspec

MAX_TOKEN = 16 * 1024
"""Longest token that is looked at, in characters."""

_TOKEN = re.compile(r"eyJ[\w-]*\.[\w-]*\.[\w-]*", re.ASCII)


class WrongToken(ValueError):
    """A token that cannot be accepted; the text has no part of it."""


def is_token(text: str) -> bool:
    """Whether a password looks like a signed JWT."""
    return text.startswith("eyJ") and _TOKEN.fullmatch(text) is not None


def header_of(token: str) -> dict[str, Any]:
    """Return a token's header; raise `WrongToken`."""
    return decoded(_part(token, 0))


def expiry_of(token: str) -> float:
    """Return when a token expires, by its own words, in seconds since 1970; infinity if it does not say."""
    if not is_token(token):
        return math.inf
    try:
        return time_of(decoded(_part(token, 1)), "exp", math.inf)
    except WrongToken:
        return math.inf


def time_of(claims: dict[str, Any], name: str, default: float | None = None) -> float:
    """Return a claim that is a time; raise `WrongToken` if it is none, or is missing without a default."""
    value = claims.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongToken(f"it has no `{name}`" if value is None else f"its `{name}` is not a number")
    try:
        return float(value)
    except OverflowError:
        raise WrongToken(f"its `{name}` is not a time") from None


def decoded(data: bytes) -> dict[str, Any]:
    """Return a JSON object; raise `WrongToken`."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise WrongToken("a part of it is not a JSON object") from None


def _part(token: str, place: int) -> bytes:
    part = token.split(".")[place]
    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise WrongToken("a part of it is not base64") from None
