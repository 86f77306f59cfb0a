"""Counters for Prometheus. No label has more values than the protocol has names and codes.

The relay counts frames into `Tally`s, C arrays that cost it a few nanoseconds; they are turned into samples on each
scrape.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, product
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from amqproxy import __version__
from amqproxy.amqp091.errors import BY_CODE
from amqproxy.amqp091.protocol_header import OPAQUE
from amqproxy.compiled import _pure
from amqproxy.peer import Peer
from amqproxy.taps.dialects import TALLIES
from amqproxy.taps.fleet_collectors import (
    CertificateCollector,
    CountedGroup,
    SwitchCollector,
    SwitchCounts,
    UpstreamCollector,
)
from amqproxy.taps.metering.distribution import Distribution
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from amqproxy.taps.pool_metrics import PoolCollector

Tallies = dict[str, dict[Peer, Any]]
"""The tally of each peer's frames, by protocol."""

LATENCY_BUCKETS = (10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 100e-3, 1.0)
"""Upper bounds of the relay latency, in seconds."""

CONNECT_BUCKETS = (250e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 100e-3, 0.25, 1.0, 2.5, 10.0)
"""Upper bounds of the time to connect to an upstream, in seconds."""

REFUSALS = ("limit", "resources", "protocol", "proxy-header", "login-queue", "handshake-queue")
"""Reasons for closing client connections before a session."""

PUMP_RETURNS = ("method", "end", "gone", "stuck", "recall", "test", "large", "error", "memory", "incomplete")
"""Reasons for which pumps give connections back."""

UPSTREAM_FAILURES = ("refused", "timeout", "tls", "unreachable", "no answer", "lost")
"""Kinds of upstream failures."""

LOGIN_SOURCES = ("file", "certificate", "callback", "token", "network", "none")
"""Sources that decide about logins at the proxy; `none` if no source could."""

LOGIN_OUTCOMES = ("accepted", "refused", "failed")
"""Outcomes of logins at the proxy; `failed` is one that could not be checked."""

RENEWAL_OUTCOMES = ("renewed", "failed")
"""Outcomes of requests for a token with which the proxy logs in to brokers."""


SHOVEL_STATES = ("starting", "running", "terminated")


def code_label(code: int) -> str:
    """Return the label of a reply code: "other" if it is not an AMQP code."""
    return str(code) if code in BY_CODE or code == 200 else "other"


