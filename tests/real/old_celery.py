"""Celery and kombu of 2024, which declare transient queues, for a worker's PYTHONPATH."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.real.require import missing

PACKAGES = ("celery==5.4.0", "kombu==5.4.2")


@cache
def old_celery(directory: Path) -> str:
    """A PYTHONPATH with these versions, whose dependencies are those of the tests."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(directory), *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        missing("Celery 5.4", f"pip install {' '.join(PACKAGES)} failed:\n{done.stderr}")
    return os.pathsep.join([str(directory), *filter(None, [os.environ.get("PYTHONPATH")])])
