"""The cache directory of the user, for what the next run need not make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path | None:
    """Return the directory, which may not exist; `None` for a user without a home, as in containers.

    A shared directory would not do: another user could write queries to it.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "amqproxy"
    except RuntimeError:
        return None
