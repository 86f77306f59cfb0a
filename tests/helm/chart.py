"""The chart, as Helm renders it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.real.require import require_module

ROOT = Path(__file__).parent.parent.parent
CHART = ROOT / "helm" / "amqproxy"

Object = dict[str, Any]


def _files(values: Object, name: str) -> dict[str, str]:
    helm = require_module("helm_python", package="helm-python-sdk")
    with helm.Chart.load(str(CHART)) as chart:
        chart.validate_schema(chart.merge_values(values))
        return dict(chart.render(values, name=name, namespace="prod"))


def notes(values: Object) -> str:
    """What Helm says when it has installed the chart."""
    return _files(values, "demo")["amqproxy/templates/NOTES.txt"]


def rendered(values: Object, name: str = "demo") -> dict[str, Object]:
    """All objects, by kind and name."""
    found = {}
    for path, text in _files(values, name).items():
        if not path.endswith(".txt"):
            for each in yaml.safe_load_all(text):
                if each:
                    found[f"{each['kind']} {each['metadata']['name']}"] = each
    return found


def workload(objects: dict[str, Object]) -> Object:
    [found] = [each for each in objects.values() if each["kind"] in ("Deployment", "StatefulSet", "DaemonSet")]
    return found
