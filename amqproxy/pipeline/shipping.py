"""The package shipped to the executors of a cluster, so that they read captures as this process does.

An archive of the installed package, with its compiled modules: Spark unpacks it beside each executor, whose Python
finds it before an installed one. An executor with another Python or platform uses the plain sources, which it contains
too. The dependencies of amqproxy must be installed there.
"""

from __future__ import annotations

import atexit
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp
from zipfile import ZIP_DEFLATED, ZipFile

import amqproxy

DIRECTORY = "amqproxy-package"
"""Directory of the unpacked archive, in an executor's working directory."""

_LEFT_OUT = frozenset({"__pycache__"})


def settings(before: str | None = None) -> dict[str, str]:
    """Return the Spark settings with which executors use this package; `before` is their PYTHONPATH, if it is set."""
    directory = Path(mkdtemp(prefix="amqproxy-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    archive = write_archive(directory / f"{DIRECTORY}.zip")
    path = os.pathsep.join(filter(None, (DIRECTORY, before)))
    return {"spark.archives": f"{archive}#{DIRECTORY}", "spark.executorEnv.PYTHONPATH": path}


def write_archive(file: Path) -> Path:
    """Write an archive of the installed package."""
    root = Path(amqproxy.__file__).parent
    with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=1) as archive:
        for each in sorted(root.rglob("*")):
            if each.is_file() and not _LEFT_OUT.intersection(each.parts):
                archive.write(each, each.relative_to(root.parent))
    return file
