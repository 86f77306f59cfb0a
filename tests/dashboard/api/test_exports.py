"""Exports: what is shown as files that other programs, and pytest, take."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from amqproxy.configuration.config_file import load
from amqproxy.dashboard.api.exports import MAX_EXPORTS, Exports
from amqproxy.dashboard.problem import Problem
from tests.capture.records import read_records
from tests.dashboard.conftest import CAPTURES, Dashboard

EXPORT = "/api/v1/sources/0/export"
EXPECTED = [json.loads(line) for line in (CAPTURES / "confirms.jsonl").read_text().splitlines()]


def test_a_capture_decodes_to_the_same(dashboard: Dashboard) -> None:
    data = dashboard("confirms").get(EXPORT, params={"format": "pcapng"}).content
    assert [json.loads(each.to_json()) for each in read_records(io.BytesIO(data))] == EXPECTED


def test_json_lines_and_csv(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    lines = client.get(EXPORT, params={"format": "jsonl", "filter": "method == 'basic.ack'"}).text.splitlines()
    assert [json.loads(line)["arguments"]["delivery_tag"] for line in lines] == [1, 3]
    table = list(csv.DictReader(io.StringIO(client.get(EXPORT, params={"format": "csv", "what": "messages"}).text)))
    assert {"nacked", "confirmed", "answered"} <= {row["outcome"] for row in table}
    assert client.get(EXPORT, params={"format": "csv", "what": "findings"}).text.startswith("time,ts_ns,stream")


def test_a_wrong_filter_is_a_problem_and_no_file(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    for keys in ({"format": "jsonl"}, {"format": "csv", "what": "messages"}, {"format": "pytest"}):
        assert client.get(EXPORT, params={**keys, "filter": "method =="}).json()["at"] == 9


def test_a_rule_is_made_of_the_first_command_that_is_selected(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    assert "basic.publish" in client.get(EXPORT, params={"format": "rule", "filter": "method == 'basic.publish'"}).text
    none = client.get(EXPORT, params={"format": "rule", "filter": "method == 'tx.commit'", "connection": "none"})
    assert (none.status_code, none.headers["content-type"]) == (404, "application/problem+json")


def test_no_more_files_are_made_at_once_than_there_is_room_for() -> None:
    exports = Exports(most=2)
    first, second = exports.begin(), exports.begin()
    with pytest.raises(Problem, match="already"):
        exports.begin()
    first()
    exports.begin()
    second()


def test_files_that_failed_leave_room_for_others(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    for _ in range(2 * MAX_EXPORTS):
        assert client.get(EXPORT, params={"format": "jsonl", "filter": "method =="}).status_code == 400
        assert client.get(EXPORT, params={"format": "jsonl"}).status_code == 200


@pytest.mark.slow
def test_a_test_that_is_copied_runs_and_passes(dashboard: Dashboard, tmp_path: Path) -> None:
    source = dashboard("publish-get-ack").get(EXPORT, params={"format": "pytest"}).text
    assert "basic_publish" in source
    (tmp_path / "test_copied.py").write_text(source)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "capture", ["brokerj9.2__jms-010-tx", "confirms", "every-type", "transactions", "channel-error", "consume-large"]
)
def test_a_test_that_is_copied_is_python(dashboard: Dashboard, capture: str) -> None:
    source = dashboard(capture).get(EXPORT, params={"format": "pytest"}).text
    compile(source, "copied", "exec")


@pytest.mark.parametrize("capture", ["confirms", "brokerj9.2__jms-010-request-reply"])
def test_a_rule_that_is_copied_is_a_config(dashboard: Dashboard, tmp_path: Path, capture: str) -> None:
    client = dashboard(capture)
    messages = client.get("/api/v1/sources/0/messages", params={"limit": 10_000}).json()["rows"]
    made = set()
    kinds = {(each["type"], each.get("method")): each for each in messages}
    for each in kinds.values():
        if each["type"] in ("publish", "deliver", "request"):
            response = client.get(EXPORT, params={"format": "rule", "seq": each["seq"]})
            if response.status_code == 404:
                assert each["method"] in _UNRULED, each
                continue
            file = tmp_path / "rule.yaml"
            file.write_text(response.text)
            (rule,) = load(file).rules
            assert rule.mode == "shadow"
            made.add(yaml.safe_load(response.text)["rules"][0]["match"]["method"])
    assert made & {"basic.publish", "basic.deliver"}


_UNRULED = {"execution.sync", "message.set-flow-mode", "message.stop", "message.flow", "session.request-timeout"}
"""What of 0-10 rules do not see; of message.flow, credit in bytes."""


def test_a_rule_of_a_transfer_is_about_its_publish(dashboard: Dashboard) -> None:
    client = dashboard("brokerj9.2__jms-010-tx")
    query = {"format": "rule", "filter": "method == 'message.transfer' && sender == 'client'"}
    rule = yaml.safe_load(client.get(EXPORT, params=query).text)["rules"][0]
    assert rule["match"] == {"method": "basic.publish", "routing_key": "jms.tx", "user": "guest", "vhost": "test"}
    assert rule["when"].startswith('exchange == ""')


def test_a_test_of_0_10_publishes_what_was_transferred(dashboard: Dashboard) -> None:
    source = dashboard("brokerj9.2__jms-010-tx").get(EXPORT, params={"format": "pytest"}).text
    assert source.count("channel.basic_publish(") == 5
    assert "'jms.tx'" in source
