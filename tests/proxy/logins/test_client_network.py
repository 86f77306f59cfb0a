"""Networks by which clients are counted."""

import pytest

from amqproxy.proxy.logins.client_network import client_network


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_a_network_is_an_address_or_its_prefix(address: str, network: str) -> None:
    assert client_network(address) == network
