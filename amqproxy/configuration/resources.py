"""Files, variables and functions that rules read when the config is loaded."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amqproxy.rules.scripting.script_loader import fault

MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a file; scripts and passwords are small."""


class ConfigResources:
    """`rules.resources.Resources`, for a config in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def text(self, file: str) -> str:
        path = self._directory / file
        try:
            with path.open("rb") as opened:
                data = opened.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise ValueError(f"{path} is larger than {MAX_BYTES} bytes")
            return data.decode()
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not text: {error}") from None

    def variable(self, name: str) -> str:
        value = os.environ.get(name)
        if value is None:
            raise ValueError(f"the environment has no variable {name}")
        return value

    def function(self, name: str) -> Callable[..., Any]:
        module, _, attribute = name.partition(":")
        try:
            found: Any = getattr(importlib.import_module(module), attribute, None)
        except BaseException as error:  # noqa: BLE001 - anything that its code raises, SystemExit too
            raise ValueError(f"{module} cannot be imported: {fault(error, module)}") from None
        if not callable(found):
            raise ValueError(f"{module} has no function `{attribute}`")
        return found  # type: ignore[no-any-return]
