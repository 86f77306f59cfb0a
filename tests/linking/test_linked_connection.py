"""Facts about connections."""

from __future__ import annotations

from amqproxy.linking.linked_connection import MAX_NAME, LinkedConnection
from amqproxy.taps.trace.events import StateRestored
from tests.linking.events import opened


def test_a_connection_has_the_name_that_its_client_gave_it() -> None:
    assert LinkedConnection.of(opened(connection_name="shop")) == LinkedConnection("/", "guest", "shop")
    assert LinkedConnection.of(opened()).name is None
    assert LinkedConnection.of(opened(connection_name="x" * 1000)).name == "x" * MAX_NAME


def test_a_restored_state_tells_the_same() -> None:
    restored = StateRestored(1, virtual_host="v", user="u", client_properties={"clientName": "qpid"})
    assert LinkedConnection.of(restored) == LinkedConnection("v", "u", "qpid")
