"""Frames of AMQP 0-10 on their way to those who follow them: hub, ring, filter, records, packets."""

from __future__ import annotations

import io
from base64 import b64decode
from typing import Any

import msgspec
import pytest

from amqproxy.amqp010.errors import FramingError
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import records_of
from amqproxy.control.hub import Hub
from amqproxy.control.packet_subscription import PacketSubscription
from amqproxy.control.record_subscription import RecordSubscription
from amqproxy.control.request import Subscribe
from amqproxy.control.tap_ring import Cursor, TapRing
from amqproxy.peer import CLIENT
from amqproxy.proxy.filtered_tap import FilteredTap
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import Note
from tests.proxy.amqp010_script import ATTACH, CLOSE, LOGIN, MESSAGES, Showing, transfer
from tests.proxy.recording_tap import Audience
from tests.taps.sessions import Session

ALL = [*LOGIN, *ATTACH, *MESSAGES, *CLOSE]


def shown(*steps: Any) -> list[str]:
    """What a tap is shown that is shown it at once."""
    audience = Audience()
    Showing(Session(), audience).show(*steps)
    return audience.seen


def test_a_hub_and_its_ring_show_the_same() -> None:
    ring, audience, own = TapRing(1 << 20), Audience(), Audience()
    hub, session = Hub(own, lambda tap: None), Session()
    cursor = Cursor(ring)
    hub.add(ring)
    Showing(session, hub).show(*ALL)
    hub.saw_violation(session, CLIENT, FramingError("wrong"))
    while (entry := cursor.take()) is not None:
        entry.show(audience)
    assert audience.seen == own.seen == [*shown(*ALL), "client 501"]


def test_a_hub_removes_a_tap_that_fails() -> None:
    class Failing(Audience):
        def saw_frames(self, *_: Any) -> None:
            raise ZeroDivisionError

    hub, failing, other = Hub(None, lambda tap: None), Failing(), Audience()
    hub.add(failing)
    hub.add(other)
    Showing(Session(), hub).show(*ALL)
    assert failing.seen == [shown(*LOGIN)[0], shown(*LOGIN)[1]]
    assert other.seen == shown(*ALL)


def test_a_ring_without_a_reader_counts_what_it_does_not_keep() -> None:
    ring = TapRing(4000, may_close=True)
    missed: list[Any] = []
    cursor = Cursor(ring, on_missed=missed.append)
    showing = Showing(Session(), ring)
    showing.show(*LOGIN, *ATTACH, *[(CLIENT, transfer(b"x" * 3000))] * 5)
    assert ring.is_closed
    while cursor.take() is not None:
        pass
    showing.show(CLOSE[0])
    read = []
    while (entry := cursor.take()) is not None:
        read.append(entry.length)
    assert ring.shown == len(shown(*LOGIN, *ATTACH)) + 5 * 3 + 1, "each frame is shown or counted"
    assert read
    assert not missed


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (
            "method == 'message.transfer' && size == 2",
            ["server message.transfer #2", "server header #2", "server body #2"],
        ),
        ("method == 'connection.tune-ok' && user == 'guest'", ["client connection.tune-ok"]),
        ("vhost == 'test' && method == 'queue.declare'", ["client queue.declare #0"]),
        ("method == 'basic.publish'", []),
    ],
)
def test_a_filter_lets_by_what_it_holds_for(expression: str, found: list[str]) -> None:
    audience = Audience()
    tap = FilteredTap(audience, Filter(expression), 1 << 20)
    Showing(Session(), tap).show(*ALL)
    assert audience.seen == found


def test_a_filter_shows_what_there_is_no_room_to_wait_for() -> None:
    audience = Audience()
    Showing(Session(), FilteredTap(audience, Filter("size == 1"), 5000)).show(*LOGIN, *ATTACH, MESSAGES[0])
    assert audience.seen[:5] == ["client message.transfer #1", "client header #1", *["client body #1"] * 3]
    assert len(audience.seen) == 5 + 3 + 3


def test_a_recording_of_what_a_filter_lets_by_keeps_the_connection_and_claims_no_ids() -> None:
    audience = Audience()
    tap = FilteredTap(audience, Filter("size == 1"), 1 << 20, keeps_frame=lambda frame: True)
    Showing(Session(), tap).show(*ALL)
    assert audience.seen[:3] == shown(*LOGIN)[:3]
    assert "client session.attach" in audience.seen
    assert "client session.command-point" not in audience.seen
    assert not [each for each in audience.seen if "queue.declare" in each]


class Followed:
    def __init__(self, kind: type[Any], memory: int = 1 << 20, **request: Any) -> None:
        self.session = Session(name="10.0.0.1:4-10.0.0.9:5")
        self.ring = TapRing(memory)
        self.follower = kind(Subscribe(**request), self.ring, Metrics(), lambda: None)
        self.showing = Showing(self.session, self.ring)

    def events(self) -> list[dict[str, Any]]:
        found = []
        is_more = True
        while is_more:
            is_more = self.follower.look()
            found += [msgspec.json.decode(each) for each in self.follower.events()]
        return found


def of_records(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in each["record"].items() if name != "stream"} for each in events]


def test_records_of_frames_are_as_decode_has_them_of_the_packets() -> None:
    records, packets = Followed(RecordSubscription, frames=True, body=3), Followed(PacketSubscription, packets=True)
    for followed in (records, packets):
        followed.showing.show(*ALL)
    live = of_records(records.events())
    data = b"".join(b64decode(each["data"]) for each in packets.events())
    assert b"hidden" not in data
    found = []
    for decoded in read_decoded(io.BytesIO(data)):
        found += [msgspec.json.decode(each.to_json()) for each in records_of(decoded, body=3)]
    for each in (*live, *found):
        each.pop("ts_ns")
        each.pop("stream", None)
    assert found == live
    (subscribe,) = [each for each in live if each.get("method") == "message.subscribe"]
    assert (subscribe["protocol"], subscribe["command_id"], subscribe["flags"]) == ("0-10", 4, "BEbe")


def test_records_of_many_frames_are_made_some_at_a_time() -> None:
    followed = Followed(RecordSubscription, frames=True)
    followed.showing.show(*LOGIN, *ATTACH, (CLIENT, transfer(b"x") * 100))
    events = followed.events()
    assert [each["record"]["command_id"] for each in events[-300::3]] == list(range(100))


def test_records_have_what_rules_did() -> None:
    followed = Followed(RecordSubscription, frames=True, filter="method == 'message.subscribe'")
    followed.showing.show(*LOGIN, *ATTACH, *MESSAGES[:4], note=Note(rules=("r",), tags=("t",)))
    (event,) = followed.events()
    assert (event["record"]["rules"], event["record"]["tags"]) == (["r"], ["t"])
