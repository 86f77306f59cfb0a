"""The Grafana dashboard: `python -m monitoring.grafana` writes `grafana.json` from the panels in this module.

Each row is a list of panels; `rate`, `total` and similar functions build the queries, so that all of them select by the
dashboard's variables in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as grafana
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
)

from amqproxy.cli.help import SITE
from amqproxy.rabbitmq.incompatibility import Level, kinds_of
from amqproxy.rabbitmq.profile import NEWEST, PROFILES
from amqproxy.taps.findings.inspector import DETECTORS

FILE = Path(__file__).with_suffix(".json")

SELECTED = 'job=~"$job", instance=~"$instance"'
"""Label matchers with the values of the dashboard's variables."""

ERRORS = 'code!~"200|320|none"'
"""Matcher for reply codes of abnormal closes; 320 is an orderly shutdown."""

BREAKING = "|".join(
    kind for kind in kinds_of(Level.BREAKS, PROFILES[NEWEST]) if kind in {each.kind for each in DETECTORS}
)
"""Findings about uses that break on an upgrade of RabbitMQ, as a regular expression."""

NOT_UP = 'state!="up"'
"""Matcher for the states in which a member does not take its share of clients."""

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

ALL = VariableOption(text="All", value="$__all", selected=True)

QUANTILES = (0.5, 0.95, 0.99)


# ------------------------------------------------------------------------------------------------------------- queries


@dataclass(frozen=True)
class Query:
    """A PromQL query, and the legend of its lines."""

    expression: str
    legend: str


def series(name: str, where: str = "") -> str:
    """Return the selector of a metric's series, for the selected proxies."""
    return f"{name}{{{', '.join(part for part in (SELECTED, where) if part)}}}"


def total(name: str, legend: str = "", *, by: str = "", where: str = "") -> Query:
    """Return a query of a gauge's sum over the selected proxies, or for each value of the label `by`."""
    return Query(f"sum{_by(by)}({series(name, where)})", legend or _each(by))


def rate(name: str, legend: str = "", *, by: str = "", where: str = "") -> Query:
    """Return a query of a counter's rate per second over the selected proxies, or for each value of the label `by`."""
    return Query(f"sum{_by(by)}(rate({series(name, where)}[$__rate_interval]))", legend or _each(by))


def quantile(share: float, name: str, *, by: str = "") -> Query:
    """Return a query of a quantile of a histogram's observations; `share` is between 0 and 1."""
    groups = ", ".join(part for part in ("le", by) if part)
    buckets = f"sum by ({groups}) (rate({series(f'{name}_bucket')}[$__rate_interval]))"
    return Query(f"histogram_quantile({share:g}, {buckets})", _each(by) or f"{share:.0%}")


def quantiles(name: str) -> tuple[Query, ...]:
    return tuple(quantile(share, name) for share in QUANTILES)


def top(query: Query, count: int = 10) -> Query:
    """Return a query of the `count` largest lines of another query."""
    return Query(f"topk({count}, {query.expression})", query.legend)


def named_if_empty(query: Query, label: str, name: str) -> Query:
    """Return a query whose line with an empty `label` is called `name`."""
    return Query(f'label_replace({query.expression}, "{label}", "{name}", "{label}", "")', query.legend)


def _by_member(name: str) -> str:
    """Return the expression of a counter's rate by member."""
    return rate(name, by="member").expression


def _by(labels: str) -> str:
    return f" by ({labels}) " if labels else ""


def _each(labels: str) -> str:
    """Return the legend of lines that differ by these labels."""
    return " ".join(f"{{{{{label.strip()}}}}}" for label in labels.split(",") if label)


# -------------------------------------------------------------------------------------------------------------- panels


@dataclass(frozen=True)
class Panel:
    """A panel of lines over time; `text` explains what a bad value means, and what to do about it.

    `unit` is one of Grafana's; `width` is in its columns, of which there are 24.
    """

    title: str
    text: str
    queries: tuple[Query, ...]
    unit: str = "short"
    width: int = 8
    height: int = 8

    def build(self) -> timeseries.Panel:
        legend = common.VizLegendOptions().show_legend(True)
        legend = legend.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        tooltip = common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)
        panel = timeseries.Panel().title(self.title).description(self.text).datasource(SOURCE)
        panel = panel.span(self.width).height(self.height).unit(self.unit).min(0).line_width(1).fill_opacity(10)
        for query in targets(self.queries):
            panel = panel.with_target(query)
        return panel.legend(legend).tooltip(tooltip)


