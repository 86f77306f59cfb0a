"""compose.yaml, as Docker Compose reads it where no variable is set."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "compose.yaml"

_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


def _without_variables(value: Any) -> Any:
    """The value, with the default of each `${VARIABLE:-default}`."""
    if isinstance(value, dict):
        return {key: _without_variables(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_variables(each) for each in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: found[2], value)
    return value


PROJECT: dict[str, Any] = _without_variables(yaml.safe_load(FILE.read_text()))
SERVICES: dict[str, dict[str, Any]] = PROJECT["services"]


def mounted(service: str) -> dict[str, Path]:
    """The files and directories of this repository that a service has, by their paths there."""
    pieces = [each.split(":") for each in SERVICES[service].get("volumes", [])]
    return {there: ROOT / here for here, there, *_ in pieces if here.startswith("./")}


def file_at(service: str, path: str) -> Path:
    """The file of this repository that a service has at `path`."""
    for there, here in mounted(service).items():
        if path == there:
            return here
        if path.startswith(f"{there}/"):
            return here / path.removeprefix(f"{there}/")
    raise KeyError(path)
