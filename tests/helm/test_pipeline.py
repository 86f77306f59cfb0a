"""The pipeline's part of the chart, as Helm itself renders it: what Kubernetes and the Spark operator would get."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.real.require import require_module

pytestmark = pytest.mark.once

CHART = Path(__file__).parents[2] / "helm" / "amqproxy"

PLACES = {"captures": "s3://traffic/captures", "tables": "s3://traffic/tables", "secret": "keys"}
VOLUMES = {
    "volumes": [{"name": "captures", "persistentVolumeClaim": {"claimName": "captures"}}],
    "volumeMounts": [{"name": "captures", "mountPath": "/captures", "readOnly": True}],
    "env": {"AWS_REGION": "eu-central-1"},
    "sparkConf": {"spark.sql.shuffle.partitions": 64},
}
SCHEDULED = {"live": {"enabled": False}, "batch": {"enabled": True}, "compaction": {"enabled": True}}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


TEXT, NUMBER, LIST = {"type": "string"}, {"type": "integer"}, {"type": "array"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
POD = {
    "securityContext": {"type": "object"},
    "cores": NUMBER,
    "memory": TEXT,
    "env": LIST,
    "envFrom": LIST,
    "volumeMounts": LIST,
}
APPLICATION = _object(
    type={"enum": ["Java", "Python", "Scala", "R"]},
    pythonVersion={"enum": ["2", "3"]},
    mode={"enum": ["cluster", "client"]},
    image=TEXT,
    imagePullPolicy=TEXT,
    mainApplicationFile=TEXT,
    sparkVersion=TEXT,
    arguments={"type": "array", "items": TEXT},
    restartPolicy=_object(
        type={"enum": ["Never", "Always", "OnFailure"]},
        onFailureRetries=NUMBER,
        onFailureRetryInterval=NUMBER,
        onSubmissionFailureRetries=NUMBER,
        onSubmissionFailureRetryInterval=NUMBER,
    ),
    sparkConf=TEXTS,
    volumes=LIST,
    driver=_object(serviceAccount=TEXT, **POD),
    executor=_object(instances=NUMBER, **POD),
)
"""Of the operator's v1beta2 what the chart uses, with the types of its CRDs, which have a megabyte."""
SPARK = {
    "SparkApplication": APPLICATION,
    "ScheduledSparkApplication": _object(
        schedule=TEXT,
        concurrencyPolicy={"enum": ["Allow", "Forbid", "Replace"]},
        successfulRunHistoryLimit=NUMBER,
        failedRunHistoryLimit=NUMBER,
        template=APPLICATION,
    ),
}


def rendered(**pipeline: Any) -> dict[str, dict[str, Any]]:
    """What is made, by kind and name."""
    helm = require_module("helm_python", package="helm-python-sdk")
    with helm.Chart.load(CHART) as chart:
        texts = chart.render({"pipeline": pipeline}, name="demo", namespace="traffic")
    made = [each for file, text in texts.items() if file.endswith(".yaml") for each in yaml.safe_load_all(text) if each]
    return {
        f"{each['kind']} {each['metadata']['name']}": each for each in made if "pipeline" in each["metadata"]["name"]
    }


def validate(made: dict[str, dict[str, Any]]) -> None:
    checked = require_module("kubernetes_validate", package="kubernetes-validate")
    for each in made.values():
        if each["kind"] in SPARK:
            assert each["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
            jsonschema.validate(each["spec"], SPARK[each["kind"]])
        else:
            checked.validate(each, checked.latest_version(), strict=True)


def test_it_is_off_unless_asked_for() -> None:
    assert rendered() == {}


@pytest.mark.parametrize("more", [{}, VOLUMES])
def test_live_by_the_operator(more: dict[str, Any]) -> None:
    made = rendered(enabled=True, **PLACES, **more)
    validate(made)
    spec = made["SparkApplication demo-pipeline-live"]["spec"]
    live = ["run", "s3://traffic/captures", "--live", "--interval", "10", "--tables", "s3://traffic/tables"]
    assert spec["arguments"] == live
    assert spec["restartPolicy"]["type"] == "Always"
    assert spec["driver"]["envFrom"] == spec["executor"]["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert spec["driver"]["serviceAccount"] == "amqproxy-pipeline"
    assert made["RoleBinding amqproxy-pipeline"]["subjects"][0]["namespace"] == "traffic"
    if more:
        assert spec["sparkConf"]["spark.sql.shuffle.partitions"] == "64"
        assert spec["executor"]["volumeMounts"] == VOLUMES["volumeMounts"]


def test_batch_and_compaction_by_the_operator() -> None:
    made = rendered(enabled=True, **PLACES, **SCHEDULED)
    validate(made)
    assert not any("live" in each for each in made)
    batch, compaction = (
        made[f"ScheduledSparkApplication demo-pipeline-{each}"]["spec"] for each in SCHEDULED if each != "live"
    )
    assert batch["concurrencyPolicy"] == "Forbid"
    assert batch["template"]["arguments"] == ["run", "s3://traffic/captures", "--tables", "s3://traffic/tables"]
    assert compaction["template"]["arguments"] == ["compact", "--tables", "s3://traffic/tables"]


@pytest.mark.parametrize("more", [{}, VOLUMES])
def test_without_the_operator(more: dict[str, Any]) -> None:
    made = rendered(enabled=True, runner="submit", **PLACES, **more)
    validate(made)
    spec = made["Deployment demo-pipeline-live"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    args = spec["template"]["spec"]["containers"][0]["args"]
    assert args[:3] == ["spark-submit", "--master", "local[*]"]
    assert args[args.index("/opt/amqproxy/pipeline.py") + 1] == "run"
    scheduled = rendered(enabled=True, runner="submit", **PLACES, **more, **SCHEDULED)
    validate(scheduled)
    job = scheduled["CronJob demo-pipeline-compaction"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert job["containers"][0]["args"][-3:] == ["compact", "--tables", "s3://traffic/tables"]


@pytest.mark.parametrize(
    ("values", "text"),
    [({"batch": {"enabled": True}}, "one driver at a time"), ({"runner": "yarn"}, "runner")],
)
def test_what_would_not_work_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(Exception, match=text):
        rendered(enabled=True, **values)


def test_the_image_has_what_the_chart_starts() -> None:
    dockerfile = (CHART.parents[1] / "Dockerfile").read_text()
    assert "AS pipeline" in dockerfile
    assert "/opt/amqproxy/pipeline.py" in dockerfile
    assert os.access(CHART.parents[1] / "helm" / "spark-entrypoint.sh", os.X_OK)
