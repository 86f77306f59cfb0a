"""Connections as the API has them."""

from __future__ import annotations

import pytest

from dashboard.api.connections import described
from dashboard.connections import SeenConnection

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("properties", "name", "version"),
    [
        ({"connection_name": "shop", "version": "1.3"}, "shop", "1.3"),
        ({"qpid.client_process": "shop.py", "qpid.client_version": "1.36"}, "shop.py", "1.36"),
        ({"clientName": "jms", "qpid.client_process": "Qpid Java Client"}, "jms", None),
    ],
)
def test_one_that_is_over_has_what_its_client_said_of_itself(
    properties: dict[str, str], name: str, version: str | None
) -> None:
    seen = SeenConnection(stream=1, connection="a:1-b:2", since_ns=0, last_ns=0, first_seq=0, last_seq=0, is_open=False)
    seen.handshake = {"client_properties": properties}
    found = described(seen, None)
    assert (found["name"], found["product_version"]) == (name, version)
