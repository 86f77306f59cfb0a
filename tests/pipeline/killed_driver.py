"""`amqproxy`, killed at a point of its work: `python -m tests.pipeline.killed_driver POINT pipeline run --live …`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amqproxy.pipeline import jobs, tables
from amqproxy.pipeline.ledger import PRIVATE, Ledger
from amqproxy.pipeline.ledger.files import TableFiles
from amqproxy.pipeline.live import Live

Wanted = Callable[..., bool]


def _kill(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _at(owner: Any, name: str, wanted: Wanted, *, is_done: bool) -> None:
    """Kill before or after the call of this function that is wanted."""
    original = getattr(owner, name)

    def wrapped(*given: Any, **named: Any) -> Any:
        is_wanted = wanted(*given)
        if is_wanted and not is_done:
            _kill()
        result = original(*given, **named)
        if is_wanted:
            _kill()
        return result

    setattr(owner, name, wrapped)


def _before(owner: Any, name: str, wanted: Wanted) -> None:
    _at(owner, name, wanted, is_done=False)


def _after(owner: Any, name: str, wanted: Wanted) -> None:
    _at(owner, name, wanted, is_done=True)


def _half_written() -> None:
    original = TableFiles.write

    def write(self: TableFiles, path: str, content: bytes) -> None:
        if _is_in("commits")(self, path):
            target = Path(self.root, f"{path}.tmp")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content[: len(content) // 2])
            _kill()
        original(self, path, content)

    TableFiles.write = write  # type: ignore[method-assign]


def _merged() -> None:
    """Kill when small files are merged, and are still there."""
    original = Ledger.commit

    def commit(self: Ledger, job: str, *given: Any, **named: Any) -> Any:
        if job == "compact":
            Ledger._sweep = _kill  # type: ignore[method-assign, assignment]
        return original(self, job, *given, **named)

    Ledger.commit = commit  # type: ignore[method-assign]


def _is_in(directory: str) -> Wanted:
    return lambda _, path, *__: path.startswith(f"{PRIVATE}/{directory}/")


def _is_table(name: str) -> Wanted:
    return lambda _, table, *__: table == name


def _is_any(*_: object) -> bool:
    return True


POINTS: dict[str, Callable[[], None]] = {
    "before events are staged": lambda: _before(tables, "stage", _is_table("events")),
    "events staged": lambda: _after(tables, "stage", _is_table("events")),
    "files listed as pending": lambda: _after(TableFiles, "write", _is_in("pending")),
    "a file renamed": lambda: _after(TableFiles, "move", _is_any),
    "half a commit written": _half_written,
    "committed": lambda: _after(TableFiles, "write", _is_in("commits")),
    "manifests written": lambda: _before(Ledger, "_sweep", _is_any),
    "deliveries settled": lambda: _after(tables, "stage", _is_table("deliveries")),
    "deliveries linked": lambda: _after(jobs, "stage", _is_table("deliveries")),
    "small files merged": _merged,
    "counted, and Spark not told": lambda: _after(Live, "_take", _is_any),
}

REVIEWED = ("deliveries linked", "small files merged")
"""Points of what is done every `--review` seconds."""

if __name__ == "__main__":
    from amqproxy.cli import main

    point = sys.argv.pop(1)
    if point in POINTS:
        POINTS[point]()
    main()