class Metrics:
    """All counters of one proxy, in a separate registry.

    `messages` are the counts that meters add to, if they are enabled. Components that count elsewhere add to the
    tallies and the latency in one of `before_scrape`, which a scrape calls first, in its own thread.
    """

    def __init__(self, *, counts_messages: bool = True) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.tallies: Tallies = {name: {peer: each.tally() for peer in Peer} for name, each in TALLIES.items()}
        self.latency = RelayLatency()
        self.messages = MessageCounts() if counts_messages else None
        self.before_scrape: list[Callable[[], None]] = []
        new = self.registry
        self.connections = Gauge("amqproxy_connections", "Client connections that are open.", registry=new)
        self.accepted = Counter("amqproxy_connections_accepted", "Client connections accepted.", registry=new)
        self.refused = Counter(
            "amqproxy_connections_refused", "Client connections closed before a session.", ["reason"], registry=new
        )
        self.opened = Counter("amqproxy_connections_opened", "Connections that reached open-ok.", registry=new)
        self.closes = Counter(
            "amqproxy_connection_closes",
            "Ends of connections, by the peer that closed and the code.",
            ["by", "code"],
            registry=new,
        )
        self.pumped = Gauge("amqproxy_connections_pumped", "Client connections that pumps relay.", registry=new)
        self.pump_threads = Gauge("amqproxy_pump_threads", "Threads that pumps run in.", registry=new)
        self.pump_returns = Counter(
            "amqproxy_pump_returns", "Connections that pumps have given back, by why.", ["reason"], registry=new
        )
        self.unread = Counter(
            "amqproxy_unread_connections",
            "Connections relayed without being decoded, by their protocol.",
            ["protocol"],
            registry=new,
        )
        self.unread_bytes = Counter(
            "amqproxy_unread_bytes", "Bytes relayed without being decoded, by sender.", ["sender"], registry=new
        )
        self.channels = Gauge("amqproxy_channels", "Channels that are open.", registry=new)
        self.channels_opened = Counter("amqproxy_channels_opened", "Channels opened.", registry=new)
        self.channel_closes = Counter(
            "amqproxy_channel_closes",
            "Ends of channels, by the peer that closed and the code.",
            ["by", "code"],
            registry=new,
        )
        self.protocol_errors = Counter(
            "amqproxy_protocol_errors", "Violations of the protocol, by sender.", ["sender", "code"], registry=new
        )
        self.upstream_failures = Counter(
            "amqproxy_upstream_failures", "Upstreams that could not be reached, or were lost.", ["reason"], registry=new
        )
        self.connect_seconds = Histogram(
            "amqproxy_upstream_connect_seconds",
            "How long it took to connect to an upstream, with its TLS handshake.",
            buckets=CONNECT_BUCKETS,
            registry=new,
        )
        self.upstream_up = Gauge(
            "amqproxy_upstream_up",
            "Whether the last attempt to connect to the upstream succeeded: 1, or 0.",
            ["upstream"],
            registry=new,
        )
        self.blocked = Gauge("amqproxy_connections_blocked", "Connections that the broker has blocked.", registry=new)
        self.blocked_seconds = Counter(
            "amqproxy_connection_blocked_seconds", "How long connections were blocked, all together.", registry=new
        )
        self.dtx_branches = Gauge(
            "amqproxy_dtx_branches",
            "Branches of distributed transactions in the integrated broker, by their state.",
            ["state"],
            registry=new,
        )
        for state in ("open", "prepared"):
            self.dtx_branches.labels(state)  # 0 without an integrated broker, as for other metrics
        self.shovels = Gauge(
            "amqproxy_shovels", "Shovels of the integrated broker, by their state.", ["state"], registry=new
        )
        for state in SHOVEL_STATES:
            self.shovels.labels(state)
        self.shovel_messages = Counter(
            "amqproxy_shovel_messages", "Messages that shovels of the integrated broker have moved.", registry=new
        )
        self.logins_refused = Counter(
            "amqproxy_authentication_failures", "Logins that the broker has refused.", registry=new
        )
        self.logins = Counter(
            "amqproxy_logins",
            "Logins of clients at the proxy, by what decided and how.",
            ["source", "outcome"],
            registry=new,
        )
        self.token_renewals = Counter(
            "amqproxy_token_renewals",
            "Requests for tokens with which the proxy logs in to an upstream, by their outcome.",
            ["upstream", "outcome"],
            registry=new,
        )
        self.records_dropped = Counter(
            "amqproxy_records_dropped", "Records that a tap was too slow for.", ["tap"], registry=new
        )
        self.copies_dropped = Counter(
            "amqproxy_copies_dropped",
            "Copies of publishes that rules made and that were dropped, by reason.",
            ["reason"],
            registry=new,
        )
        # Exported from the start, at 0: Prometheus does not see a counter rise to its first value.
        for reason in REFUSALS:
            self.refused.labels(reason)
        for protocol in sorted(OPAQUE):
            self.unread.labels(protocol)
        for peer in Peer:
            self.unread_bytes.labels(str(peer))
        for reason in PUMP_RETURNS:
            self.pump_returns.labels(reason)
        for source, outcome in product(LOGIN_SOURCES, LOGIN_OUTCOMES):
            self.logins.labels(source, outcome)
        for outcome in RENEWAL_OUTCOMES:
            self.token_renewals.labels("main", outcome)  # that of [upstream]; others are exported when they exist
        for reason in UPSTREAM_FAILURES:
            self.upstream_failures.labels(reason)
        self.registry.register(_TrafficCollector(self.tallies, self.latency, self.before_scrape))
        if self.messages is not None:
            self.registry.register(_MessageCollector(self.messages))
        build = Info("amqproxy_build", "Which amqproxy this is.", registry=new)
        form = "compiled" if _pure.is_compiled() else "plain"
        build.info({"version": __version__, "python": platform.python_version(), "form": form})

    def count_rules(self, counts: Callable[[], Mapping[str, RuleCounts]]) -> None:
        """Export the `counts` of each rule, by its name, on each scrape."""
        self.registry.register(_RuleCollector(counts))

    def count_upstreams(self, groups: Callable[[], Iterable[CountedGroup]]) -> None:
        """Export the members of upstream `groups`, on each scrape."""
        self.registry.register(UpstreamCollector(groups))
        self.registry.register(PoolCollector(groups))

    def count_switches(self, counts: Callable[[], Iterable[SwitchCounts]]) -> None:
        """Export the `counts` of the switches between upstreams, on each scrape."""
        self.registry.register(SwitchCollector(counts))

    def count_certificates(self, expiries: Callable[[], Mapping[str, float]]) -> None:
        """Export when the certificates in files expire, in seconds since 1970, on each scrape."""
        self.registry.register(CertificateCollector(expiries))

    def count_log(self, dropped: Callable[[], int]) -> None:
        """Export how many log lines were dropped, according to `dropped`, on each scrape."""
        self.registry.register(_LogCollector(dropped))

    def count_loop(self, seconds: Callable[[], float]) -> None:
        """Export the CPU time of the event loop's thread, according to `seconds`, on each scrape."""
        self.registry.register(_LoopCollector(seconds))


