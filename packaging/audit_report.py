"""What pip-audit found, in lines: known vulnerabilities, and the packages that PyPI could not be asked about.

    pip-audit --format json … | python packaging/audit_report.py [--strict]

Exit code 1 for any vulnerability, with `--strict` also for a package that was not checked; 2 if pip-audit failed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any


def lines_of(found: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each vulnerability and each unchecked package, and one with the numbers."""
    packages = found["dependencies"]
    unchecked = [each for each in packages if "skip_reason" in each]
    for each in packages:
        for known in each.get("vulns", ()):
            fixed = f", fixed in {', '.join(known['fix_versions'])}" if known["fix_versions"] else ""
            yield f"VULNERABLE: {each['name']} {each['version']}: {' '.join([known['id'], *known['aliases']])}{fixed}"
    for each in unchecked:
        yield f"NOT CHECKED: {each['skip_reason']}"
    checked = f"{len(packages) - len(unchecked)} of {len(packages)} packages checked"
    yield f"audit: {checked}, {vulnerabilities(found)} vulnerabilities"


def vulnerabilities(found: dict[str, Any]) -> int:
    return sum(len(each.get("vulns", ())) for each in found["dependencies"])


def exit_code(found: dict[str, Any], *, is_strict: bool) -> int:
    """Return 1 if the release must not go on."""
    has_unchecked = any("skip_reason" in each for each in found["dependencies"])
    return int(vulnerabilities(found) > 0 or (is_strict and has_unchecked))


def main() -> int:
    try:
        found = json.load(sys.stdin)
    except ValueError:
        print("audit: pip-audit failed, nothing was checked")
        return 2
    for line in lines_of(found):
        print(line)
    return exit_code(found, is_strict="--strict" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
