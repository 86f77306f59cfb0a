"""Routes of clients to groups."""

from __future__ import annotations

import pytest

from amqproxy.configuration.upstream_config import RouteConfig
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.routes import Route, Routes
from amqproxy.rules.context import Client

MAIN, BLUE, GREEN, RED = (UpstreamGroup(name, []) for name in ("main", "blue", "green", "red"))
ROUTES = Routes(
    MAIN,
    {":5671": RED},
    [
        Route(RouteConfig(upstream="blue", sni="blue.example.com"), BLUE),
        Route(RouteConfig(upstream="blue", sni="*.blue.example.com"), BLUE),
        Route(RouteConfig(upstream="green", listener=":5671", when='client.address.startsWith("10.")'), GREEN),
    ],
)


@pytest.mark.parametrize(
    ("listener", "client", "group"),
    [
        (":5672", {}, MAIN),
        (":5671", {}, RED),
        (":5671", {"address": "10.0.0.1"}, GREEN),
        (":5672", {"address": "10.0.0.1"}, MAIN),
        (":5671", {"address": "10.0.0.1", "sni": "blue.example.com"}, BLUE),
        (":5672", {"sni": "BLUE.example.com."}, BLUE),
        (":5672", {"sni": "a.b.blue.example.com"}, BLUE),
        (":5672", {"sni": "notblue.example.com"}, MAIN),
        (":5672", {"sni": "blue.example.com.evil"}, MAIN),
    ],
)
def test_the_first_route_that_applies_decides(listener: str, client: dict[str, str], group: UpstreamGroup) -> None:
    assert ROUTES.group_for(Client(**client), listener) is group  # type: ignore[arg-type]


def test_groups_are_listed_once_the_default_first() -> None:
    assert ROUTES.groups == [MAIN, RED, BLUE, GREEN]


def test_groups_without_a_route_are_listed_for_switches() -> None:
    assert Routes(MAIN, further=[GREEN, MAIN]).groups == [MAIN, GREEN]


def test_an_expression_that_fails_does_not_apply() -> None:
    route = Route(RouteConfig(upstream="blue", when="int(tls.sni) > 5"), BLUE)
    assert not route.applies(Client(sni="six"), "")


def test_what_is_unknown_at_connect_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"\.when: `queue` is not known when a client is routed; known are client\.address"
    ):
        RouteConfig(upstream="blue", when='queue == "a"')


@pytest.mark.parametrize(
    ("config", "client", "applies"),
    [
        (RouteConfig(upstream="blue", user="a"), Client(user="a"), True),
        (RouteConfig(upstream="blue", user="a"), Client(), False),
        (RouteConfig(upstream="blue", vhost="v", user="a"), Client(user="a", vhost="v"), True),
        (RouteConfig(upstream="blue", vhost="v", user="a"), Client(user="a", vhost="w"), False),
        (
            RouteConfig(upstream="blue", when="client.properties.product == 'pika'"),
            Client(properties={"product": "pika"}),
            True,
        ),
        (RouteConfig(upstream="blue", when="client.properties.product == 'pika'"), Client(), False),
    ],
)
def test_clients_that_log_in_at_the_proxy_are_known_better(config: RouteConfig, client: Client, applies: bool) -> None:
    assert config.needs_login
    assert Route(config, BLUE).applies(client, "") is applies
