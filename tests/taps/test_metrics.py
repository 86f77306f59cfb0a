"""Metrics: names, labels that cannot grow, and a text that the parser of Prometheus takes."""

import math
import re

import pytest
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp091.errors import BY_CODE
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metrics import (
    LATENCY_BUCKETS,
    REFUSALS,
    UPSTREAM_FAILURES,
    Metrics,
    code_label,
)
from tests.transcripts.words import octets


def exposed(metrics: Metrics) -> dict[str, Metric]:
    """The families by name, as a scraper reads them."""
    text = generate_latest(metrics.registry).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.mark.parametrize(
    ("code", "label"), [(200, "200"), (320, "320"), (541, "541"), (0, "other"), (999, "other"), (65535, "other")]
)
def test_codes_that_are_no_codes_share_a_label(code: int, label: str) -> None:
    assert code_label(code) == label


def test_there_are_as_many_labels_as_codes() -> None:
    assert {code_label(code) for code in range(65536)} == {"200", "other", *map(str, BY_CODE)}


def test_frames_and_bytes_by_method() -> None:
    metrics = Metrics()
    sent = octets("1: basic.publish, 1: header 5, 1: body 5")
    for peer, count in ((CLIENT, 2), (SERVER, 1)):
        reader = FrameReader(metrics.tallies["0-9-1"][peer])
        reader.open_content_state(1)
        for _ in range(count):
            reader.feed(sent)
    frames = {
        (sample.labels["sender"], sample.labels["type"], sample.labels["method"]): sample.value
        for sample in exposed(metrics)["amqproxy_frames"].samples
    }
    assert frames == {
        **{("client", kind, "basic.publish"): 2 for kind in ("method", "header", "body")},
        **{("server", kind, "basic.publish"): 1 for kind in ("method", "header", "body")},
    }
    volume = sum(sample.value for sample in exposed(metrics)["amqproxy_frame_bytes"].samples)
    assert volume == 3 * len(sent)


def test_the_histogram_of_latencies() -> None:
    metrics = Metrics()
    for seconds in (5e-6, 10e-6, 20e-6, 0.5, 3.0):
        metrics.latency.observe(seconds)
    family = exposed(metrics)["amqproxy_relay_seconds"]
    assert family.type == "histogram"
    buckets = {float(sample.labels["le"]): sample.value for sample in family.samples if sample.name.endswith("_bucket")}
    assert list(buckets) == [*LATENCY_BUCKETS, math.inf]
    assert (buckets[10e-6], buckets[25e-6], buckets[1.0], buckets[math.inf]) == (2, 3, 4, 5)
    values = {sample.name: sample.value for sample in family.samples if not sample.labels}
    assert values["amqproxy_relay_seconds_count"] == 5
    assert values["amqproxy_relay_seconds_sum"] == pytest.approx(3.500035)


def test_everything_has_a_name_of_ours_and_a_help() -> None:
    for family in exposed(Metrics()).values():
        assert family.name.startswith(("amqproxy_", "process_"))
        assert family.documentation


def test_two_proxies_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.accepted.inc()
    assert other.registry.get_sample_value("amqproxy_connections_accepted_total") == 0


def test_which_amqproxy_it_is_and_what_it_uses() -> None:
    text = generate_latest(Metrics().registry).decode()
    assert re.search(
        r'^amqproxy_build_info\{form="(compiled|plain)",python="3\..*",version=".*"\} 1\.0$', text, re.MULTILINE
    )
    assert re.search(r"^process_resident_memory_bytes [\d.e+]+$", text, re.MULTILINE)


def test_reasons_are_there_before_there_is_one() -> None:
    """Prometheus does not see that a counter goes up from nothing to its first value."""
    families = exposed(Metrics())
    for name, reasons in (("connections_refused", REFUSALS), ("upstream_failures", UPSTREAM_FAILURES)):
        samples = families[f"amqproxy_{name}"].samples
        assert {each.labels["reason"]: each.value for each in samples} == dict.fromkeys(reasons, 0.0)


def test_messages_and_their_latencies() -> None:
    metrics = Metrics()
    assert metrics.messages is not None
    meter = MessageMeter(metrics.messages)
    meter.feed(False, octets("1: channel.open"), 0.0)
    meter.feed(False, octets("1: confirm.select, 1: basic.publish, 1: header 5, 1: body 5"), 1.0)
    meter.feed(True, octets("1: confirm.select-ok"), 1.25)
    families = exposed(metrics)
    assert families["amqproxy_messages_published"].samples[0].value == 1
    assert families["amqproxy_messages_unconfirmed"].samples[0].value == 1
    (count,) = [each for each in families["amqproxy_request_seconds"].samples if each.name.endswith("_count")]
    assert (count.labels, count.value) == ({"method": "confirm.select"}, 1)
    sizes = {each.labels["le"]: each.value for each in families["amqproxy_published_bytes"].samples if each.labels}
    assert sizes["64.0"] == sizes["+Inf"] == 1


def test_messages_are_not_counted_where_that_is_not_wanted() -> None:
    families = exposed(Metrics(counts_messages=False))
    assert "amqproxy_messages_published" not in families


def test_frames_of_0_10_are_counted_beside_those_of_0_9_1() -> None:
    metrics = Metrics()
    metrics.tallies["0-10"][CLIENT].frames[MessageTransfer.index] += 3
    labels = {"sender": "client", "type": "command", "method": "message.transfer"}
    assert metrics.registry.get_sample_value("amqproxy_frames_total", labels) == 3
