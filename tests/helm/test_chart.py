"""The chart: what Helm makes of many values is valid for Kubernetes, safe, consistent, and as it was last looked at.

After a change that is meant: python -m tests.helm.test_chart, and look at the difference.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

if os.environ.get("CI") != "true":
    pytest.importorskip("helm_python", reason="needs helm-python-sdk")
    pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate")

import helm_python as helm
import kubernetes_validate

from amqproxy.cli.command import app
from amqproxy.configuration.config_file import load
from tests.helm.chart import CHART, ROOT, Object, notes, rendered, workload
from tests.helm.matrix import VALUES

pytestmark = pytest.mark.once

GOLDEN = Path(__file__).parent / "golden"
KUBERNETES = ("1.30", "1.37")


def proxy(pod: Object) -> Object:
    containers = [*pod.get("initContainers", []), *pod["containers"]]
    return next(each for each in containers if each["name"] == "amqproxy")


@pytest.fixture(params=VALUES, ids=lambda name: name.replace(" ", "-"))
def objects(request: pytest.FixtureRequest) -> dict[str, Object]:
    return rendered(VALUES[request.param])


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_knows_every_field(objects: dict[str, Object], version: str) -> None:
    for each in objects.values():
        if each["apiVersion"].partition("/")[0] not in ("monitoring.coreos.com", "keda.sh"):
            kubernetes_validate.validate(each, version, strict=True)


def test_selectors_find_the_pods_and_only_them(objects: dict[str, Object]) -> None:
    controller = workload(objects)
    labels = controller["spec"]["template"]["metadata"]["labels"]
    assert controller["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for each in objects.values():
        selector = each["spec"].get("selector", each["spec"].get("podSelector")) if "spec" in each else None
        if each["kind"] in ("Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor"):
            assert selector.get("matchLabels", selector).items() <= labels.items(), each["kind"]
        if each["kind"] == "Pod":  # a test's, which must not get clients
            selector = controller["spec"]["selector"]["matchLabels"]
            assert not selector.items() <= each["metadata"]["labels"].items()


def test_pods_have_no_rights(objects: dict[str, Object]) -> None:
    pod = workload(objects)["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    context = proxy(pod)["securityContext"]
    assert (context["runAsNonRoot"], context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (
        True,
        True,
        False,
    )
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert not pod.get("hostNetwork")


def test_the_config_is_one_that_the_proxy_takes(objects: dict[str, Object], tmp_path: Path) -> None:
    maps = [each for each in objects.values() if each["kind"] == "ConfigMap" and "amqproxy.yaml" in each["data"]]
    path = tmp_path / "amqproxy.yaml"
    path.write_text(maps[0]["data"]["amqproxy.yaml"])
    config = load(path)
    assert config.metrics is not None
    pod = workload(objects)["spec"]["template"]["spec"]
    ports = {each["name"]: each["containerPort"] for each in proxy(pod)["ports"]}
    assert config.metrics.address == f":{ports['metrics']}"
    assert config.listen[0].address.endswith(f":{ports['amqp']}")
    if pod["containers"] == [proxy(pod)]:
        before_drain = proxy(pod)["lifecycle"]["preStop"]["sleep"]["seconds"]
    else:  # it ends after the others, and nothing in front of it has to learn of that
        assert "lifecycle" not in proxy(pod)
        before_drain = 30
    assert pod["terminationGracePeriodSeconds"] >= before_drain + config.limits.drain_timeout + 15
    mounts = [each["mountPath"] for each in proxy(pod)["volumeMounts"]]
    for file in mentioned_files(config):
        assert any(file.startswith(mount) for mount in mounts), file
    if config.record and config.record.directory:
        assert config.record.total_size is not None


def mentioned_files(config: Any) -> Iterator[str]:
    tls = config.listen[0].tls
    if tls:
        yield from (tls.certificate, tls.key)
    for upstream in [config.upstream] if not isinstance(config.upstream, str) else config.upstreams.values():
        if upstream.tls and upstream.tls.ca:
            yield upstream.tls.ca
    if config.control:
        yield config.control.path
    if config.record:
        yield config.record.directory
    if config.dashboard and config.dashboard.token_file:
        yield config.dashboard.token_file


def test_secrets_are_only_referred_to(objects: dict[str, Object]) -> None:
    assert not [name for name in objects if name.startswith("Secret ")]
    volumes = workload(objects)["spec"]["template"]["spec"]["volumes"]
    assert all(set(each["secret"]) <= {"secretName", "defaultMode"} for each in volumes if "secret" in each)


@pytest.mark.parametrize("name", VALUES)
def test_the_notes_name_what_there_is(name: str) -> None:
    objects, text = rendered(VALUES[name]), notes(VALUES[name])
    controller = workload(objects)
    resource = f"{controller['kind'].lower()}/{controller['metadata']['name']}"
    commands = re.findall(r"kubectl (?:exec|port-forward) -n prod (\S+) ", text)
    assert set(commands) == {resource}
    (followed,) = re.findall(r" -- amqproxy (.+)", text)
    app.parse_args(followed.split(), print_error=False)
    if services := [each for each in objects.values() if each["kind"] == "Service"]:
        addresses = {
            f"{each['metadata']['name']}.prod:{port['port']}" for each in services for port in each["spec"]["ports"]
        }
        assert any(f"connect to {address}," in text for address in addresses)


def test_every_mount_has_its_volume(objects: dict[str, Object]) -> None:
    controller = workload(objects)
    pod = controller["spec"]["template"]["spec"]
    volumes = {each["name"] for each in pod["volumes"]}
    volumes |= {each["metadata"]["name"] for each in controller["spec"].get("volumeClaimTemplates", [])}
    assert {each["name"] for each in proxy(pod)["volumeMounts"]} <= volumes


def test_a_changed_config_replaces_the_pods() -> None:
    def checksum(values: Object) -> str:
        template = workload(rendered(values))["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum({}) == checksum({"replicas": 5}) != checksum({"config": {"limits": {"connections": 7}}})


def test_without_a_delay_there_is_no_hook() -> None:
    """Before 1.33, Kubernetes refuses to sleep for 0 seconds."""
    pod = workload(rendered({"drain": {"delaySeconds": 0, "seconds": 7}}))["spec"]["template"]["spec"]
    assert "lifecycle" not in proxy(pod)
    assert pod["terminationGracePeriodSeconds"] == 22


def test_a_digest_pins_the_image() -> None:
    image = proxy(workload(rendered(VALUES["everything"]))["spec"]["template"]["spec"])["image"]
    assert image.endswith("@sha256:" + "0" * 64)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"replicaCount": 3}, "replicaCount"),
        ({"metrics": {"prot": 1}}, "prot"),
        ({"mode": "sidecar"}, "containers"),
        ({"dashboard": {"enabled": True}}, "tokenSecret"),
        ({"upstream": {"address": "rabbitmq"}}, "address"),
        ({"recordings": {"size": "much"}}, "size"),
        ({"mode": "sidecar", "sidecar": VALUES["sidecar"]["sidecar"], "networkPolicy": {"enabled": True}}, "cut off"),
    ],
)
def test_wrong_values_are_refused_by_their_name(values: Object, text: str) -> None:
    with pytest.raises(helm.HelmError, match=text):
        rendered(values)


def test_an_update_takes_no_proxy_from_its_clients(objects: dict[str, Object]) -> None:
    """A StatefulSet, whose pods have names and volumes of their own, is the exception."""
    controller = workload(objects)
    strategy = controller["spec"].get("strategy", controller["spec"].get("updateStrategy"))
    if controller["kind"] != "StatefulSet":
        assert strategy["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_helm_test_passes_the_network_policy() -> None:
    values = VALUES["everything"] | {
        "networkPolicy": {"enabled": True, "clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
    }
    objects = rendered(values)
    [policy] = [each for each in objects.values() if each["kind"] == "NetworkPolicy"]
    [pod] = [each for each in objects.values() if each["kind"] == "Pod"]
    peers = policy["spec"]["ingress"][0]["from"]
    selected = [peer["podSelector"]["matchLabels"] for peer in peers if "podSelector" in peer]
    assert any(labels.items() <= pod["metadata"]["labels"].items() for labels in selected)


def test_autoscaling_goes_by_the_core_that_a_proxy_has() -> None:
    found = rendered({"autoscaling": {"hpa": {"enabled": True, "cpuPercent": 70}}})
    scaler = found["HorizontalPodAutoscaler demo-amqproxy"]["spec"]
    assert scaler["metrics"][0]["resource"]["target"] == {"type": "AverageValue", "averageValue": "700m"}
    keda = rendered(VALUES["keda"])["ScaledObject demo-amqproxy"]["spec"]
    assert keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == scaler["behavior"]


def test_the_example_of_a_route_leads_to_the_service() -> None:
    """Of the Gateway API, for a release that has the name of the chart."""
    route = yaml.safe_load((CHART / "examples" / "tcproute.yaml").read_text())
    assert (route["apiVersion"], route["kind"]) == ("gateway.networking.k8s.io/v1alpha2", "TCPRoute")
    service = rendered({}, name="amqproxy")["Service amqproxy"]
    ports = [each["port"] for each in service["spec"]["ports"]]
    [backend] = [each for rule in route["spec"]["rules"] for each in rule["backendRefs"]]
    assert (backend["name"], backend["port"] in ports) == ("amqproxy", True)


def test_helm_has_nothing_to_complain_of() -> None:
    found = helm.lint(str(CHART))
    assert not found["errors"]
    assert not found["messages"]


def test_a_stall_of_ten_seconds_takes_no_pod_out_of_its_service() -> None:
    """Nor has it ended by then: that takes longer still."""
    container = proxy(workload(rendered({}))["spec"]["template"]["spec"])
    ready, alive = container["readinessProbe"], container["livenessProbe"]
    assert 10 <= ready["periodSeconds"] * (ready["failureThreshold"] - 1) + ready["timeoutSeconds"] <= 20
    assert alive["periodSeconds"] * (alive["failureThreshold"] - 1) >= 20


def test_every_value_is_described() -> None:
    """What values.yaml has, the schema has, and the other way round."""
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def keys(schema: Object, values: Object, place: str = "") -> None:
        properties = schema["properties"]
        assert set(properties) >= set(values), place
        for name, each in properties.items():
            assert name in values or place in ("/upstream/tls",), f"{place}/{name}"
            if "properties" in each and name in values:
                keys(each, values[name], f"{place}/{name}")
            elif "properties" not in each:
                assert each.get("description"), f"{place}/{name}"

    keys(schema, values)


@pytest.mark.parametrize("name", ["alerts.yml", "grafana.json"])
def test_alerts_and_dashboard_are_those_of_monitoring(name: str) -> None:
    assert (CHART / "files" / name).read_bytes() == (ROOT / "monitoring" / name).read_bytes(), "copy it"


@pytest.mark.parametrize("name", VALUES)
def test_it_is_as_it_was_looked_at(name: str) -> None:
    assert golden_path(name).read_text() == golden(name), "python -m tests.helm.test_chart, and look at the difference"


def golden_path(name: str) -> Path:
    return GOLDEN / f"{name.replace(' ', '-')}.yaml"


def golden(name: str) -> str:
    """All objects; of long files only their size, since they are elsewhere."""
    objects = rendered(VALUES[name])
    for each in objects.values():
        if each["kind"] == "PrometheusRule":
            each["spec"] = {"groups": [group["name"] for group in each["spec"]["groups"]]}
        if each["kind"] == "ConfigMap" and "amqproxy.json" in each["data"]:
            each["data"]["amqproxy.json"] = "…"
    text: str = yaml.safe_dump_all([objects[name] for name in sorted(objects)], sort_keys=True, allow_unicode=True)
    return text


if __name__ == "__main__":
    shutil.rmtree(GOLDEN)
    GOLDEN.mkdir()
    for name in VALUES:
        golden_path(name).write_text(golden(name))
