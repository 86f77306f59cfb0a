"""compose.yaml by itself: it is valid, pins what it names, gives nothing away, and its parts fit each other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from amqproxy.configuration.config_file import load
from tests.compose.project import FILE, PROJECT, ROOT, SERVICES, file_at, mounted
from tests.real.require import require, require_module

pytestmark = pytest.mark.once

OWN = ("proxy", "dashboard", "demo")


class DataSource(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A data source as Grafana's provisioning reads it."""

    name: str
    uid: str
    type: str
    access: str
    url: str
    is_default: bool
    editable: bool
    json_data: dict[str, Any]


class DataSources(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A file in provisioning/datasources."""

    api_version: int
    datasources: list[DataSource]


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Of a provider of type `file`."""

    path: str


class Provider(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Where dashboards come from."""

    name: str
    type: str
    disable_deletion: bool
    allow_ui_updates: bool
    options: Options


class Providers(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A file in provisioning/dashboards."""

    api_version: int
    providers: list[Provider]


def test_it_is_what_the_specification_of_compose_allows() -> None:
    require_module("check_jsonschema", package="check-jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_images_have_a_version_and_a_place_for_a_digest() -> None:
    images = {name: each["image"] for name, each in yaml.safe_load(FILE.read_text())["services"].items()}
    for name, image in images.items():
        if name in OWN:
            assert re.fullmatch(r"\$\{AMQPROXY_IMAGE:-\S+:\d+\.\d+\.\d+}", image)
        else:
            assert re.fullmatch(rf"\S+:v?\d+\.\d+\.\d+[\w-]*\$\{{{name.upper()}_DIGEST:-}}", image), image


def test_its_version_is_ours() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert {SERVICES[name]["image"].rpartition(":")[2] for name in OWN} == {version[1]}


def test_our_own_have_no_rights() -> None:
    for name in OWN:
        service = SERVICES[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_nothing_listens_for_other_machines() -> None:
    for service in SERVICES.values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), port


def test_what_is_mounted_exists_and_can_only_be_read() -> None:
    for name, service in SERVICES.items():
        for path in mounted(name).values():
            assert path.exists(), path
        for volume in service.get("volumes", []):
            source, _, *mode = volume.split(":")
            assert mode == ["ro"] if source.startswith("./") else source in PROJECT["volumes"], volume


def test_the_socket_belongs_to_the_user_of_the_image() -> None:
    user = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[-1]
    assert PROJECT["volumes"]["control"]["driver_opts"]["o"].startswith(f"uid={user[0]},gid={user[1]},")


def test_configs_are_valid_and_fit_each_other() -> None:
    proxy = load(file_at("proxy", "/etc/amqproxy/proxy.yaml"))
    dashboard = load(file_at("dashboard", "/etc/amqproxy/dashboard.yaml"))
    assert proxy.control
    assert dashboard.control
    assert proxy.control.path == dashboard.control.path
    assert dashboard.dashboard
    assert dashboard.dashboard.password_env in SERVICES["dashboard"]["environment"]
    assert proxy.metrics
    targets = scraped()["amqproxy"]
    assert targets == [f"proxy:{proxy.metrics.address.rpartition(':')[2]}"]
    published = {port.rpartition(":")[2] for port in SERVICES["proxy"]["ports"]}
    assert published == {proxy.listen[0].address.rpartition(":")[2]}
    grace = float(SERVICES["proxy"]["stop_grace_period"].removesuffix("s"))
    assert grace >= proxy.limits.drain_timeout + 15


def scraped() -> dict[str, list[str]]:
    """Prometheus' targets, by their jobs."""
    config = yaml.safe_load(file_at("prometheus", "/etc/prometheus/prometheus.yml").read_text())
    return {each["job_name"]: each["static_configs"][0]["targets"] for each in config["scrape_configs"]}


@pytest.mark.real
def test_prometheus_takes_its_config(tmp_path: Path) -> None:
    config = file_at("prometheus", "/etc/prometheus/prometheus.yml").read_text()
    rules = file_at("prometheus", "/etc/prometheus/alerts.yml")
    file = tmp_path / "prometheus.yml"
    file.write_text(config.replace("/etc/prometheus/alerts.yml", str(rules)))
    command = [require("promtool", package="prometheus"), "check", "config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    there = mounted("grafana")
    source = there["/etc/grafana/provisioning/datasources/prometheus.yaml"]
    [found] = msgspec.yaml.decode(source.read_text(), type=DataSources).datasources
    assert (found.type, found.access, found.is_default) == ("prometheus", "proxy", True)
    assert found.url == "http://prometheus:9090"
    assert "127.0.0.1:9090:9090" in SERVICES["prometheus"]["ports"]
    interval = yaml.safe_load(file_at("prometheus", "/etc/prometheus/prometheus.yml").read_text())["global"]
    assert found.json_data["timeInterval"] == interval["scrape_interval"]
    provider = there["/etc/grafana/provisioning/dashboards/amqproxy.yaml"]
    [place] = msgspec.yaml.decode(provider.read_text(), type=Providers).providers
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith(place.options.path + "/")
    [variable] = [
        each for each in json.loads(there[home].read_text())["templating"]["list"] if each["type"] == "datasource"
    ]
    assert variable["query"] == found.type


def test_a_second_broker_may_be_added() -> None:
    """compose/two-brokers/compose.yaml, whose paths are relative to the first file's directory, as Compose has it."""
    file = ROOT / "compose" / "two-brokers" / "compose.yaml"
    require_module("check_jsonschema", package="check-jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    added = yaml.safe_load(file.read_text())["services"]
    proxy = load(ROOT / "compose" / "two-brokers" / "proxy.yaml")
    assert added["proxy"]["command"][-1] == "/etc/two-brokers/proxy.yaml"
    assert "./compose/two-brokers:/etc/two-brokers:ro" in added["proxy"]["volumes"]
    [group] = proxy.clients_upstreams.values()
    hosts = {member.address.partition(":")[0] for member in group.members}
    assert hosts == {"rabbitmq", "rabbitmq-2"} == {name for name in {**SERVICES, **added} if name.startswith("rabbit")}
    assert group.check is not None
    assert group.check.password_env in added["proxy"]["environment"]
    alone = load(file_at("proxy", "/etc/amqproxy/proxy.yaml"))
    assert (proxy.listen, proxy.control) == (alone.listen, alone.control)
    assert added["rabbitmq-2"]["image"] == yaml.safe_load(FILE.read_text())["services"]["rabbitmq"]["image"]
