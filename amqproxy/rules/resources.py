"""Access of rules to files, environment variables and functions when the configuration is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Resources(Protocol):
    """Loader of external values, implemented by the configuration loader, since rules read nothing themselves.

    Every method raises `ValueError` if the value is missing or cannot be read.
    """

    def text(self, file: str) -> str:
        """Return the content of a file, relative to the configuration file."""

    def variable(self, name: str) -> str:
        """Return the value of an environment variable."""

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function of an installed module, named "module:function"."""
