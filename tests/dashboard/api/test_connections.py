"""Connections as the API has them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from amqproxy.dashboard.api.connections import described
from amqproxy.dashboard.capture_source import CaptureSource
from amqproxy.dashboard.connections import SeenConnection
from tests.amqp010.recorded import FOLDER

CAPTURES = Path(__file__).parents[3] / "captures"

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


@pytest.mark.parametrize(
    "path",
    [CAPTURES / "login-refused.pcapng", *FOLDER.glob("brokerj9.2__jms-010-errors.pcap*")],
    ids=lambda path: path.name,
)
def test_a_refused_login_has_its_user_and_client(path: Path) -> None:
    source = CaptureSource(1, path, 1 << 24, lambda: None)
    asyncio.run(source.run())
    refused = [each for each in source.observed.connections.seen.values() if not each.is_opened]
    assert refused
    for each in refused:
        found = described(each, None)
        assert found["user"]
        assert found["product"]
