"""The software bill of materials of a wheel, as CycloneDX 1.6 in JSON: its contents, and its requirements.

    python packaging/sbom.py amqproxy.cdx.json [--plain]        --plain if none of its modules are compiled

Its contents are npm packages, bundled into the dashboard's page with exact versions, and Cython, which is part of the
modules that it compiles. Its requirements are those of pyproject.toml, whose versions are unknown until they are
installed; those of extras are optional. PEP 770 defines the bill's place in a wheel. With SOURCE_DATE_EPOCH the same
wheel has the same bill.
"""

import base64
import json
import os
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.hash.factories import HashTypeFactory
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.model.lifecycle import LifecyclePhase, PredefinedLifecycle
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
LICENSES = "dashboard/static/licenses.json"
LOCK = "dashboard/ui/package-lock.json"
NOT_FOR_USERS = frozenset({"bench", "chart", "demo", "dev", "docs", "fuzz", "lint", "pipeline-test", "test"})
"""Extras for development of the project itself."""


def bill(root: Path, is_compiled: bool = True) -> Bom:
    """Return the bill of the wheel that is built from the project in `root`; the page has to be built before."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    subject = Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref="wheel",
        purl=PackageURL("pypi", name=name, version=version),
        licenses=[DisjunctiveLicense(id=project["license"])],
        description=project["description"],
        supplier=OrganizationalEntity(name="The amqproxy team"),
    )
    made = Bom(serial_number=uuid5(NAMESPACE_URL, f"https://pypi.org/project/{name}/{version}/"))
    made.metadata.timestamp = _now()
    made.metadata.lifecycles = [PredefinedLifecycle(LifecyclePhase.BUILD)]
    made.metadata.component = subject
    parts = [*_bundled(root), *_requirements(project)]
    if is_compiled:
        parts.append(_cython())
    for part in parts:
        made.components.add(part)
    made.register_dependency(subject, parts)
    return made


def _now() -> datetime:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC).replace(microsecond=0)


def _bundled(root: Path) -> Iterator[Component]:
    """Yield the npm packages in the page, with the hashes by which npm verified them."""
    locked = json.loads((root / LOCK).read_text())["packages"]
    for each in json.loads((root / LICENSES).read_text()):
        algorithm, _, digest = locked[f"node_modules/{each['name']}"]["integrity"].partition("-")
        group, _, name = each["name"].rpartition("/")
        yield Component(
            name=name,
            group=group or None,
            version=each["version"],
            type=ComponentType.LIBRARY,
            scope=ComponentScope.REQUIRED,
            purl=PackageURL("npm", namespace=group or None, name=name, version=each["version"]),
            licenses=[DisjunctiveLicense(id=each["license"])],
            hashes=[HashTypeFactory().from_hashlib_alg(algorithm, base64.b64decode(digest).hex())],
            bom_ref=f"npm:{each['name']}",
        )


def _cython() -> Component:
    version = installed_version("Cython")
    return Component(
        name="Cython",
        version=version,
        type=ComponentType.LIBRARY,
        scope=ComponentScope.REQUIRED,
        purl=PackageURL("pypi", name="cython", version=version),
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
        description="The support code in compiled modules",
        bom_ref="pypi:cython",
    )


def _requirements(project: dict[str, Any]) -> Iterator[Component]:
    """Yield each requirement once; requirements of extras have properties that name these."""
    found: dict[str, tuple[Requirement, list[str]]] = {}
    extras = {extra: needs for extra, needs in project["optional-dependencies"].items() if extra not in NOT_FOR_USERS}
    for extra, needs in {"": project["dependencies"], **extras}.items():
        for requirement in map(Requirement, needs):
            if requirement.name != project["name"]:  # another extra
                found.setdefault(requirement.name.lower(), (requirement, []))[1].append(extra)
    for name, (requirement, by) in found.items():
        properties = [Property(name="amqproxy:requirement", value=str(requirement))]
        properties += [Property(name="cdx:python:package:required-extra", value=extra) for extra in by if extra]
        yield Component(
            name=requirement.name,
            type=ComponentType.LIBRARY,
            scope=ComponentScope.REQUIRED if "" in by else ComponentScope.OPTIONAL,
            purl=PackageURL("pypi", name=name),
            properties=properties,
            bom_ref=f"pypi:{name}",
        )


if __name__ == "__main__":
    JsonV1Dot6(bill(ROOT, "--plain" not in sys.argv)).output_to_file(sys.argv[1], allow_overwrite=True, indent=1)
