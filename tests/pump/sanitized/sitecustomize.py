"""Has an interpreter load modules from other files, for `tests.pump.sanitizer`: AMQPROXY_SANITIZED=MODULE=FILE:…"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location


class SanitizedFinder(MetaPathFinder):
    """Finds these modules."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self._files[name]) if name in self._files else None


files = dict(each.split("=", 1) for each in os.environ.get("AMQPROXY_SANITIZED", "").split(os.pathsep) if each)
if files:
    sys.meta_path.insert(0, SanitizedFinder(files))
