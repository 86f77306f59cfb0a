"""A path of the API: its methods, who may use it, and the RabbitMQ versions that have it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from amqproxy.management.access import Access
from amqproxy.management.call import Call

Handler = Callable[[Call], Awaitable[Any]]


class Route(NamedTuple):
    """A path, such as `queues/{vhost}/{name}`, with the handler and the access of each method.

    It is below `/api`, unless it begins with `/`.
    """

    path: str
    methods: Mapping[str, Handler]
    access: Access
    writes: Access | None = None
    """Access of the methods that change something, where it differs."""
    since: tuple[int, int] = (0, 0)
    """The first RabbitMQ version with this path."""
    until: tuple[int, int] = (99, 0)
    """The first RabbitMQ version without it."""

    @property
    def full_path(self) -> str:
        return self.path if self.path.startswith("/") else f"/api/{self.path}"

    def makes_vhost(self, method: str) -> bool:
        """Whether the method needs no existing virtual host: it creates one, or refuses in its own way."""
        if method == "POST":
            return self.path in ("vhosts/{vhost}/deletion/protection", "vhosts/{vhost}/start/{node}")
        return method == "PUT" and self.path in ("vhosts/{vhost}", "permissions/{vhost}/{user}")

    def access_of(self, method: str) -> Access:
        """Return who may use a method of the path."""
        return self.access if method == "GET" or self.writes is None else self.writes

    @property
    def allowed(self) -> str:
        """The methods, as in the header Allow."""
        named = ["HEAD", "GET"] if "GET" in self.methods else []
        return ", ".join([*named, *(each for each in ("PUT", "POST", "DELETE") if each in self.methods), "OPTIONS"])


class Found(NamedTuple):
    """The route of a path, with the values of its variable segments."""

    route: Route
    values: Mapping[str, str]


class Routes:
    """All routes, by the number of segments; of two that match, the first in the table is taken."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._by_length: dict[int, list[tuple[list[str], Route]]] = {}
        for route in routes:
            segments = route.full_path[1:].split("/")
            self._by_length.setdefault(len(segments), []).append((segments, route))

    def find(self, raw_path: bytes, version: tuple[int, int]) -> Found | None:
        """Return the route of an undecoded path, in which `%2F` is part of a name and not a separator."""
        path = raw_path.partition(b"?")[0].decode("ascii", "replace")
        if not path.startswith("/"):
            return None
        asked = [unquote(each) for each in path[1:].rstrip("/").split("/")]
        for segments, route in self._by_length.get(len(asked), ()):
            if route.since <= version < route.until:
                values = _matched(segments, asked)
                if values is not None:
                    return Found(route, values)
        return None


def _matched(segments: Sequence[str], asked: Sequence[str]) -> dict[str, str] | None:
    values = {}
    for segment, value in zip(segments, asked, strict=True):
        if segment.startswith("{"):
            values[segment[1:-1]] = value
        elif segment != value:
            return None
    return values
