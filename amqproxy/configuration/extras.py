"""Optional packages, which the extras of amqproxy install."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec


def missing_extra(extra: str, packages: Iterable[str]) -> str | None:
    """Return a missing package of an extra, with the remedy; `None` if all are installed."""
    for package in packages:
        try:
            is_there = find_spec(package) is not None
        except ImportError:  # the package that contains it is missing too
            is_there = False
        if not is_there:
            return f'needs {package}, which is not installed: run `pip install "amqproxy[{extra}]"`'
    return None
