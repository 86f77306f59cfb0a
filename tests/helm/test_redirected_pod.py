"""The redirection of docs/howto/debug-in-kubernetes.md, between network namespaces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.require import missing, require

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
IN_NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")


@pytest.mark.parametrize("family", ["4", "6"])
def test_new_connections_to_a_broker_elsewhere_come_to_the_proxy(family: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may redirect connections")
    require("iptables")
    for program in ("ip", "setpriv", "unshare"):
        require(program, package="iproute2 util-linux")
    if subprocess.run([*IN_NAMESPACES, "true"], capture_output=True, check=False).returncode:
        missing("a kernel that lets root make namespaces", "run it in a privileged container")
    done = subprocess.run(
        [*IN_NAMESPACES, sys.executable, "-m", "tests.helm.redirected_pod", family, str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    logs = "\n".join(f"{each.name}:\n{each.read_text()}" for each in tmp_path.glob("*.log"))
    assert done.returncode == 0, f"{done.stderr}\n{logs}"