@dataclass(frozen=True)
class Figure:
    """A panel of one or several figures: red from `red_from` on, or below `red_below`."""

    title: str
    text: str
    queries: tuple[Query, ...]
    unit: str = "short"
    width: int = 4
    height: int = 4
    red_from: float | None = None
    red_below: float | None = None

    def build(self) -> stat.Panel:
        steps = [Threshold(None, "green")]
        if self.red_from is not None:
            steps.append(Threshold(self.red_from, "red"))
        if self.red_below is not None:
            steps = [Threshold(None, "red"), Threshold(self.red_below, "green")]
        panel = stat.Panel().title(self.title).description(self.text).datasource(SOURCE)
        panel = panel.span(self.width).height(self.height).unit(self.unit).no_value("0")
        panel = panel.thresholds(grafana.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        panel = panel.color_scheme(grafana.FieldColor().mode(FieldColorModeId.THRESHOLDS))
        panel = panel.color_mode(BigValueColorMode.VALUE).graph_mode(BigValueGraphMode.AREA)
        for query in targets(self.queries):
            panel = panel.with_target(query)
        return panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))


def targets(queries: tuple[Query, ...]) -> list[prometheus.Dataquery]:
    return [
        prometheus.Dataquery().datasource(SOURCE).expr(query.expression).legend_format(query.legend).ref_id(name)
        for name, query in zip("ABCDEFGH", queries, strict=False)
    ]


# ---------------------------------------------------------------------------------------------------------------- rows

HEALTH = (
    Figure(
        "Proxies",
        "Proxies that answer Prometheus. Fewer than you run: one has ended or hangs, and its clients have no "
        "connection. See its log, and the alert AmqproxyDown.",
        (Query(f"sum({series('up')})", ""),),
        red_below=1,
    ),
    Figure(
        "Broker reachable",
        "1: the last attempt to connect to the broker succeeded. 0: it failed, and new clients are turned away. See "
        "upstream failures by reason below, and the alert AmqproxyUpstreamDown.",
        (Query(f"min by (upstream) ({series('amqproxy_upstream_up')})", "{{upstream}}"),),
        red_below=1,
    ),
    Figure(
        "Connections",
        "Client connections that are open. A sudden drop to a few: the broker or the network was gone. Near "
        "`limits.connections` (10,000 by default) new clients are turned away.",
        (total("amqproxy_connections"),),
    ),
    Figure(
        "Blocked connections",
        "Connections that the broker does not read because it is short of memory or disk. Above 0, publishers wait: "
        "find the queue that grows. See the alert AmqproxyBlocked.",
        (total("amqproxy_connections_blocked"),),
        red_from=1,
    ),
    Figure(
        "Errors a second",
        "Connections and channels that were closed with an error. Above 0: see the row “Errors by code”.",
        (
            rate("amqproxy_connection_closes_total", "connections", where=ERRORS),
            rate("amqproxy_channel_closes_total", "channels", where=ERRORS),
        ),
        unit="cps",
        red_from=0.1,
    ),
    Figure(
        "Alerts that fire",
        f"Alerts of monitoring/alerts.yml that fire; {SITE}alerts/ has a runbook for each.",
        (Query('count by (alertname) (ALERTS{alertname=~"Amqproxy.*", alertstate="firing"})', "{{alertname}}"),),
        red_from=1,
    ),
)

CLIENT_TO_BROKER = (
    Panel(
        "Publishes",
        "What becomes of messages that clients publish. Nacked: the broker did not take them, a queue is full or "
        "storing failed; they must be published again. Returned: no queue is bound for their routing key. Confirmed "
        "far below published: clients publish without confirms, and never learn of a loss.",
        (
            rate("amqproxy_messages_published_total", "published"),
            rate("amqproxy_messages_confirmed_total", "confirmed"),
            rate("amqproxy_messages_nacked_total", "nacked"),
            rate("amqproxy_messages_returned_total", "returned"),
        ),
        unit="cps",
    ),
    Panel(
        "Waiting for a confirm",
        "Publishes in confirm mode that the broker has not answered yet. Growing while nothing is confirmed: the "
        "broker is stuck (disk, quorum lost, blocked). See the alert AmqproxyConfirmsStopped.",
        (total("amqproxy_messages_unconfirmed", "unconfirmed"),),
    ),
    Panel(
        "Bytes published",
        "Bytes of message bodies. A jump without more messages: somebody publishes large bodies, which hold up what "
        "follows on their connection.",
        (rate("amqproxy_published_bytes_sum", "published"),),
        unit="Bps",
    ),
    Panel(
        "Size of published messages",
        "Bodies above about 1 MB hold up what follows them, and RabbitMQ 4 refuses those above 16 MiB by default: put "
        "the payload into a store, and publish where it is.",
        quantiles("amqproxy_published_bytes"),
        unit="bytes",
    ),
    Panel(
        "Publishes by exchange",
        'Only with `[metrics] by = ["exchange", …]`; “(default)” is the default exchange. One exchange far above its '
        "usual rate: a publisher in a loop. “other” is what is beyond `max_series`.",
        (
            named_if_empty(
                top(rate("amqproxy_messages_by_total", by="exchange", where='event="published"')),
                "exchange",
                "(default)",
            ),
        ),
        unit="cps",
    ),
    Panel(
        "Publishes by user",
        'Only with `[metrics] by = ["user", …]`. Who publishes most; see limits by user in docs/rules/limit.md.',
        (top(rate("amqproxy_messages_by_total", by="user", where='event="published", user!=""')),),
        unit="cps",
    ),
)

BROKER_TO_CLIENT = (
    Panel(
        "Deliveries",
        "Messages that go to consumers, those of basic.get included. Redelivered close to delivered: consumers "
        "requeue or lose their connections, and do the same work again and again. Auto-acked: what a consumer has not "
        "worked on when it stops is lost.",
        (
            rate("amqproxy_messages_delivered_total", "delivered"),
            rate("amqproxy_messages_redelivered_total", "redelivered"),
            rate("amqproxy_messages_auto_acked_total", "auto-acked"),
        ),
        unit="cps",
    ),
    Panel(
        "What consumers do with them",
        "Rejected: dropped, or dead-lettered if the queue has a dead-letter exchange. Requeued more than acked: the "
        "same messages go back and forth; reject with requeue = false. All of them 0 while messages are delivered: "
        "consumers hang. See the alerts AmqproxyRequeueLoop and AmqproxyAcksStopped.",
        (
            rate("amqproxy_messages_acked_total", "acked"),
            rate("amqproxy_messages_rejected_total", "rejected"),
            rate("amqproxy_messages_requeued_total", "requeued"),
        ),
        unit="cps",
    ),
    Panel(
        "Unacknowledged",
        "Delivered and not settled yet. Thousands for each consumer: no prefetch is set; they are kept in memory, and "
        "come again when the connection is lost. Constant above 0 while nothing is acked: consumers hang.",
        (total("amqproxy_messages_unacked", "unacknowledged"), total("amqproxy_consumers", "consumers")),
    ),
    Panel(
        "Bytes delivered",
        "Bytes of message bodies. Several times what is published is normal with several queues for each message; "
        "without them, it is redelivery.",
        (rate("amqproxy_delivered_bytes_sum", "delivered"),),
        unit="Bps",
    ),
    Panel(
        "Size of delivered messages",
        "Large ones make the others on their channel wait. See the size of published messages.",
        quantiles("amqproxy_delivered_bytes"),
        unit="bytes",
    ),
    Panel(
        "Deliveries by queue",
        'Only with `[metrics] by = ["queue", …]`. A queue that falls to 0 while others go on: its consumers are gone '
        "or hang. “other” is what is beyond `max_series`.",
        (top(rate("amqproxy_messages_by_total", by="queue", where='event="delivered", queue!=""')),),
        unit="cps",
    ),
)

LATENCY = (
    Panel(
        "Publish → confirm",
        "How long publishers wait. Above a second: the broker's disk, or the majority of a quorum queue, is slow. If "
        "“Time in the proxy” is as high, it is the proxy. See the alert AmqproxyConfirmsSlow.",
        quantiles("amqproxy_publish_confirm_seconds"),
        unit="s",
    ),
    Panel(
        "Delivery → ack",
        "How long consumers take, with the time that messages wait in the client. Far above the time of one piece of "
        "work: the prefetch is too large. Near 30 minutes the broker closes the channel (consumer_timeout).",
        quantiles("amqproxy_delivery_ack_seconds"),
        unit="s",
    ),
    Panel(
        "Requests, 99 %, by method",
        "From a request to its reply. Declares and binds that take seconds: the broker's metadata store is busy, "
        "often from very many temporary queues. All of them slow: the broker or the network is.",
        (quantile(0.99, "amqproxy_request_seconds", by="method"),),
        unit="s",
    ),
    Panel(
        "Time in the proxy",
        "From reading bytes to having handed them to the other socket. High with a busy CPU: the proxy is at its "
        "limit. High without: the other side reads slowly. See the alert AmqproxyRelaySlow.",
        quantiles("amqproxy_relay_seconds"),
        unit="s",
    ),
    Panel(
        "Connecting to the broker",
        "With its TLS handshake. Above a second: broker, name resolution or network are overloaded; clients wait that "
        "long when they connect.",
        quantiles("amqproxy_upstream_connect_seconds"),
        unit="s",
    ),
    Panel(
        "Not timed",
        "Messages that were settled, of which the latency is not known since too many were open. Far above 0: the two "
        "latencies above are of a part of the messages only. Set a prefetch, and wait for confirms.",
        (rate("amqproxy_messages_untimed_total", "not timed"),),
        unit="cps",
    ),
)

CONNECTIONS = (
    Panel(
        "Open",
        "Connections, channels and consumers. Channels that only grow: a client leaks them, often in an error path.",
        (
            total("amqproxy_connections", "connections"),
            total("amqproxy_channels", "channels"),
            total("amqproxy_consumers", "consumers"),
        ),
        width=6,
    ),
    Panel(
        "Connections opened",
        "Accepted: TCP connections. Opened: those that logged in. A constant high rate: clients connect for each "
        "message. Accepted far above opened: health checks, or clients that fail to log in.",
        (
            rate("amqproxy_connections_accepted_total", "accepted"),
            rate("amqproxy_connections_opened_total", "opened"),
        ),
        unit="cps",
        width=6,
    ),
    Panel(
        "Channels opened",
        "A constant high rate: clients open a channel for each message, which costs two round trips more. Keep it "
        "open.",
        (rate("amqproxy_channels_opened_total", "opened"),),
        unit="cps",
        width=6,
    ),
    Panel(
        "Refused connections",
        "Clients turned away before a session. limit: `limits.connections` are open. resources: no file descriptors "
        "or memory left. protocol: it speaks no AMQP 0-9-1.",
        (rate("amqproxy_connections_refused_total", by="reason"),),
        unit="cps",
        width=6,
    ),
    Panel(
        "Refused logins",
        "Wrong user, password or virtual host, according to the broker. A constant rate: a client that tries again "
        "and again; the log names it.",
        (rate("amqproxy_authentication_failures_total", "refused"),),
        unit="cps",
    ),
    Panel(
        "Blocked",
        "Connections that the broker has blocked, and for what part of their time they were blocked, once they are "
        "unblocked or closed. Above 0: the broker is short of memory or disk.",
        (
            total("amqproxy_connections_blocked", "blocked now"),
            rate("amqproxy_connection_blocked_seconds_total", "seconds blocked, a second"),
        ),
    ),
    Panel(
        "Broker lost or not reached",
        "lost: a connection to the broker broke. refused: nothing listens there. timeout, unreachable: network or "
        "name. tls: its certificate. See the alerts AmqproxyUpstreamDown and AmqproxyUpstreamUnstable.",
        (rate("amqproxy_upstream_failures_total", by="reason"),),
        unit="cps",
    ),
)