class RuleCounts(Protocol):
    """Counts of a rule's hits, of its hits in shadow mode, and of its errors."""

    @property
    def hits(self) -> int: ...

    @property
    def shadow_hits(self) -> int: ...

    @property
    def errors(self) -> int: ...

    @property
    def verdicts(self) -> Mapping[str, int]:
        """Count of each outcome."""


class RelayLatency:
    """Time that bytes stay in the proxy: from being received to having been handed to the other socket."""

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_BUCKETS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(LATENCY_BUCKETS, seconds)] += 1
        self.total += seconds


class _RuleCollector(Collector):
    def __init__(self, counts: Callable[[], Mapping[str, RuleCounts]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        hits = CounterMetricFamily("amqproxy_rule_hits", "Commands that a rule acted on.", labels=["rule"])
        text = "Commands that a rule in shadow mode would have acted on."
        shadow_hits = CounterMetricFamily("amqproxy_rule_shadow_hits", text, labels=["rule"])
        errors = CounterMetricFamily("amqproxy_rule_errors", "Commands that a rule failed on.", labels=["rule"])
        text = "Commands that a rule gave a verdict on, by what became of them."
        verdicts = CounterMetricFamily("amqproxy_rule_verdicts", text, labels=["rule", "verdict"])
        for name, counts in self._counts().items():
            for verdict, count in counts.verdicts.items():
                verdicts.add_metric([name, verdict], count)
            hits.add_metric([name], counts.hits)
            shadow_hits.add_metric([name], counts.shadow_hits)
            errors.add_metric([name], counts.errors)
        yield hits
        yield shadow_hits
        yield errors
        yield verdicts


class _LogCollector(Collector):
    def __init__(self, dropped: Callable[[], int]) -> None:
        self._dropped = dropped

    def collect(self) -> Iterator[Metric]:
        text = "Lines of the log that standard error did not take."
        yield CounterMetricFamily("amqproxy_log_lines_dropped", text, self._dropped())


class _LoopCollector(Collector):
    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds

    def collect(self) -> Iterator[Metric]:
        text = "CPU time of the event loop's thread."
        yield CounterMetricFamily("amqproxy_event_loop_cpu_seconds", text, self._seconds())


class _TrafficCollector(Collector):
    def __init__(
        self,
        tallies: Tallies,
        latency: RelayLatency,
        before: Iterable[Callable[[], None]] = (),
    ) -> None:
        self._tallies = tallies
        self._latency = latency
        self._before = before

    def collect(self) -> Iterator[Metric]:
        for add_counted in self._before:
            add_counted()
        labels = ["sender", "type", "method"]
        frames = CounterMetricFamily("amqproxy_frames", "Frames relayed.", labels=labels)
        sizes = CounterMetricFamily("amqproxy_frame_bytes", "Bytes of the frames relayed.", labels=labels)
        for name, tallies in self._tallies.items():
            labels_of = TALLIES[name].labels_of
            for sender, tally in tallies.items():
                for slot, (count, size) in enumerate(zip(tally.frames, tally.byte_counts, strict=True)):
                    if count:
                        values = [str(sender), *labels_of(slot)]
                        frames.add_metric(values, count)
                        sizes.add_metric(values, size)
        yield frames
        yield sizes
        seconds = HistogramMetricFamily("amqproxy_relay_seconds", RelayLatency.__doc__ or "")
        seconds.add_metric([], _buckets(LATENCY_BUCKETS, self._latency.counts), self._latency.total)
        yield seconds


_COUNTERS = {
    Count.PUBLISHED: "Messages that clients have published.",
    Count.CONFIRMED: "Publishes that the broker has confirmed.",
    Count.NACKED: "Publishes that the broker has refused: basic.nack.",
    Count.RETURNED: "Publishes that the broker has returned, since no queue takes them.",
    Count.DELIVERED: "Messages that the broker has sent, to consumers or for basic.get.",
    Count.REDELIVERED: "Of these, the ones that were delivered before.",
    Count.AUTO_ACKED: "Of the delivered ones, those that need no acknowledgement.",
    Count.ACKED: "Deliveries that clients have acknowledged.",
    Count.REJECTED: "Deliveries that clients have refused, not to be delivered again.",
    Count.REQUEUED: "Deliveries that clients have given back: refused with requeue, or recovered.",
    Count.UNTIMED: "Messages settled without a latency, as too many were open on their channel.",
}
_GAUGES = {
    Count.UNCONFIRMED: ("amqproxy_messages_unconfirmed", "Publishes that await their confirm."),
    Count.UNACKED: ("amqproxy_messages_unacked", "Deliveries that await their acknowledgement."),
    Count.CONSUMERS: ("amqproxy_consumers", "Consumers."),
}


class _MessageCollector(Collector):
    def __init__(self, counts: MessageCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        counts = self._counts
        for count, text in _COUNTERS.items():
            yield CounterMetricFamily(f"amqproxy_messages_{count.name.lower()}", text, counts.values[count])
        for count, (name, text) in _GAUGES.items():
            yield GaugeMetricFamily(name, text, counts.values[count])
        yield _histogram("amqproxy_publish_confirm_seconds", "From a publish to its confirm.", counts.confirm_seconds)
        yield _histogram("amqproxy_delivery_ack_seconds", "From a delivery to its settlement.", counts.ack_seconds)
        yield _histogram("amqproxy_published_bytes", "Bodies of the messages published.", counts.published_bytes)
        yield _histogram("amqproxy_delivered_bytes", "Bodies of the messages delivered.", counts.delivered_bytes)
        requests = HistogramMetricFamily(
            "amqproxy_request_seconds", "From a request of a client to its reply.", labels=["method"]
        )
        for method, distribution in sorted(counts.requests.items()):
            buckets = _buckets(distribution.bounds, distribution.counts)
            requests.add_metric([method], buckets, distribution.total)
        yield requests


def _histogram(name: str, text: str, distribution: Distribution) -> Metric:
    family = HistogramMetricFamily(name, text)
    family.add_metric([], _buckets(distribution.bounds, distribution.counts), distribution.total)
    return family


def _buckets(bounds: Iterable[float], counts: Iterable[int]) -> list[tuple[str, float]]:
    """Return the cumulative counts, by upper bound in Prometheus's notation."""
    names = [*map(floatToGoString, bounds), "+Inf"]
    return [(name, float(total)) for name, total in zip(names, accumulate(counts), strict=True)]
