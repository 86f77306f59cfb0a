"""Manifests of docs/howto/debug-in-kubernetes.md: what they make of a deployment, and that Kubernetes knows them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from amqproxy.cli.command import app
from amqproxy.configuration.config_file import load
from tests.real.require import require_module

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "kubernetes"
IMAGE = f"ghcr.io/amqproxy/amqproxy:{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}"

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "shop"},
    "spec": {
        "selector": {"matchLabels": {"app": "shop"}},
        "template": {
            "metadata": {"labels": {"app": "shop"}},
            "spec": {"containers": [{"name": "shop", "image": "shop:1", "env": [{"name": "KEPT", "value": "yes"}]}]},
        },
    },
}


def validate(each: dict[str, Any]) -> None:
    checked = require_module("kubernetes_validate", package="kubernetes-validate")
    checked.validate(each, checked.latest_version(), strict=True)


def test_the_patch_adds_a_sidecar(tmp_path: Path) -> None:
    if not shutil.which("kubectl"):
        pytest.fail("needs kubectl") if os.environ.get("CI") == "true" else pytest.skip("needs kubectl")
    file = tmp_path / "deployment.yaml"
    file.write_text(yaml.safe_dump(DEPLOYMENT))
    patch = str(EXAMPLES / "sidecar.patch.yaml")
    command = ["kubectl", "patch", "--local", "-f", str(file), "--patch-file", patch, "-o", "yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    patched = yaml.safe_load(done.stdout)
    validate(patched)
    pod = patched["spec"]["template"]["spec"]
    (own,) = pod["containers"]
    assert {each["name"]: each["value"] for each in own["env"]} == {"KEPT": "yes", "AMQP_URL": "amqp://127.0.0.1:5673"}
    (sidecar,) = pod["initContainers"]
    check_container(sidecar)


def test_the_policy_adds_one_to_pods_with_the_annotation() -> None:
    policy, binding = yaml.safe_load_all((EXAMPLES / "inject-by-annotation.yaml").read_text())
    for each in (policy, binding):
        validate(each)
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    (mutation,) = policy["spec"]["mutations"]
    expression = mutation["applyConfiguration"]["expression"]
    assert IMAGE in expression
    config = load(None, {"AMQPROXY_LISTEN": "127.0.0.1:5673", "AMQPROXY_CONTROL": "/tmp/amqproxy.sock"})
    assert config.control is not None
    assert expression.count("AMQPROXY_") == 3


def check_container(container: dict[str, Any]) -> None:
    """The image is ours, its arguments are understood, and its variables are a config."""
    assert container["image"] == IMAGE
    app.parse_args(container["args"], print_error=False)
    config = load(None, {each["name"]: each["value"] for each in container["env"]})
    assert config.listen[0].address == "127.0.0.1:5673"
    assert config.metrics is not None
    assert config.control is not None
    assert Path(config.control.path).parent == Path(container["volumeMounts"][0]["mountPath"])
