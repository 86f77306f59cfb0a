"""The alert rules: each is valid, fires when it should, and has a runbook."""

import re
import subprocess
from typing import Any

import pytest
import yaml

from amqproxy.cli.help import SITE
from monitoring.grafana import BREAKING
from tests.monitoring.alert_rules import ALERTS, FOLDER, NAMES, ROOT
from tests.monitoring.metrics_page import entries
from tests.real.require import require

PAGE = (ROOT / "docs" / "alerts.md").read_text()
SECTIONS = re.findall(r"^### (\w+)\n\n(\w+): .*?\n\n(.*?)(?=\n##|\Z)", PAGE, re.MULTILINE | re.DOTALL)


def promtool(*arguments: str) -> None:
    command = [require("promtool", package="prometheus"), *arguments]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.real
def test_the_rules_are_valid() -> None:
    promtool("check", "rules", "--lint-fatal", "alerts.yml")


@pytest.mark.real
def test_the_rules_fire_when_they_should() -> None:
    promtool("test", "rules", "alerts_test.yml")


def test_each_rule_is_tested_to_fire_and_to_be_silent() -> None:
    tests = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
    cases: list[dict[str, Any]] = [case for test in tests for case in test["alert_rule_test"]]
    for name in NAMES:
        expectations = [bool(case.get("exp_alerts")) for case in cases if case["alertname"] == name]
        assert True in expectations, name
        assert expectations.count(False) >= 2, name  # before it fires, and for the healthy proxy


def test_each_rule_has_a_runbook_in_the_order_of_the_file() -> None:
    assert [(name, severity) for name, severity, _ in SECTIONS] == [
        (alert["alert"], alert["labels"]["severity"]) for alert in ALERTS
    ]
    for name, _, text in SECTIONS:
        assert re.findall(r"^- \*\*(\w+):\*\*", text, re.MULTILINE) == ["Means", "Look", "Do"], name


def test_each_rule_names_its_runbook() -> None:
    for alert in ALERTS:
        assert alert["annotations"]["runbook_url"] == f"{SITE}alerts/#{alert['alert'].lower()}"


def test_runbooks_name_what_exists() -> None:
    assert set(re.findall(r"`(amqproxy_\w+)`", PAGE)) <= {entry.name for entry in entries()}
    kinds = set(re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs" / "findings.md").read_text(), re.MULTILINE))
    for text in re.findall(r"findings? ((?:`[a-z-]+`(?:, | and )?)+)", PAGE):
        assert set(re.findall(r"`([a-z-]+)`", text)) <= kinds
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, anchor = target.partition("#")
        assert (ROOT / "docs" / path).exists(), target
        assert path or anchor in {name.lower() for name in NAMES}, target


def test_breaking_uses_are_those_of_the_newest_version() -> None:
    [rule] = [alert["expr"] for alert in ALERTS if alert["alert"] == "AmqproxyUpgradeBreaks"]
    assert set(re.findall('kind=~"(.*?)"', rule)) == {BREAKING}


def test_names_and_severities() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(name.startswith("Amqproxy") for name in NAMES)
    assert {alert["labels"]["severity"] for alert in ALERTS} == {"critical", "warning"}
