"""A ring of rows: which are kept, and since when."""

from __future__ import annotations

import pytest

from amqproxy.dashboard.message_ring import MessageRing
from amqproxy.dashboard.missing_frames import MissingFrames
from amqproxy.dashboard.ring import Ring
from amqproxy.taps.message_record import MessageRecord

pytestmark = pytest.mark.once


def test_the_time_before_which_entries_are_gone() -> None:
    ring = Ring(1 << 20, rows=2)
    for ts_ns in (1, 2):
        ring.append(MissingFrames(ts_ns, 1, "lost"))
        assert ring.kept_since_ns is None
    ring.append(MissingFrames(3, 1, "lost"))
    assert ring.kept_since_ns == 2


def test_the_time_before_which_messages_are_gone() -> None:
    ring = MessageRing(1 << 20, rows=2)
    for ts_ns in (1, 2):
        ring.append(MessageRecord(ts_ns=ts_ns, stream=0, connection="c", type="publish", outcome="confirmed"), 0)
        assert ring.kept_since_ns is None
    ring.append(MessageRecord(ts_ns=3, stream=0, connection="c", type="publish", outcome="confirmed"), 0)
    assert ring.kept_since_ns == 2
