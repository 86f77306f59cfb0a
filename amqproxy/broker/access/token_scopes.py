"""Scopes of OAuth 2 tokens, as RabbitMQ's rabbitmq_auth_backend_oauth2 reads them.

A scope such as `rabbitmq.read:VHOST/NAME/ROUTING_KEY` permits an operation on names; one such as
`rabbitmq.tag:administrator` is a user tag. The prefix `rabbitmq.` is configured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from amqproxy.configuration.token_config import BrokerTokens

MOST_SCOPES = 2048
"""Maximum number of different scopes with the prefix, as in RabbitMQ."""

PARTY_TOKEN_PATH = "authorization.permissions.scopes"
"""The claim with the scopes of a requesting party token (UMA 2.0), as Keycloak makes it."""

TAG = "tag:"

OPERATIONS = ("configure", "write", "read")

_DELIMITERS = re.compile(r"([{.*}])")

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class TooManyScopes(ValueError):
    """A token with more than `MOST_SCOPES` scopes."""


Pattern = tuple[bytes, ...]
"""The texts between the `*` of a pattern; () for a malformed pattern, which fits nothing."""


class Grant(NamedTuple):
    """One permission: patterns of the virtual host, of the name, and perhaps of the routing key."""

    operation: str
    vhost: Pattern
    name: Pattern
    routing_key: Pattern | None


def scopes_of(claims: Mapping[str, Any], settings: BrokerTokens) -> list[str]:
    """Return the scopes of a token without their prefix, in order; those without the prefix are left out."""
    found = [
        *(each for path in settings.additional_scopes_key.split() for each in _at(claims, path, settings)),
        *_at(claims, PARTY_TOKEN_PATH, settings),
        *_listed(claims.get("scope"), settings),
    ]
    for scope in list(found):
        alias = settings.scope_aliases.get(scope, ())
        found += alias.split() if isinstance(alias, str) else alias
    prefix = settings.prefix
    chosen = sorted({each.removeprefix(prefix) for each in found if each.startswith(prefix)})
    if len(chosen) > MOST_SCOPES:
        raise TooManyScopes(f"it has {len(chosen)} scopes, and {MOST_SCOPES} are the most")
    return chosen


def tags_of(scopes: list[str]) -> tuple[str, ...]:
    """Return the user tags among scopes."""
    return tuple(each.removeprefix(TAG) for each in scopes if each.startswith(TAG))


def is_of_vhost(scope: str) -> bool:
    """Whether a scope permits different things in different virtual hosts by its variable `{vhost}`."""
    return "{vhost" in scope


def grants_of(scopes: Iterable[str], claims: Mapping[str, Any], vhost: str) -> Iterator[Grant]:
    """Yield the permissions among scopes, with `{vhost}` and the names of claims replaced by their values."""
    for scope in scopes:
        operation, _, rest = expanded(scope, claims, vhost).partition(":")
        patterns = rest.split("/")
        if operation in OPERATIONS and len(patterns) in (2, 3):
            vhosts, names, *routing_keys = map(pattern_of, patterns)
            yield Grant(operation, vhosts, names, routing_keys[0] if routing_keys else None)


def expanded(scope: str, claims: Mapping[str, Any], vhost: str) -> str:
    """Return a scope with its variables replaced; a name that is not one of a text is left, and "" is malformed."""
    parts = iter(_DELIMITERS.split(scope))
    found = ""
    for part in parts:
        if part != "{":
            found += part
            continue
        name = next(parts, "")
        value = vhost if name == "vhost" else claims.get(name)
        found += value if isinstance(value, str) else name
        if next(parts, "}") != "}":
            return ""
    return found


def pattern_of(text: str) -> Pattern:
    """Return a pattern from its text, in which `*` stands for any characters and others may be URL-encoded."""
    if _BAD_ESCAPE.search(text):
        return ()
    return tuple(unquote_to_bytes(each.replace("+", " ")) for each in text.split("*"))


def encoded(text: str) -> bytes:
    """Return a name as `fits` compares it."""
    return text.encode("utf-8", "surrogateescape")


def fits(pattern: Pattern, subject: bytes) -> bool:
    """Whether a pattern fits the whole of a name from `encoded`.

    As in RabbitMQ, each part between two `*` is found at its first place, without going back.
    """
    if not pattern:
        return False
    first, *rest = pattern
    if not subject.startswith(first):
        return False
    place = len(first)
    if not rest:
        return place == len(subject)
    for part in rest[:-1]:
        found = subject.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    if not rest[-1]:
        return True
    found = subject.find(rest[-1], place)
    return found >= 0 and found + len(rest[-1]) == len(subject)


def _at(value: Any, path: str, settings: BrokerTokens) -> list[str]:
    """Return the scopes at a path of claims, whose parts are separated by dots; of lists, those of each object."""
    key, _, rest = path.partition(".")
    if isinstance(value, list):
        return [scope for each in value if isinstance(each, dict) for scope in _at(each, path, settings)]
    if not isinstance(value, dict) or key not in value:
        return []
    return _at(value[key], rest, settings) if rest else _listed(value[key], settings)


def _listed(value: Any, settings: BrokerTokens) -> list[str]:
    """Return scopes in a list, in a text, or in an object by the id of the resource server."""
    match value:
        case str():
            return value.split(" ")
        case list():
            return [each for each in value if isinstance(each, str)]
        case dict():
            server = settings.resource_server_id
            return [f"{server}.{each}" for each in _listed(value.get(server), settings)]
        case _:
            return []
