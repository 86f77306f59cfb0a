"""Trials of rules on observed traffic: `amqproxy rules test` over a ring, in a child process."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from amqproxy.capture.decoded import Decoded
from amqproxy.dashboard.frame_selection import FrameSelection
from amqproxy.dashboard.list_query import ListQuery
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.ring_entry import RingEntry
from amqproxy.dashboard.ring_reading import selected
from amqproxy.export.packets import ExportedPackets

MAX_FRAMES = 1_000_000
"""Maximum number of frames that rules are tried on."""

SECONDS = 60.0
"""Time limit of a trial in seconds."""

MAX_RESULTS = 1000
"""Maximum number of commands that are listed; all are counted."""

MAX_OUTPUT = 64 * 1024 * 1024

_SUFFIXES = {"toml": ".toml", "yaml": ".yaml", "json": ".yaml"}
_COUNT = re.compile(r"  (?P<name>.+): (?P<hits>\d+)(?:, (?P<shadow>\d+) in shadow)?(?P<failed>, failed .*)?")
_COMMANDS = re.compile(r"(\d+) commands")


async def try_rules(
    entries: list[RingEntry], selection: FrameSelection, query: ListQuery, text: str, format: str
) -> dict[str, Any]:
    """Return the commands that the rules act on, and each rule's hits; `Problem` if the rules are invalid."""
    query = msgspec.structs.replace(query, limit=MAX_FRAMES)
    with tempfile.TemporaryDirectory(prefix="amqproxy-try-") as directory:
        capture = Path(directory) / "ring.pcapng"
        rules = Path(directory) / f"rules{_SUFFIXES[format]}"
        streams = await asyncio.to_thread(_write, capture, selected(entries, selection, query))
        rules.write_text(text, encoding="utf-8", errors="backslashreplace")
        output, errors = await _run(rules, capture)
    found = []
    count = 0
    for line in output.splitlines():
        count += 1
        if count <= MAX_RESULTS:
            result = msgspec.json.decode(line)
            found.append({**result, "stream": streams.get(result["connection"], result["stream"])})
    commands, counts = _counts(errors)
    return {"commands": commands, "rules": counts, "acted_on": count, "results": found}


def _write(path: Path, decoded: Iterable[Decoded]) -> dict[str, int]:
    """Write the client leg's traffic as a capture, and return the numbers of its connections by name."""
    streams: dict[str, int] = {}
    packets = ExportedPackets()
    with path.open("wb") as file:
        file.write(packets.begin("what rules are tried on"))
        for each in decoded:
            if each.leg != "upstream":
                streams[each.connection] = each.stream
                for piece in packets.write(packets.see([each])):
                    file.write(piece)
    return streams


async def _run(rules: Path, capture: Path) -> tuple[bytes, str]:
    command = (sys.executable, "-P", "-m", "amqproxy", "rules", "test", str(rules), "--capture", str(capture), "--json")
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=MAX_OUTPUT,
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        raise Problem(503, f"the rules took more than {SECONDS:.0f} seconds: try them on less") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = errors.decode(errors="replace")
    if process.returncode:
        detail = text.removeprefix("amqproxy: ").replace(str(rules), rules.name).strip()
        raise Problem(400, detail or "the rules cannot be tried", error="wrong-rules")
    return output, text


def _counts(text: str) -> tuple[int, list[dict[str, Any]]]:
    """Parse the summary: the number of commands, and the hits of each rule."""
    commands = 0
    counts: list[dict[str, Any]] = []
    for line in text.splitlines():
        if found := _COMMANDS.fullmatch(line):
            commands = int(found[1])
        elif found := _COUNT.fullmatch(line):
            counts.append(
                {
                    "name": found["name"],
                    "hits": int(found["hits"]),
                    "shadow_hits": int(found["shadow"] or 0),
                    "failed": (found["failed"] or "").removeprefix(", "),
                }
            )
    return commands, counts
