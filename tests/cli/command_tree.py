"""The commands of the command line, and of its groups."""

from __future__ import annotations

from collections.abc import Iterator

from cyclopts import App


def commands(app: App, *path: str) -> Iterator[tuple[str, App]]:
    """All commands that do something, with their names."""
    if app.default_command is not None:
        yield " ".join(path), app
    for name in app:
        if not name.startswith("-"):
            yield from commands(app[name], *path, name)
