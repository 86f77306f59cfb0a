"""Figures of captures, against a recount of the records of messages."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import Method, QueueDelete
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import SkippedBytes
from amqproxy.capture.filtering import filtered
from amqproxy.capture.observed import observed
from amqproxy.capture.selection.conversation import Conversation
from amqproxy.capture.selection.selection import Selection
from amqproxy.rules.context import Client
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.filters import Filter, compiled
from amqproxy.rules.message_filter import message_filters_of
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.note import Note
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.trace.open_tags import Span
from amqproxy.views import statistics_collector
from amqproxy.views.statistics import Statistics
from amqproxy.views.statistics_collector import (
    CLIENT_BYTES,
    OTHER,
    PUBLISHED,
    REFUSED,
    Collector,
    SelectedMessages,
)
from amqproxy.views.statistics_report import statistics_of
from amqproxy.views.statistics_text import statistics_lines
from tests.amqp010 import recorded as amqp010
from tests.capture import golden
from tests.example_count import example_count
from tests.schemas import schema_of
from tests.views.followed import capture, decoded, records

NAMES = [path.name.partition(".pcap")[0] for path in golden.captures()]


def statistics(names: Iterable[str], selection: Selection | None = None, wanted: Filter | None = None) -> Statistics:
    collector = Collector(selection or Selection(), wanted)
    for name in names:
        collector.feed(read_decoded(capture(name)))
    return statistics_of(collector, top=1000)


def messages(name: str, wanted: Filter | None = None) -> list[MessageRecord]:
    settings = ObserverSettings(kept_body=0 if wanted is None else CommandFilter.kept_body(wanted))
    selector_of = None if wanted is None else lambda number, name: CommandFilter(wanted, Client.named(number, name))
    return [each for each in observed(decoded(name), settings, selector_of) if isinstance(each, MessageRecord)]


def recount(found: list[MessageRecord]) -> dict[str, int]:
    """The totals, counted from records that were made without the collector."""
    publishes = Counter(each.outcome for each in found if each.type == "publish")
    deliveries = [each for each in found if each.type in ("deliver", "get")]
    outcomes = Counter(each.outcome for each in deliveries)
    return {
        "published": publishes.total(),
        "sent": publishes["sent"],
        "confirmed": publishes["confirmed"],
        "nacked": publishes["nacked"],
        "committed": publishes["committed"],
        "rolled_back": publishes["rolled back"],
        "returned": sum((each.type == "publish" and each.code is not None) or each.type == "return" for each in found),
        "delivered": len(deliveries),
        "got": sum(each.type == "get" for each in found),
        "redelivered": sum(each.redelivered for each in deliveries),
        "auto_acked": outcomes["auto-acked"],
        "browsed": outcomes["browsed"],
        "acked": outcomes["acked"],
        "rejected": outcomes["rejected"] + outcomes["nacked"],
        "recovered": outcomes["recovered"],
        "requeued": sum(bool(each.requeue) for each in deliveries),
        "open_publishes": publishes["open"],
        "open_deliveries": outcomes["open"],
        "unknown": publishes["unknown"] + outcomes["unknown"],
        "unknown_tags": sum(each.type == "settle" for each in found),
    }


def check(found: Statistics, told: list[MessageRecord]) -> None:
    """Compare what was collected with a recount."""
    as_json: dict[str, Any] = json.loads(found.to_json())
    jsonschema.Draft202012Validator(schema_of("statistics")).validate(as_json)
    assert as_json["messages"] == recount(told)
    confirms = [each.seconds for each in told if each.type == "publish" and each.outcome in ("confirmed", "nacked")]
    acks = [
        each.seconds
        for each in told
        if each.type in ("deliver", "get") and each.outcome in ("acked", "nacked", "rejected")
    ]
    requests = defaultdict(list)
    for each in told:
        if each.type == "request" and each.seconds is not None and each.method is not None:
            requests[each.method].append(each.seconds)
    got = [each for each in as_json["latencies"]["requests"] if each == "basic.get"]
    measured = {name: each["count"] for name, each in as_json["latencies"]["requests"].items() if name not in got}
    assert measured == {name: len(values) for name, values in requests.items() if name not in got}
    for name, values in (("publish_to_confirm", confirms), ("delivery_to_ack", acks)):
        if not values:
            assert name not in as_json["latencies"]
            continue
        shown = as_json["latencies"][name]
        assert shown["count"] == len(values) == sum(each["count"] for each in shown["intervals"])
        assert (shown["least"], shown["most"]) == (min(values), max(values))
        assert shown["mean"] == pytest.approx(sum(value or 0 for value in values) / len(values))
    for table, key in (("exchanges", "exchange"), ("routing_keys", "routing_key")):
        counts = Counter(json.dumps(getattr(each, key)) for each in told if each.type == "publish")
        sizes: Counter[str] = Counter()
        for each in told:
            if each.type == "publish":
                sizes[json.dumps(getattr(each, key))] += each.size or 0
        shown = as_json["top"][table]
        assert shown["is_exact"]
        assert {json.dumps(each["name"]): (each["messages"], each["bytes"]) for each in shown["top"]} == {
            name: (count, sizes[name]) for name, count in counts.items()
        }
    queues = Counter(json.dumps(each.queue) for each in told if each.type in ("deliver", "get"))
    assert {json.dumps(each["name"]): each["messages"] for each in as_json["top"]["queues"]["top"]} == queues
    assert sum(as_json["timeline"]["published"]) == as_json["messages"]["published"]
    assert list(statistics_lines(found, blocks=True))


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_those_of_a_recount(name: str) -> None:
    found = statistics([name])
    check(found, messages(name))
    passed = decoded(name)
    lost = sum(frame.lost for each in passed if isinstance(each, Amqp091DecodedFrames) for frame in each.frames)
    assert found.lost_bytes == lost + sum(each.lost for each in passed if isinstance(each, SkippedBytes))
    assert (found.lost_bytes > 0) == any(each in name for each in ("dropped", "snapped", "midway", "broken"))
    everything = [each for each in records(passed) if each.channel is not None and each.size is not None]
    assert {side: each.frames for side, each in found.frames.items()} == {
        side: sum(each.sender == side for each in everything) for side in ("client", "server")
    }
    assert sum(each.bytes for each in found.frames.values()) == sum((each.size or 0) + 8 for each in everything)


@settings(max_examples=example_count(60), deadline=None)
@given(
    st.sampled_from(NAMES),
    st.sampled_from(
        [
            "method == 'basic.publish'",
            "size > 100",
            "sender == 'server'",
            "routing_key == 'nowhere'",
            "channel.number == 2",
        ]
    ),
)
def test_figures_of_a_filter_are_those_of_a_recount(name: str, expression: str) -> None:
    wanted = compiled(expression)
    found = statistics([name], wanted=wanted)
    check(found, messages(name, wanted))
    frames = [each for each in records(filtered(decoded(name), wanted)) if each.size is not None]
    assert sum(each.frames for each in found.frames.values()) == len(frames)
    assert "findings" not in json.loads(found.to_json())


def test_figures_of_several_captures_are_added_up() -> None:
    one, two = statistics(["confirms"]), statistics(["transactions"])
    both = statistics(["confirms", "transactions"])
    assert both.connections == 2
    assert both.messages.published == one.messages.published + two.messages.published
    assert sum(both.timeline.bytes) == sum(one.timeline.bytes) + sum(two.timeline.bytes)


def test_figures_of_one_channel() -> None:
    found = statistics(["consume-large"], Selection(Conversation("0/2")))
    expected = [each for each in records(decoded("consume-large")) if each.channel == 2]
    assert sum(each.frames for each in found.frames.values()) == len(expected)
    assert found.messages.published == 0
    assert found.messages.acked > 0


def test_findings_and_errors_are_counted() -> None:
    found = statistics(["confirms", "channel-error", "login-refused"])
    assert isinstance(found.findings, list)
    kinds = {each.kind: each for each in found.findings}
    assert {"nacked-publish", "returned-publish", "channel-error", "login-refused"} <= set(kinds)
    errors = {(each.kind, each.code, each.text): each.count for each in found.errors}
    assert errors["returned", 312, "NO_ROUTE"] == 1
    assert errors["channel-closed", 404, "NOT_FOUND"] == 1
    assert not any(kind == "connection-lost" for kind, _, _ in errors)


def test_errors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_collector, "MAX_ERRORS", 1)
    collector = Collector(Selection())
    for name in ("confirms", "channel-error"):
        collector.feed(read_decoded(capture(name)))
    assert set(collector.errors) == {("nacked", "server", None, ""), OTHER}


def test_selected_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_collector, "MAX_SELECTED", 3)
    selected = SelectedMessages()
    for number in range(1, 6):
        selected.add(("publish", 1), number)
    selected.add(("deliver", 1), 5)
    assert selected.take(("publish", 1), Span(1, 10, 0)) == 2
    assert selected.take(("deliver", 1), Span(5, 5, 0)) == 1
    assert selected.take(("deliver", 1), Span(5, 5, 0)) == 0


def test_open_messages_of_a_filter_are_bounded_on_all_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_collector, "MAX_SELECTED", 3)
    selected = SelectedMessages()
    for channel in range(1, 50):
        selected.add(("publish", channel), 1)
    assert [place for place in range(1, 50) if selected.has(("publish", place), 1)] == [47, 48, 49]
    assert len(selected._numbers) == 3


@pytest.mark.parametrize("wanted", [None, "true", "size > 3"])
def test_what_happened_when_is_all_that_happened(wanted: str | None) -> None:
    collector = Collector(Selection(), None if wanted is None else compiled(wanted))
    for name in NAMES:
        collector.feed(decoded(name))
    sums = [sum(amounts) for amounts in collector.timeline.amounts()[1]]
    totals = collector.totals
    assert sums[PUBLISHED : REFUSED + 1] == [
        totals["published"],
        totals["delivered"],
        totals["confirmed"] + totals["committed"],
        totals["acked"],
        totals["nacked"] + totals["rolled_back"] + totals["returned"] + totals["rejected"] + totals["recovered"],
    ]
    assert sums[CLIENT_BYTES:] == [collector.frames[side][2] for side in (CLIENT, SERVER)]


def test_a_filter_knows_tags() -> None:
    def frames(method: Method, ts_ns: int, *tags: str) -> Amqp091DecodedFrames:
        frame = Frame(encode_method(1, method))
        return Amqp091DecodedFrames(ts_ns, 0, "10.0.0.1:4000-10.0.0.2:5672", "client", [frame], note=Note(tags=tags))

    passed = [frames(QueueDelete(queue=name, no_wait=True), place, name) for place, name in enumerate("abb")]
    found = Collector(Selection(), compiled("'b' in tags"))
    found.feed(passed)
    assert found.frames[CLIENT][0] == 2


def test_connections_and_findings_are_listed_whatever_a_filter_selects() -> None:
    for wanted in (None, compiled("exchange == 'nothing like it'")):
        found = Collector(Selection(), wanted, has_findings=True)
        found.feed(read_decoded(capture("login-refused")))
        found.feed(read_decoded(capture("confirms")))
        refused, fine = found.listed_connections.in_order()
        if refused.began_ns > fine.began_ns or not refused.has_failed:
            refused, fine = fine, refused
        assert refused.ending.startswith("closed by the server: 403 ACCESS_REFUSED")
        assert (refused.has_failed, refused.findings > 0) == (True, True)
        assert (fine.ending, fine.has_failed, fine.user, fine.vhost) == ("closed by the client", False, "guest", "/")
        assert fine.client == "Pika Python Client Library 1.4.4"
        assert fine.published == (3 if wanted is None else 0)
        assert fine.ended_ns > fine.began_ns
        kinds = dict(found.listed_findings.in_order())
        assert {"login-refused", "nacked-publish"} <= set(kinds)
        assert {kind: each.count for kind, each in kinds.items()} == {
            kind: count for (kind, _), count in found.findings.items()
        }


# --- AMQP 0-10


@pytest.mark.parametrize("expression", [None, 'routing_key == "jms.tx"', "size > 1000"])
@pytest.mark.parametrize("name", amqp010.SESSIONS)
def test_figures_of_0_10_are_those_of_its_records(name: str, expression: str | None) -> None:
    (path,) = amqp010.FOLDER.glob(f"{name}.pcap*")
    wanted = None if expression is None else Filter(expression)
    collector = Collector(Selection(), wanted)
    collector.feed(read_decoded(path))
    selector_of = None if wanted is None else message_filters_of(wanted)
    found = [
        each
        for each in observed(read_decoded(path), ObserverSettings(), selector_of)
        if isinstance(each, MessageRecord)
    ]
    outcomes = Counter((each.type, each.outcome) for each in found)
    published = [each for each in found if each.type == "publish"]
    delivered = [each for each in found if each.type == "deliver"]
    totals = collector.totals
    assert totals["published"] == len(published)
    assert totals["delivered"] == len(delivered)
    assert totals["redelivered"] == sum(each.redelivered for each in delivered)
    for total, kind, outcome in (
        ("confirmed", "publish", "confirmed"),
        ("committed", "publish", "committed"),
        ("rolled_back", "publish", "rolled back"),
        ("acked", "deliver", "acked"),
        ("recovered", "deliver", "recovered"),
        ("rejected", "deliver", "rejected"),
        ("auto_acked", "deliver", "auto-acked"),
        ("browsed", "deliver", "browsed"),
    ):
        assert totals[total] == outcomes[kind, outcome]
    if wanted is None:
        answered = Counter(each.method for each in found if each.type == "request" and each.outcome == "answered")
        assert {method: each.count for method, each in collector.requests.items()} == answered
        frames = sum(len(each.frames) for each in read_decoded(path) if isinstance(each, Amqp010DecodedFrames))
        assert sum(sums[0] for sums in collector.frames.values()) == frames
