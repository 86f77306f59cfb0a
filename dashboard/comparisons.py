"""Comparisons of two captures by `amqproxy compare`, each in a child process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

MAX_RUNNING = 2
"""Maximum number of concurrent comparisons."""

MAX_DIFFERENCES = 500
"""Maximum number of differences of two connections, and of all of them."""

COMPARE_SECONDS = 120.0
"""Seconds after which a comparison is given up."""

MAX_LINE = 4 << 20
"""Maximum size of a line of output, in bytes."""

MAX_BYTES = 4 << 20
"""Maximum size of the reported differences, in bytes; further ones are only counted."""

MAX_ERROR = 2000
"""Maximum size of a reported error, in bytes."""

_REPORTS = {b"connection": "connections", b"difference": "differences", b"latency": "latencies"}


class ComparisonFailed(Exception):
    """The captures cannot be compared, with the reason."""


class TooManyComparisons(Exception):
    """The limit on concurrent comparisons is reached."""


class Comparisons:
    """Runs comparisons, a bounded number at once."""

    def __init__(self) -> None:
        self._running = 0

    async def compare(self, a: Path, b: Path) -> dict[str, Any]:
        """Compare two captures; return the pairs of connections, the differences, the latencies and the summary."""
        if self._running >= MAX_RUNNING:
            raise TooManyComparisons(f"{MAX_RUNNING} comparisons are running already: wait")
        self._running += 1
        try:
            return await _compared(a, b)
        finally:
            self._running -= 1


async def _compared(a: Path, b: Path) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "amqproxy", "compare", "--json", "--limit", str(MAX_DIFFERENCES)),
        *("--", str(a), str(b)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=MAX_LINE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(COMPARE_SECONDS):
            found, text = await asyncio.gather(_read(process.stdout), _last_of(process.stderr))
            await process.wait()
    except TimeoutError:
        raise ComparisonFailed(f"it takes more than {COMPARE_SECONDS:g} seconds: use `amqproxy compare`") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    differences: dict[str, Any] = found
    if differences["summary"] is None:
        raise ComparisonFailed(text.removeprefix("amqproxy: ").removeprefix("compare: ") or "it ended early")
    return differences


async def _read(output: asyncio.StreamReader) -> dict[str, Any]:
    """Read the report line by line, and keep a bounded part of it."""
    found: dict[str, Any] = {"connections": [], "differences": [], "latencies": [], "summary": None}
    size = 0
    while line := await output.readline():
        kind = line[len(b'{"report":"') :].partition(b'"')[0]
        if kind == b"summary":
            found["summary"] = msgspec.json.decode(line)
            del found["summary"]["report"]
            continue
        kept = found[_REPORTS[kind]]
        if len(kept) < MAX_DIFFERENCES and size + len(line) <= MAX_BYTES:
            size += len(line)
            kept.append(msgspec.Raw(line.strip()))
    return found


async def _last_of(errors: asyncio.StreamReader) -> str:
    kept = b""
    while data := await errors.read(MAX_ERROR):
        kept = (kept + data)[-MAX_ERROR:]
    return kept.decode(errors="replace").strip()
