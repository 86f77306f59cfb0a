"""The dashboard: it is what its source writes, and each panel helps who looks at it."""

import json
import re
from itertools import combinations
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from monitoring import grafana
from tests.monitoring.alert_rules import NAMES

DASHBOARD: dict[str, Any] = json.loads(grafana.FILE.read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def test_the_file_is_what_its_source_writes() -> None:
    assert grafana.FILE.read_text() == grafana.dashboard(), "write it again: python -m monitoring.grafana"


def test_grafana_knows_all_that_it_contains() -> None:
    """Whatever is not in Grafana's schema would be lost on the way."""
    register_default_plugins()
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))
    assert again == DASHBOARD


def test_its_rows() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == [
        "Health",
        "Client → broker",
        "Broker → client",
        "Latency",
        "Connections and churn",
        "Errors by code",
        "Upstreams and logins",
        "Rules",
        "Findings",
        "The proxy itself",
    ]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    assert len(panel["description"]) > 60
    assert set(re.findall(r"\bAmqproxy\w+", panel["description"])) <= set(NAMES)
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}"
        assert grafana.SELECTED in target["expr"] or "ALERTS{" in target["expr"]
    if panel["type"] == "timeseries":
        assert all(target["legendFormat"] for target in panel["targets"])


def test_panels_have_numbers_and_names_of_their_own() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    titles = [panel["title"] for panel in PANELS]
    assert len(set(titles)) == len(titles)


def test_no_panel_covers_another() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert is_beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def test_its_data_source_and_proxies_are_chosen_by_who_looks_at_it() -> None:
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "job", "instance"]
    assert variables["datasource"]["type"] == "datasource"
    assert variables["job"]["query"] == "label_values(amqproxy_build_info, job)"
