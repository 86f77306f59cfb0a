"""How large a message may be."""

from __future__ import annotations

import pytest

from amqproxy.rules.context import ChannelInfo
from tests.rules.limits.limit_config import limit
from tests.rules.timeline import Timeline


@pytest.mark.parametrize("facts", [ChannelInfo(), ChannelInfo(is_confirming=True)])
def test_message_size(facts: ChannelInfo) -> None:
    timeline = Timeline(limit(of="message_size", most="1KiB", match={"exchange": "orders"}), facts=facts)
    timeline.play("""
        0    a1 basic.publish exchange=orders size=1024    passes
        0    a1 basic.publish exchange=orders size=1025    closes channel 406
        0    a1 basic.publish exchange=others size=1025    passes
    """)
