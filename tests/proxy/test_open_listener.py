"""What a reload changes of a listener."""

from __future__ import annotations

import pytest

from amqproxy.configuration.config import ListenerConfig
from amqproxy.proxy.open_listener import ListenerLoad


@pytest.mark.parametrize(("before", "after"), [(0.0, 0.0), (0.0, 5.0), (5.0, 0.0), (5.0, 9.0)])
def test_limits(before: float, after: float) -> None:
    load = ListenerLoad(ListenerConfig(handshakes_per_second=before))
    load.connections = 2
    queue = load.handshakes
    assert not load.is_full
    load.apply(ListenerConfig(handshakes_per_second=after, connections=2))
    assert load.is_full
    assert (0.0 if load.handshakes is None else load.handshakes.rate) == after
    assert queue is None or load.handshakes in (None, queue), "who waits keeps the place"
