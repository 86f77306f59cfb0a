"""A release without its accounts: what the workflow does with a tag, in a new clone, up to where it would publish.

    python -m tests.packaging.dry_run        # or: make release-dry-run

Its own scripts are run, job by job. The wheel is the one for this Python, built as cibuildwheel does it; images are
what `make chroot ONLY=image` builds. `gh` shows the notes that it is given; `helm` packages, and publishes nothing.
With AMQPROXY_COMPILE=0 the wheel is not compiled, which takes longest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Any

import yaml

from amqproxy import __version__
from tests.packaging.stopwatch import Stopwatch

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "release"
TAG = f"v{__version__}"

PROGRAMS = {
    "gh": '#!/bin/sh\nfor last; do :; done\ncat "$last"\n',
    "helm": f"""#!{sys.executable}
import sys
from helm_python import chart
if sys.argv[1] == "package":
    print(chart.package(sys.argv[2], destination="."))
""",
}
"""Stand-ins for programs that publish."""

WHEEL = """
AMQPROXY_COMPILE=${AMQPROXY_COMPILE:-1} AMQPROXY_SBOM=1 python -m build --wheel
twine check --strict dist/*.whl
"""


def main() -> None:
    """Run all scripts, also after one that failed, and exit with 1 if any did."""
    watch = Stopwatch("release")
    shutil.rmtree(PLACE, ignore_errors=True)
    clone = PLACE / "clone"
    subprocess.run(["git", "clone", "-q", "--depth", "1", ROOT.as_uri(), clone], check=True)
    venv.create(PLACE / "venv", with_pip=True)
    programs = PLACE / "bin"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    environment = os.environ | {
        "PATH": f"{programs}:{PLACE / 'venv' / 'bin'}:{os.environ['PATH']}",
        "GITHUB_REF_NAME": TAG,
        "GITHUB_REPOSITORY": "amqproxy/amqproxy",
        "GITHUB_REPOSITORY_OWNER": "amqproxy",
        "GITHUB_ACTOR": "nobody",
        "TOKEN": "",
    }
    environment.pop("PYTHONPATH", None)
    jobs: dict[str, Any] = yaml.safe_load((clone / ".github/workflows/release.yml").read_text())["jobs"]
    scripts = [(name, step["run"]) for name in ("version", "sdist") for step in jobs[name]["steps"] if "run" in step]
    scripts.append(("wheels", WHEEL))
    scripts += [(name, step["run"]) for name in ("github", "chart") for step in jobs[name]["steps"] if "run" in step]
    has_failed = False
    for name, script in scripts:
        print(f"+ {script.strip()}", flush=True)
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=clone, env=environment, check=False)
        watch.say(f"{name}: {f'FAILED with {done.returncode}' if done.returncode else 'done'}")
        has_failed = has_failed or done.returncode != 0
    (sdist,) = clone.glob("dist/*.tar.gz")
    with tarfile.open(sdist) as archive:
        foreign = [name for name in archive.getnames() if "/node_modules/" in name or name.endswith((".so", ".pyc"))]
    if foreign:
        print(f"FAILED: the sdist has {len(foreign)} files that are not sources, such as {foreign[0]}")
        has_failed = True
    for path in sorted([*clone.glob("dist/*"), *clone.glob("*.tgz")]):
        print(f"{path.stat().st_size / 1e6:6.1f} MB  {path.relative_to(ROOT)}")
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
