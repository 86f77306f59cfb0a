"""What rules take from outside of the config, when it is loaded: files, variables and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Resources(Protocol):
    """The loader of the config has one; rules ask it, since they themselves read nothing.

    Every method raises `ValueError` for what is missing or cannot be read.
    """

    def text(self, file: str) -> str:
        """What is in a file, which is looked for beside the config's own."""

    def variable(self, name: str) -> str:
        """The value of an environment variable."""

    def function(self, name: str) -> Callable[..., Any]:
        """The function of an installed module, as "module:function"."""
