"""Routes of clients to upstream groups, by what is known when a client connects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from amqproxy.configuration.upstream_config import RouteConfig
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.rules.context import Client
from amqproxy.rules.matching.attributes import client_value
from amqproxy.rules.matching.filters import FilterFailed, compiled


class Route:
    """One route of the configuration, to a group."""

    def __init__(self, config: RouteConfig, group: UpstreamGroup) -> None:
        self.group = group
        self._config = config
        self._filter = compiled(config.when) if config.when is not None else None

    def applies(self, client: Client, listener: str) -> bool:
        """Whether the route is for this client of a `listener`, as the configuration names it."""
        config = self._config
        if config.listener is not None and config.listener != listener:
            return False
        if (config.user is not None and config.user != client.user) or (
            config.vhost is not None and config.vhost != client.vhost
        ):
            return False
        if config.sni is not None and not _is_below(client.sni, config.sni):
            return False
        if self._filter is None:
            return True
        try:
            return self._filter.holds(lambda path: client_value(path, client))
        except FilterFailed:
            return False


class Routes:
    """The choice of a group for each client: the first route that applies, then the listener's group, then `default`.

    `by_listener` is keyed by the listeners' addresses, as the configuration names them. No route leads to `further`
    groups, but a switch may.
    """

    def __init__(
        self,
        default: UpstreamGroup,
        by_listener: Mapping[str, UpstreamGroup] | None = None,
        routes: Iterable[Route] = (),
        further: Iterable[UpstreamGroup] = (),
    ) -> None:
        self.default = default
        self._further = tuple(further)
        self._by_listener = dict(by_listener or {})
        self._routes = tuple(routes)

    def group_for(self, client: Client, listener: str) -> UpstreamGroup:
        """Return the group that takes a client of a listener."""
        for route in self._routes:
            if route.applies(client, listener):
                return route.group
        return self._by_listener.get(listener, self.default)

    @property
    def by_listener(self) -> dict[str, UpstreamGroup]:
        """The listeners' groups, by the addresses of the listeners."""
        return dict(self._by_listener)

    @property
    def groups(self) -> list[UpstreamGroup]:
        """All groups that clients may be routed to, the default one first."""
        routed = (route.group for route in self._routes)
        found = [self.default, *self._by_listener.values(), *routed, *self._further]
        return list({group.name: group for group in found}.values())


def _is_below(name: str, pattern: str) -> bool:
    """Whether a server name is the one of the pattern, or below it if that begins with `*.`; names ignore case."""
    name, pattern = name.lower().rstrip("."), pattern.lower().rstrip(".")
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern
