"""A real Prometheus scrapes a proxy through which everything goes that there is to count.

What the dashboard asks for is there, and the alert rules work.
"""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from monitoring import grafana
from tests.monitoring.alert_rules import ALERTS, FOLDER, NAMES
from tests.monitoring.fleet import Fleet
from tests.monitoring.metrics_page import Entry, entries
from tests.monitoring.prometheus import Prometheus
from tests.monitoring.traffic import MOST_CONNECTIONS, RULES, Traffic
from tests.real.own import OwnBroker
from tests.real.poll import until
from tests.real.proxy import Proxy
from tests.real.require import require

pytestmark = [pytest.mark.real, pytest.mark.once]  # about files, and Prometheus

DASHBOARD = json.loads(grafana.FILE.read_text())
QUERIES = [
    pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}")
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
]

ALWAYS_ZERO = {
    "amqproxy_log_lines_dropped_total",
    "amqproxy_messages_untimed_total",
    "amqproxy_records_dropped_total",
}
"""What does not happen here; where all is well, it never does."""

OBJECTS = ["user", "vhost", "exchange", "queue"]
"""What messages are counted by."""

MAX_SERIES = 3
"""Fewer than there are queues and exchanges."""

ENTRIES = entries()

SCRAPED = {"__name__", "job", "instance", "le"}
"""Labels that each series has, or that are a histogram's own."""

SELECTOR = re.compile(r"\b((?:amqproxy|process)_\w+|up)\b(\{[^}]*\})?")


def metrics_in(expression: str) -> set[str]:
    """The metrics that a query asks for; of a histogram, its own name."""
    return {re.sub("_(bucket|sum|count)$", "", name) for name, _ in SELECTOR.findall(expression)}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus, when it has seen everything happen."""
    directory = tmp_path_factory.mktemp("monitoring")
    broker = OwnBroker(directory, "--as", "3.10")
    fleet = Fleet(directory, broker)
    config: dict[str, Any] = fleet.config()
    config["upstreams"]["nowhere"] = {"address": "127.0.0.1:1", "password_env": "HOME"}
    config["upstreams"]["pooled"] = {"address": "127.0.0.1:1", "pool": {}}
    config["routes"].append({"sni": "pooled.example", "upstream": "pooled"})
    config |= {
        "metrics": {"address": "127.0.0.1:0", "by": OBJECTS, "max_series": MAX_SERIES, "findings": True},
        "limits": {"connections": MOST_CONNECTIONS},
        "rules": RULES,
    }
    proxy = Proxy(directory, broker.port, "--print", **config)
    try:
        found = re.search(r"metrics\b.*?address\W+(127\.0\.0\.1:\d+)", proxy.log)
        assert found, proxy.log
        prometheus = Prometheus(directory, found[1], FOLDER / "alerts.yml")
        try:
            _make_everything_happen(prometheus, Traffic(proxy.port), broker, fleet)
            yield prometheus
        finally:
            prometheus.kill()
    finally:
        proxy.kill()
        fleet.close()
        broker.kill()


def _make_everything_happen(prometheus: Prometheus, traffic: Traffic, broker: OwnBroker, fleet: Fleet) -> None:
    """Each counter goes up at least twice, with a scrape between: before, those with labels are not there."""
    with traffic.held_open():
        for _ in range(2):
            traffic.everything()
            prometheus.scrape()
            until(lambda: prometheus.value("amqproxy_connections") <= 2, "all others to be gone")
    fleet.everything(prometheus)
    with traffic.connection() as connection:
        broker.ctl("set_vm_memory_high_watermark", "0")
        traffic.publish_until_blocked(connection)
        for _ in range(2):  # a query looks every 500 ms, between which one late scrape may be
            prometheus.scrape()
        broker.ctl("set_vm_memory_high_watermark", "0.4")
        connection.channel()  # answered only once it is unblocked
        prometheus.scrape()
        broker.kill()
        traffic.fail_to_connect()
        prometheus.scrape()
        traffic.fail_to_connect()
        prometheus.scrape()


@pytest.mark.parametrize("expression", QUERIES)
def test_each_panel_shows_something(expression: str, prometheus: Prometheus) -> None:
    for name, value in {"$job": ".*", "$instance": ".*", "$__rate_interval": "30s"}.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    found = prometheus.query(f"max_over_time(({expression})[5m:500ms])")
    values = [float(each["value"][1]) for each in found]
    assert values, "no data"
    if not ALWAYS_ZERO & metrics_in(expression):
        assert max(values) > 0


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_metrics_are_as_they_are_described(entry: Entry, prometheus: Prometheus) -> None:
    """In docs/metrics.md: their labels, and how many series there are at most."""
    names = [entry.name]
    if entry.type == "histogram":
        names = [f"{entry.name}_{part}" for part in ("bucket", "sum", "count")]
    elif entry.type == "summary":
        names = [f"{entry.name}_{part}" for part in ("sum", "count")]
    found = [each["metric"] for name in names for each in prometheus.query(f"last_over_time({name}[5m])")]
    assert found
    optional = set(OBJECTS) if entry.name == "amqproxy_messages_by_total" else set()
    assert {frozenset(labels) - SCRAPED - optional for labels in found} == {entry.labels}
    assert optional <= {label for labels in found for label in labels}  # an empty one is none
    if entry.series.isdecimal():
        assert len(found) <= int(entry.series)


def test_variables_of_the_dashboard_find_the_proxy(prometheus: Prometheus) -> None:
    assert "amqproxy" in prometheus.get("label/job/values", **{"match[]": "amqproxy_build_info"})


def test_promtool_has_nothing_to_say_about_the_metrics(prometheus: Prometheus) -> None:
    with urllib.request.urlopen(f"http://{prometheus.target}/metrics", timeout=30) as response:
        text = response.read()
    done = subprocess.run(
        [require("promtool", package="prometheus"), "check", "metrics"], input=text, capture_output=True
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_the_alert_rules_are_evaluated(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == set(NAMES)
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_what_an_alert_is_about_exists(alert: dict[str, Any], prometheus: Prometheus) -> None:
    """A rule about a metric or a label that there is none of would never fire."""
    selectors = SELECTOR.findall(alert["expr"])
    assert selectors
    for name, labels in selectors:
        known = {label for each in prometheus.query(f"last_over_time({name}[5m])") for label in each["metric"]}
        assert known, name
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels)) <= known


def test_alerts_fire(prometheus: Prometheus) -> None:
    """Those for which what happened here is reason enough."""
    expected = {
        "AmqproxyConnectionsRefused",
        "AmqproxyFindings",
        "AmqproxyPublishesNacked",
        "AmqproxyPublishesReturned",
        "AmqproxyRuleFails",
        "AmqproxySeriesRefused",
        "AmqproxyUpgradeBreaks",
        "AmqproxyUpstreamDown",
    }

    until(lambda: expected <= set(prometheus.alerts()), f"{expected} to be pending or to fire")
    assert prometheus.alerts()["AmqproxyPublishesNacked"] == "firing"
    assert prometheus.alerts().get("AmqproxyDown") != "firing"
