"""Apply each render of the chart to a real API server, in a namespace that admits what is restricted only.

    python -m tests.apiserver.apply DIRECTORY     with etcd and kube-apiserver in DIRECTORY: `make chart-apply`

Each object is applied twice: the second time, nothing of it may change. A warning is a failure.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.apiserver.api_server import ApiServer, Object, Refused
from tests.helm.chart import rendered
from tests.helm.matrix import VALUES

NOT_OURS = ("sidecar",)
"""Renders with containers of the user's, for which the server may have warnings."""

FIRST = ("ServiceAccount", "ConfigMap")
"""Kinds that others need."""


def apply(server: ApiServer, name: str, values: Object) -> list[str]:
    """What is wrong with a render."""
    namespace = name.replace(" ", "-")
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})
    server.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, namespace)
    faults = []
    objects = rendered(values)
    for each in sorted(objects.values(), key=lambda each: each["kind"] not in FIRST):
        title = f"{name}: {each['kind']} {each['metadata']['name']}"
        if not server.knows(each):
            print(f"{title}: of an operator, left out")
            continue
        try:
            first, warnings = server.apply(each, namespace)
            second, _ = server.apply(each, namespace)
        except Refused as error:
            faults.append(f"{title}: {error}")
            continue
        if first["metadata"]["resourceVersion"] != second["metadata"]["resourceVersion"]:
            faults.append(f"{title}: applied again, it is another")
        if name not in NOT_OURS:
            faults += [f"{title}: {warning}" for warning in warnings]
        print(f"{title}: applied")
    return faults


def main(programs: Path) -> int:
    with tempfile.TemporaryDirectory() as directory:
        server = ApiServer(programs.resolve(), Path(directory))
        try:
            print(f"Kubernetes {server.version}")
            faults = [fault for name, values in VALUES.items() for fault in apply(server, name, values)]
        finally:
            server.kill()
    print(*faults, sep="\n")
    print(f"{len(VALUES)} renders, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