ERRORS_BY_CODE = (
    Panel(
        "Connections closed, by code",
        "By whom, and the reply code: 200 normal, 320 shutdown, none without a close. 403 access refused, 501 to 505 "
        "broken protocol, 530 not allowed, 541 internal error. The log names client and reason.",
        (rate("amqproxy_connection_closes_total", by="by, code"),),
        unit="cps",
    ),
    Panel(
        "Channels closed, by code",
        "403 no permission, 404 no such queue or exchange, 405 an exclusive queue of another connection, 406 declared "
        "otherwise than it is or an unknown delivery tag. What was open on the channel is gone. Findings name the "
        "command.",
        (rate("amqproxy_channel_closes_total", by="by, code"),),
        unit="cps",
    ),
    Panel(
        "Violations of the protocol",
        "By who sent what is no valid AMQP 0-9-1. client: a defect of its library, or a channel that is used by "
        "several threads. server: something between broker and proxy changes the bytes.",
        (rate("amqproxy_protocol_errors_total", by="sender, code"),),
        unit="cps",
    ),
)

UPSTREAMS = (
    Panel(
        "Connections by member",
        "Of an upstream's members. Uneven after one has returned: `amqproxy control upstreams-rebalance`. 0 for one "
        "that is up: its weight or priority keeps clients away.",
        (total("amqproxy_upstream_member_connections", by="upstream, member"),),
        width=6,
    ),
    Panel(
        "Members that are not up",
        "By state. ejected: connections to it fail; down: its checks fail; draining: an operator keeps clients away. "
        "See the alerts AmqproxyUpstreamMemberDown and AmqproxyUpstreamPanic.",
        (
            Query(
                f"{series('amqproxy_upstream_member_state', NOT_UP)} == 1",
                "{{upstream}} {{member}} {{state}}",
            ),
        ),
        width=6,
    ),
    Panel(
        "Left out, and retried",
        "How often members were ejected or went down, and clients taken to another one. A member that comes back "
        "again and again: see the alert AmqproxyUpstreamFlapping.",
        (
            rate("amqproxy_upstream_member_ejections_total", "ejected {{member}}", by="member"),
            rate("amqproxy_upstream_member_downs_total", "down {{member}}", by="member"),
            rate("amqproxy_upstream_member_retries_total", "retried {{member}}", by="member"),
        ),
        unit="cps",
        width=6,
    ),
    Panel(
        "Failures by member",
        "refused: nothing listens there. timeout, unreachable: network or name. tls: its certificate. no answer: it "
        "hangs. vhost down: it gives the virtual host up.",
        (rate("amqproxy_upstream_member_failures_total", by="member, reason"),),
        unit="cps",
        width=6,
    ),
    Panel(
        "Time to reach a member",
        "The average, with its TLS handshake and its answer to the protocol header. One far above the others: it, or "
        "the way to it, is slow.",
        (
            Query(
                f"{_by_member('amqproxy_upstream_member_connect_seconds_sum')} / "
                f"({_by_member('amqproxy_upstream_member_connect_seconds_count')} > 0)",
                "{{member}}",
            ),
        ),
        unit="s",
        width=6,
    ),
    Panel(
        "TLS handshakes by member",
        "Completed ones, of clients and of checks. Far above the connections opened: clients connect again and again, "
        "and each costs both sides milliseconds of CPU.",
        (rate("amqproxy_upstream_member_tls_handshakes_total", by="member"),),
        unit="cps",
        width=6,
    ),
    Panel(
        "Queue to log in",
        "Clients that wait for their turn (`logins_per_second`), and those refused since `login_queue` was full. It "
        "grows when all clients return at once, and empties at that rate. See the alert AmqproxyConnectionsRefused.",
        (
            total("amqproxy_upstream_login_queue", "waiting {{upstream}}", by="upstream"),
            rate("amqproxy_upstream_logins_refused_total", "refused a second {{upstream}}", by="upstream"),
        ),
        width=6,
    ),
    Panel(
        "Certificates",
        "Time until the first certificate of each file expires. Below 14 days: its renewal has failed. See the alert "
        "AmqproxyCertificateExpires.",
        (Query(f"{series('amqproxy_certificate_expires_seconds')} - time()", "{{file}}"),),
        unit="s",
        width=6,
    ),
    Panel(
        "Logins at the proxy",
        "Of listeners with a `login`, by what decided. refused: wrong credentials. failed: they could not be checked; "
        "see the alert AmqproxyLoginsUnchecked.",
        (rate("amqproxy_logins_total", by="source, outcome"),),
        unit="cps",
    ),
    Panel(
        "Tokens of the proxy",
        "With which it logs in to an upstream. failed: the issuer gives none, and connections end when the last token "
        "expires. See the alert AmqproxyTokenRenewalFails.",
        (rate("amqproxy_token_renewals_total", by="upstream, outcome"),),
        unit="cps",
    ),
    Panel(
        "Switches",
        "Clients and messages that have yet to move from one upstream to the other, and how fast messages do. All "
        "lines flat above 0: see the alert AmqproxySwitchStalled.",
        (
            total("amqproxy_switch_clients", "clients to move {{switch}}", by="switch"),
            total("amqproxy_switch_messages_left", "messages left {{switch}}", by="switch"),
            rate("amqproxy_switch_messages_moved_total", "moved a second {{switch}}", by="switch"),
        ),
    ),
)

