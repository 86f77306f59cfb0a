"""What a test needs from outside: a clear skip on a laptop, a failure under `CI=true`."""

import importlib
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where Debian keeps servers, which an ordinary user's PATH leaves out."""


def missing(what: str, remedy: str) -> NoReturn:
    """End the test that needs `what`."""
    reason = f"{what} is missing: {remedy}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require(program: str, *, package: str | None = None) -> str:
    """The path of a program; what a Python package brings lies beside the interpreter."""
    directories = [os.environ.get("PATH", os.defpath), *SYSTEM_DIRECTORIES, str(Path(sys.executable).parent)]
    path = shutil.which(program, path=os.pathsep.join(directories))
    if path is None:
        missing(program, f"apt-get install {package or program}")
    return path


def require_module(name: str, *, package: str | None = None) -> ModuleType:
    """An imported Python module."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(f"the Python module {name}", f"pip install {package or name}")
