"""What compose.yaml names runs together: all is scraped, Grafana's questions have answers, and a fault is an alert."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError

from monitoring import grafana
from tests.compose.project import SERVICES
from tests.compose.stack import Stack
from tests.monitoring.alert_rules import NAMES
from tests.monitoring.prometheus import PrometheusServer
from tests.real.poll import until
from tests.real.rabbitmq import RabbitMQ

pytestmark = [pytest.mark.real, pytest.mark.once]

DASHBOARD = json.loads(grafana.FILE.read_text())
EXPRESSIONS = {
    f"{panel['title']}-{target['refId']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
}
VARIABLES = {"$job": "amqproxy", "$instance": ".*", "$__rate_interval": "30s"}

FIRING = "Alerts that fire-A"

WITHOUT_EVENTS = {
    FIRING,
    "Certificates-A",
    "Connections closed, by code-A",
    "Errors a second-A",
    "Errors a second-B",
    "Failures-A",
    "Hits-A",
    "Members that are not up-A",
    "Names counted as “other”-A",
    "Shadow hits-A",
    "Switches-A",
    "Switches-B",
    "Switches-C",
    "Violations of the protocol-A",
    "What became of commands-A",
    "Would break on upgrade-A",
}
"""Panels without data: the demo makes no errors and no uses that break, and the proxy of compose.yaml has no rules, no
TLS, no switches, and one member that is up.
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """`docker compose --profile demo up`."""
    made = Stack(tmp_path_factory.mktemp("compose"), RabbitMQ(tmp_path_factory.mktemp("rabbitmq")))
    try:
        made.start("proxy")  # which needs no broker to start, so that both take their time at once
        made.start_rabbitmq()
        made.wait_for("proxy")
        made.start("dashboard")
        made.wait_for("dashboard")
        made.start("demo")
        yield made
    finally:
        made.kill()


@pytest.fixture(scope="module")
def prometheus(stack: Stack) -> Iterator[PrometheusServer]:
    """When it has seen messages pass for a while."""
    server = stack.start_prometheus()
    try:
        until(lambda: server.value("rate(amqproxy_messages_confirmed_total[5s])") > 0, "messages to pass")
        yield server
    finally:
        server.kill()


def test_all_targets_are_up(prometheus: PrometheusServer) -> None:
    def up() -> dict[str, str]:
        return {each["metric"]["job"]: each["value"][1] for each in prometheus.query("up")}

    until(lambda: up() == {"amqproxy": "1", "rabbitmq": "1", "prometheus": "1"}, "all to be up")
    assert prometheus.query("rabbitmq_build_info")


def test_the_rules_are_loaded(prometheus: PrometheusServer) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == set(NAMES)
    until(
        lambda: all(rule["health"] == "ok" for group in prometheus.get("rules")["groups"] for rule in group["rules"]),
        "all rules to be evaluated",
    )


def asked(prometheus: PrometheusServer, name: str) -> list[dict[str, Any]]:
    """What a panel shows."""
    expression = EXPRESSIONS[name]
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return prometheus.query(expression)


def test_each_question_of_grafana_is_answered(prometheus: PrometheusServer) -> None:
    wanted = sorted(EXPRESSIONS.keys() - WITHOUT_EVENTS)
    assert len(wanted) > 20
    for name in wanted:  # a rate is there after two looks
        until(lambda name=name: asked(prometheus, name), f"{name} to show something")  # type: ignore[misc]
    for name in WITHOUT_EVENTS:
        asked(prometheus, name)


def test_the_dashboard_shows_the_proxy(stack: Stack) -> None:
    url = f"http://127.0.0.1:{stack.port('dashboard', 8672)}/api/v1/"
    login = json.dumps({"password": SERVICES["dashboard"]["environment"]["DASHBOARD_PASSWORD"]}).encode()
    asked = urllib.request.Request(url + "session", login, {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=10) as response:
        cookie = response.headers["set-cookie"].partition(";")[0]
    with urllib.request.urlopen(
        urllib.request.Request(url + "sources", headers={"cookie": cookie}), timeout=10
    ) as found:
        [source] = json.load(found)
    assert (source["kind"], source["state"]) == ("proxy", "live")


def test_a_fault_is_an_alert_until_it_is_over(stack: Stack, prometheus: PrometheusServer) -> None:
    """RabbitMQ is killed, and started again."""

    port = stack.port("proxy", 5673)

    def connects() -> bool:
        with suppress(AMQPError), pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)):
            return True
        return False

    def fires() -> bool:
        connects()  # that a broker is gone is seen by those who want it
        return prometheus.alerts().get("AmqproxyUpstreamDown") == "firing"

    assert "AmqproxyUpstreamDown" not in prometheus.alerts()
    stack.rabbitmq.kill()
    until(fires, "the alert to fire", pause=0.2)
    until(lambda: asked(prometheus, FIRING), "Grafana to show it")
    assert prometheus.value('up{job="rabbitmq"}') == 0
    stack.rabbitmq.start()
    until(lambda: connects() and "AmqproxyUpstreamDown" not in prometheus.alerts(), "the alert to be over", pause=0.2)
    assert stack.end("proxy") == 0
