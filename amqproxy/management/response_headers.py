"""Headers of all responses: what browsers may do with them, and which sites may read them (CORS)."""

from __future__ import annotations

from collections.abc import Mapping

from amqproxy.management.settings import Settings
from amqproxy.web.browser_requests import has_other_origin, is_of_other_site

Header = tuple[bytes, bytes]

ANY = "*"
"""The origin in the configuration that stands for all."""


class ResponseHeaders:
    """The headers of one API, by its settings."""

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset(settings.cors_origins)
        self._max_age = settings.cors_max_age
        self._common: list[Header] = [
            (b"cache-control", b"no-cache"),
            (b"content-security-policy", settings.content_security_policy.encode()),
            (b"vary", b"accept, accept-encoding, origin"),
            (b"x-content-type-options", b"nosniff"),
        ]
        if settings.strict_transport_security is not None:
            self._common.append((b"strict-transport-security", settings.strict_transport_security.encode()))
        if settings.frame_options is not None:
            self._common.append((b"x-frame-options", settings.frame_options.encode()))

    def of(self, request: Mapping[str, str]) -> list[Header]:
        """Return the headers of the response to a request with these headers."""
        origin = request.get("origin")
        if origin is None or not self._allows(origin):
            return self._common
        return [
            *self._common,
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-allow-credentials", b"true"),
        ]

    def of_preflight(self, request: Mapping[str, str], methods: str) -> list[Header]:
        """Return the further headers of the response to OPTIONS: the methods, and the headers that were asked for."""
        origin = request.get("origin")
        if origin is None or not self._allows(origin):
            return []
        found = [(b"access-control-allow-methods", methods.encode())]
        wanted = request.get("access-control-request-headers")
        if wanted is not None:
            found.append((b"access-control-allow-headers", wanted.encode("latin-1")))
        if self._max_age is not None:
            found.append((b"access-control-max-age", str(int(self._max_age)).encode()))
        return found

    def allows_change(self, request: Mapping[str, str]) -> bool:
        """Whether a request may change something: pages of other sites may not, unless their origin is allowed."""
        origin = request.get("origin")
        if origin is not None and self._allows(origin):
            return True
        return not (has_other_origin(request) or is_of_other_site(request))

    def _allows(self, origin: str) -> bool:
        return ANY in self._origins or origin in self._origins