RULES = (
    Panel(
        "Hits",
        "Commands that each rule acted on. 0 for a rule that should act: its match is wrong; try `amqproxy rules "
        "explain`.",
        (rate("amqproxy_rule_hits_total", by="rule"),),
        unit="cps",
    ),
    Panel(
        "What became of commands",
        "By the verdict of each rule. Many refused: clients do what they may not, or a rule is too strict. Held and "
        "delayed commands make their channel wait.",
        (rate("amqproxy_rule_verdicts_total", by="rule, verdict"),),
        unit="cps",
    ),
    Panel(
        "Shadow hits",
        "What rules in shadow mode would have acted on. Unexpected ones: mend the rule before it is switched on.",
        (rate("amqproxy_rule_shadow_hits_total", by="rule"),),
        unit="cps",
    ),
    Panel(
        "Failures",
        "Above 0: a rule fails, and the command is refused with 541. `amqproxy control rules` shows the last failure. "
        "See the alert AmqproxyRuleFails.",
        (rate("amqproxy_rule_errors_total", by="rule"),),
        unit="cps",
        width=12,
    ),
    Panel(
        "Copies dropped",
        "Copies of mirror rules that their broker did not get. connection: it is not reached. rejected: it closed the "
        "channel. backlog, memory, logins: it is too slow. The messages themselves are not affected.",
        (rate("amqproxy_copies_dropped_total", by="reason"),),
        unit="cps",
        width=12,
    ),
)

FINDINGS = (
    Panel(
        "By severity",
        "Only with `[metrics] findings = true`. error: something failed now, or messages were lost or repeated. "
        "warning: slow, unsafe, or wrong one day.",
        (rate("amqproxy_findings_total", by="severity"),),
        unit="cps",
    ),
    Panel(
        "By kind",
        f"{SITE}findings/ says of each kind why it matters and what to do; `amqproxy tail --findings` names the "
        "connections.",
        (top(rate("amqproxy_findings_total", by="kind")),),
        unit="cps",
    ),
    Panel(
        "Would break on upgrade",
        "Uses that RabbitMQ " + NEWEST + " refuses, or with which it loses messages, since the proxy was started. "
        f"{SITE}upgrade/ says how to list the clients and what to change. See the alert AmqproxyUpgradeBreaks.",
        (total("amqproxy_findings_total", by="kind", where=f'kind=~"{BREAKING}"'),),
    ),
)

