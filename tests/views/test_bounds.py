"""Nothing is kept of connections that are over, however many there were."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import islice
from typing import Any

from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import ChannelOpen
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, StreamEnded
from amqproxy.capture.filtering import filtered
from amqproxy.capture.selection.conversation import Conversation
from amqproxy.capture.selection.selection import Selection
from amqproxy.capture.selection.session_legs import SessionLegs
from amqproxy.rules.matching.filters import compiled
from amqproxy.views.dialogue import Dialogue
from amqproxy.views.ladder import Ladder
from amqproxy.views.ladder_view import LadderView
from amqproxy.views.passed_commands import commands_of
from amqproxy.views.statistics_collector import Collector

CONNECTIONS = 200
OPEN = Frame(encode_method(1, ChannelOpen()))


def short_connections(leg: str = "") -> Iterator[Decoded]:
    for stream in range(CONNECTIONS):
        name = f"10.0.0.1:{stream + 1}-10.0.0.2:5672"
        yield DecodedProtocolHeader(stream, stream, name, "client", "0-9-1", HEADER, leg)
        yield Amqp091DecodedFrames(stream, stream, name, "client", [OPEN], leg)
        yield StreamEnded(stream, stream, name, "over", leg)


def kept(generator: Any, name: str, items: int) -> int:
    """How much a generator has in a local variable, once it has given so many items."""
    assert len(list(islice(generator, items))) == items
    return len(inspect.getgeneratorlocals(generator)[name])


def test_steps_forget() -> None:
    assert kept(commands_of(short_connections()), "assemblers", 3 * CONNECTIONS - 5) <= 2
    assert kept(filtered(short_connections(), compiled("true")), "filters", 2 * CONNECTIONS - 5) <= 2
    for text, items in (("10.0.0.1", 3 * CONNECTIONS - 5), (f":{CONNECTIONS}-", 1), (f"{CONNECTIONS}", 1)):
        followed = Conversation(text).followed(short_connections())
        assert kept(followed, "wanted", items) <= 2
    dialogue = Dialogue(Selection()).lines(short_connections())
    assert kept(dialogue, "last", 5 * CONNECTIONS - 9) <= 2


def test_views_forget() -> None:
    collector = Collector(Selection(), compiled("true"))
    collector.feed(short_connections())
    assert not collector._open
    assert collector.connections == CONNECTIONS
    legs = SessionLegs()
    for leg in ("client", "upstream"):
        assert len(list(legs.noted(short_connections(leg)))) == 3 * CONNECTIONS
    assert [legs._client_streams, legs._paired, legs._held] == [{}, set(), {}]
    drawn: list[Ladder] = []

    def draw(ladder: Ladder) -> Iterator[str]:
        drawn.append(ladder)
        return iter(())

    view = LadderView(Selection(), None, draw, most=10)
    list(view.lines(short_connections()))
    list(view.finish())
    assert not drawn[0]._open
    assert len(drawn[0].sections) == 5
    assert drawn[0].left_out_connections == CONNECTIONS - 5
