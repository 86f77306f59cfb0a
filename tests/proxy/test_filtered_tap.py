"""What a tap is shown when only some of it is wanted."""

from amqproxy.proxy.filtered_tap import FilteredTap
from amqproxy.rules.matching.filters import Filter
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import OPEN, staged


async def test_a_tap_is_shown_what_is_wanted() -> None:
    audience = Audience()
    selection = FilteredTap(audience, Filter("method == 'basic.publish' && size == 5"), 1 << 20)
    async with staged(OPEN, tap=selection) as stage:
        await stage.play("""
            >> 1: basic.publish, 1: header 5, 1: body 5
            >> 1: basic.publish, 1: header 0
            >> 1: basic.qos
        """)
    assert audience.seen == ["client basic.publish", "client 2", "client 3"]
