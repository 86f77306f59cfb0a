"""A pumped connection, whatever its protocol: what its readers learn."""

from __future__ import annotations

import pytest

from amqproxy.pump.pumps import are_available
from tests.pump.rig import PUBLISH, Wire
from tests.transcripts.words import octets

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")


def test_without_readers_bytes_are_counted_all_the_same(wire: Wire) -> None:
    lease = wire.hand_over()
    lease.adopt(None)
    wire.client.send(octets(PUBLISH))
    wire.settle()
    assert (lease.show(), lease.show()) == ((len(octets(PUBLISH)), 0), (0, 0))
    assert lease.frames() == 3
    assert wire.readers[0].offset == 0