ITSELF = (
    Panel(
        "CPU",
        "Cores that the process uses. One proxy relays with one: near 1 it is at its limit, and latencies grow. "
        "Compile it, simplify rules, or start more of them. See the alert AmqproxyBusy.",
        (Query(f"rate({series('process_cpu_seconds_total')}[$__rate_interval])", "{{instance}}"),),
        width=6,
    ),
    Panel(
        "Memory",
        "Resident bytes. It grows with connections; if it grows without, report it. What rules and unfinished frames "
        "may keep is bounded by `limits.memory`.",
        (Query(series("process_resident_memory_bytes"), "{{instance}}"),),
        unit="bytes",
        width=6,
    ),
    Panel(
        "File descriptors",
        "Share of those that the process may open; two for each connection. Near 100 % clients are turned away: raise "
        "LimitNOFILE.",
        (Query(f"{series('process_open_fds')} / {series('process_max_fds')}", "{{instance}}"),),
        unit="percentunit",
        width=6,
    ),
    Panel(
        "Uptime",
        "A line that falls to 0 again and again: the process is restarted. Its exit code tells why; 137 is a lack of "
        "memory.",
        (Query(f"time() - {series('process_start_time_seconds')}", "{{instance}}"),),
        unit="s",
        width=6,
    ),
    Panel(
        "Frames",
        "By sender and type. Header and body frames without as many methods that count are normal; only heartbeats: "
        "idle.",
        (rate("amqproxy_frames_total", by="sender, type"),),
        unit="cps",
        width=6,
    ),
    Panel(
        "Bytes of frames",
        "By sender. Compare with the network's capacity: beyond it, latencies grow.",
        (rate("amqproxy_frame_bytes_total", by="sender"),),
        unit="Bps",
        width=6,
    ),
    Panel(
        "Not shown",
        "Records that a slow reader of --print or `tail` missed, and log lines that standard error did not take. "
        "Traffic is not slowed, but what you see has gaps.",
        (
            rate("amqproxy_records_dropped_total", "records for {{tap}}", by="tap"),
            rate("amqproxy_log_lines_dropped_total", "log lines"),
        ),
        unit="cps",
        width=6,
    ),
    Panel(
        "Names counted as “other”",
        "Only with `[metrics] by`. Above 0: there are more names than `max_series`; count by less, or raise it.",
        (rate("amqproxy_series_refused_total", "refused"),),
        unit="cps",
        width=6,
    ),
    Panel(
        "Scrapes",
        "How long Prometheus takes to scrape. Near its timeout (10 s) there will be gaps: lower `max_series`.",
        (Query(series("scrape_duration_seconds"), "{{instance}}"),),
        unit="s",
        width=12,
    ),
    Panel(
        "Versions",
        "Proxies by version and form. plain: it is not compiled, and several times slower.",
        (Query(f"count by (version, form) ({series('amqproxy_build_info')})", "{{version}} {{form}}"),),
        width=12,
    ),
)

ROWS: dict[str, tuple[Panel | Figure, ...]] = {
    "Health": HEALTH,
    "Client → broker": CLIENT_TO_BROKER,
    "Broker → client": BROKER_TO_CLIENT,
    "Latency": LATENCY,
    "Connections and churn": CONNECTIONS,
    "Errors by code": ERRORS_BY_CODE,
    "Upstreams and logins": UPSTREAMS,
    "Rules": RULES,
    "Findings": FINDINGS,
    "The proxy itself": ITSELF,
}


# ----------------------------------------------------------------------------------------------------------- dashboard


def dashboard() -> str:
    """Return the dashboard as JSON."""
    built = grafana.Dashboard("amqproxy").uid("amqproxy").tags(["amqproxy", "amqp", "rabbitmq"]).editable()
    built = built.description(
        "The proxy amqproxy, and what goes through it. Each panel says what a bad value means. “No data” in a panel of "
        "errors: there was none since the proxy started."
    )
    built = built.time("now-1h", "now").refresh("30s").timezone("browser")
    built = built.with_variable(grafana.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    built = built.with_variable(_label_variable("job", "amqproxy_build_info"))
    built = built.with_variable(_label_variable("instance", 'amqproxy_build_info{job=~"$job"}'))
    for title, panels in ROWS.items():
        built = built.with_row(grafana.Row(title))
        for panel in panels:
            built = built.with_panel(panel.build())
    made = built.build()
    for number, each in enumerate(made.panels or (), 1):
        each.id_val = number
    return JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(made) + "\n"


def _label_variable(name: str, metric: str) -> grafana.QueryVariable:
    variable = grafana.QueryVariable(name).label(name.capitalize()).datasource(SOURCE).current(ALL)
    variable = variable.query(f"label_values({metric}, {name})").refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    return variable.include_all(True).multi(True).all_value(".*")


if __name__ == "__main__":
    FILE.write_text(dashboard())
