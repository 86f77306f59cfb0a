"""By what bounds of an address are kept."""

from __future__ import annotations

import pytest

from amqproxy.web.client_network import network_of

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        ("", "?"),
    ],
)
def test_an_ipv6_network_is_one_client(host: str, network: str) -> None:
    assert network_of(host) == network
