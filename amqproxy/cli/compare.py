"""`amqproxy compare`: compares two captures, or two brokers, message by message."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from amqproxy.cli.capture_files import STANDARD_INPUT, CaptureFiles
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Flag, Keylog
from amqproxy.cli.printing import wanted
from amqproxy.cli.replay import speed_of
from amqproxy.cli.target_url import target_of

if TYPE_CHECKING:
    from amqproxy.comparison.command_store import CommandStore
    from amqproxy.comparison.comparison import ComparisonReport
    from amqproxy.replay.target import Target

USUAL_LIMIT = 100
"""Default maximum number of printed differences for two connections."""


def compare(
    a: Annotated[str, Parameter(allow_leading_hyphen=True)],
    b: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    replay: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    speed: str = "max",
    timeout: float = 5.0,
    filter: str | None = None,
    leg: Literal["client", "upstream"] = "client",
    keylog: Keylog = None,
    ignore: Annotated[list[str], Parameter(negative="")] = [],  # noqa: B006 - cyclopts reads it, never changed
    limit: int = USUAL_LIMIT,
    json: Flag = False,
) -> None:
    """Compare two captures, or two brokers, message by message: exit code 0 if equal, 1 if they differ.

    Connections correspond by the name that the client gave, by user, and by their commands. Times, tags, and generated
    names are not compared; latencies are shown side by side.

    Parameters
    ----------
    a
        A capture, pcap or pcapng, or a directory of them; - is standard input. With --replay: a broker, as
        amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…
    b
        The capture or broker to compare it with.
    replay
        A capture whose client side is replayed against both brokers; - is standard input.
    speed
        With --replay: the speed relative to the recording, or max: as fast as the brokers answer.
    timeout
        With --replay: seconds to wait for a recorded answer.
    filter
        Compare only the commands for which this CEL expression holds.
    leg
        The leg of a proxy recording to compare, or to replay.
    ignore
        A field to ignore, such as properties.message_id or body. Repeatable.
    limit
        Maximum number of differences printed for two connections; 0 prints all.
    json
        Print one JSON object per line, for each pair of connections, difference and latency, and a summary.
    """
    from amqproxy.comparison.command_store import CommandStore
    from amqproxy.comparison.comparison import compared
    from amqproxy.rules.engine.command_filter import CommandFilter
    from amqproxy.rules.message_filter import message_filters_of

    if limit < 0:
        raise Failure(f"compare: --limit {limit}: give a number of at least 0", MISUSED)
    selected = wanted(filter)
    selector_of = None if selected is None else message_filters_of(selected)
    selected_body = 0 if selected is None else CommandFilter.kept_body(selected)
    sources = _Sources(a, b, leg, keylog, replay, speed, timeout)
    try:
        stores = [CommandStore(selector_of, ignore, selected_body=selected_body) for _ in "ab"]
        with closing(stores[0]) as one, closing(stores[1]) as other:
            sources.load(one, other)
            differences = print_comparison(compared(one, other), limit=limit, json=json)
    except sqlite3.OperationalError as error:
        text = f"compare: {error}: decoded captures are kept in temporary files of about the same size"
        raise Failure(text) from None
    if differences:
        sys.stdout.flush()
        raise Failure(f"compare: {differences}")


class _Sources:
    """The two captures to compare, or, with `replay`, the answers of two brokers to it."""

    def __init__(
        self, a: str, b: str, leg: str, keylog: Path | None, replay: Path | None, speed: str, timeout: float
    ) -> None:
        self._names = (a, b)
        self._leg = leg
        self._keylog = keylog
        self._replay = replay
        self._timeout = timeout
        self._targets: list[Target] = []
        self._speed = 0.0
        if replay is not None:
            self._targets = [target_of(url, f"compare: {which} URL") for which, url in (("first", a), ("second", b))]
            self._speed = speed_of("compare", speed)
            if not timeout > 0:
                raise Failure(f"compare: --timeout {timeout:g}: give a number of seconds above 0", MISUSED)
        elif a == b == STANDARD_INPUT:
            raise Failure("compare: only one of the two can be standard input", MISUSED)

    def load(self, *stores: CommandStore) -> None:
        if self._replay is not None:
            with self._captures(self._replay) as captures:
                for target, store in zip(self._targets, stores, strict=True):
                    _play(captures, target, store, self._speed, self._timeout)
            return
        for name, store in zip(self._names, stores, strict=True):
            with self._captures(Path(name)) as captures:
                store.load(captures.decoded())

    def _captures(self, file: Path) -> CaptureFiles:
        is_read_again = self._replay is not None
        return CaptureFiles("compare", [file], read_again=is_read_again, leg=self._leg, keylog=self._keylog)


def print_comparison(reports: Iterable[ComparisonReport], *, limit: int, json: bool) -> str:
    """Print the reports as they come; return a short description of the differences, or ""."""
    from amqproxy.comparison.comparison import ComparisonSummary
    from amqproxy.comparison.comparison_text import comparison_lines
    from amqproxy.process.log import is_coloured

    summary: ComparisonSummary | None = None

    def noted() -> Iterator[ComparisonReport]:
        nonlocal summary
        for report in reports:
            if isinstance(report, ComparisonSummary):
                summary = report
            yield report

    lines: Iterable[str]
    if json:
        lines = (report.to_json().decode() for report in noted())
    else:
        lines = comparison_lines(noted(), limit=limit, is_coloured=is_coloured(sys.stdout))
    for line in lines:
        sys.stdout.write(line + "\n")
    if summary is None or summary.is_same:
        return ""
    return "they differ" if any(summary.differences.values()) else "not all could be compared"


# --- two brokers


def _play(files: CaptureFiles, target: Target, store: CommandStore, speed: float, timeout: float) -> None:
    """Replay the client side of a capture against a broker, and store the traffic."""
    import time

    import trio

    from amqproxy.replay.broker_dial import broker_dial
    from amqproxy.replay.dialogue import steps_of
    from amqproxy.replay.replay_copy import PlaySettings
    from amqproxy.replay.replayer import DialFailed, Replayer
    from amqproxy.replay.result import ReplayResult
    from amqproxy.replay.traffic_log import TrafficStore

    dial = broker_dial(target, timeout)
    result = ReplayResult()

    async def play() -> None:
        traffic = TrafficStore(store, time.time_ns() - int(trio.current_time() * 1e9))
        settings = PlaySettings(target=target, speed=speed, timeout=timeout)
        await Replayer(settings, dial, result, watch=traffic.note).play(steps_of(files.decoded()))
        traffic.finish()

    try:
        trio.run(play, restrict_keyboard_interrupt_to_checkpoints=True)
    except DialFailed as error:
        raise Failure(f"compare: {error}") from None
    if result.not_played:
        what = ", ".join(f"{each.reason} ({each.count})" for each in result.not_played[:3])
        print(f"amqproxy: not all of it was replayed against {target.address}: {what}", file=sys.stderr)
