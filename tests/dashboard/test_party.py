"""Clients by the name that they gave themselves."""

from __future__ import annotations

import pytest

from amqproxy.dashboard.party import Party, host_of, party_of

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"connection_name": "shop"}, "shop"),
        ({"qpid.client_process": "jms"}, "jms"),
        ({}, "10.0.0.7"),
        ("…", "10.0.0.7"),
    ],
)
def test_a_client_without_a_name_is_its_host(properties: object, name: str) -> None:
    handshake = {"client_properties": properties, "user": "guest", "virtual_host": "/"}
    assert party_of("10.0.0.7:4711-10.0.0.1:5673", handshake) == Party(name, "guest", "/")


def test_of_an_unknown_handshake_the_host_is_known() -> None:
    assert party_of("[::1]:4711-[::1]:5673", None) == Party("[::1]", "", "")
    assert host_of("somebody") == "somebody"
