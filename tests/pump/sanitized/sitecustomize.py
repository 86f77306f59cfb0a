"""Has an interpreter load a module from another file, for `tests.pump.sanitizer`: AMQPROXY_SANITIZED=MODULE=FILE."""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location


class SanitizedFinder(MetaPathFinder):
    """Finds that one module."""

    def __init__(self, module: str, file: str) -> None:
        self._module = module
        self._file = file

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self._file) if name == self._module else None


module, _, file = os.environ.get("AMQPROXY_SANITIZED", "").partition("=")
if file:
    sys.meta_path.insert(0, SanitizedFinder(module, file))
