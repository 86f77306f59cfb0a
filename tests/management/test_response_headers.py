"""Headers for browsers: those that are configured, and which sites may read what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from amqproxy.management.response_headers import ResponseHeaders
from amqproxy.management.settings import Settings

ALLOWED, OTHER = "https://ops.example:8443", "https://other.example"


def headers(**keys: Any) -> ResponseHeaders:
    return ResponseHeaders(Settings(control=Path("unused"), host="127.0.0.1", port=0, **keys))


def cors(found: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in found if name.startswith(b"access-control-")}


@pytest.mark.parametrize(
    ("origins", "origin", "is_allowed"),
    [
        ((), OTHER, False),
        ((ALLOWED,), ALLOWED, True),
        ((ALLOWED,), OTHER, False),
        ((ALLOWED,), "https://ops.example", False),
        ((ALLOWED,), None, False),
        (("*",), OTHER, True),
    ],
)
def test_an_allowed_origin_is_named(origins: tuple[str, ...], origin: str | None, is_allowed: bool) -> None:
    request = {} if origin is None else {"origin": origin}
    expected = {"access-control-allow-origin": origin, "access-control-allow-credentials": "true"}
    assert cors(headers(cors_origins=origins).of(request)) == (expected if is_allowed else {})


def test_a_preflight_is_told_the_methods_and_what_it_asked_for() -> None:
    some = headers(cors_origins=(ALLOWED,), cors_max_age=1800.0)
    request = {"origin": ALLOWED, "access-control-request-headers": "authorization,content-type"}
    assert cors(some.of_preflight(request, "GET, OPTIONS")) == {
        "access-control-allow-methods": "GET, OPTIONS",
        "access-control-allow-headers": "authorization,content-type",
        "access-control-max-age": "1800",
    }
    assert some.of_preflight({**request, "origin": OTHER}, "GET") == []
    assert some.of_preflight({}, "GET") == []


@pytest.mark.parametrize(
    ("request_headers", "is_allowed"),
    [
        ({"host": "h"}, True),
        ({"host": "h", "origin": "http://h"}, True),
        ({"host": "h", "origin": OTHER}, False),
        ({"host": "h", "origin": ALLOWED, "sec-fetch-site": "cross-site"}, True),
        ({"host": "h", "sec-fetch-site": "cross-site"}, False),
    ],
)
def test_pages_of_other_sites_change_nothing_unless_allowed(
    request_headers: Mapping[str, str], is_allowed: bool
) -> None:
    assert headers(cors_origins=(ALLOWED,)).allows_change(request_headers) is is_allowed


def test_configured_headers_are_in_each_response() -> None:
    assert dict(headers().of({})).keys() == {
        b"cache-control",
        b"content-security-policy",
        b"vary",
        b"x-content-type-options",
    }
    found = dict(
        headers(
            content_security_policy="default-src 'none'", strict_transport_security="max-age=1", frame_options="DENY"
        ).of({})
    )
    assert found[b"content-security-policy"] == b"default-src 'none'"
    assert found[b"strict-transport-security"] == b"max-age=1"
    assert found[b"x-frame-options"] == b"DENY"
