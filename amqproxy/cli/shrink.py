"""`amqproxy shrink`: reduces a capture to the smallest part that still shows a behaviour when it is replayed."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amqproxy.cli.capture_files import CaptureFiles
from amqproxy.cli.failure import INTERRUPTED, MISUSED, Failure
from amqproxy.cli.options import Flag, Keylog, Played, PlayedLeg, Timeout
from amqproxy.cli.progress import ERASE, is_terminal
from amqproxy.cli.target_url import target_of

if TYPE_CHECKING:
    from amqproxy.export.output_file import OutputFile
    from amqproxy.replay.outcome import OutcomeFilter, ReplayOutcome
    from amqproxy.replay.replayer import Dial
    from amqproxy.replay.shrinking import Shrunk
    from amqproxy.replay.steps import Step
    from amqproxy.replay.target import Target

MAX_STEPS = 1_000_000
"""Maximum number of commands in a capture to shrink."""


def shrink(
    *files: Played,
    until: str,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    to: str | None = None,
    seconds: float = 60.0,
    timeout: Timeout = 0.5,
    leg: PlayedLeg = "client",
    keylog: Keylog = None,
    json: Flag = False,
) -> None:
    """Reduce captures to the smallest one that still makes an expression true when replayed.

    Connections, then channels or sessions, then commands are removed in varying combinations, each
    replayed against a new broker. The output is the capture of the last replay that made the expression true.

    Parameters
    ----------
    until
        A CEL expression with the names of --filter, true for a command from either side; or with
        `finding.` or `difference.`, true for a finding or difference.
    output
        The pcapng file to write.
    to
        Replay against this broker, amqp://USER:PASSWORD@HOST:PORT/VHOST, instead of the integrated one. Queues and
        exchanges get new names in each replay.
    seconds
        Time limit; the smallest capture found so far is written.
    json
        Print the result as a JSON object instead of text.
    """
    import trio

    from amqproxy.configuration.config import LogConfig
    from amqproxy.export.output_file import FileExists, OutputFile
    from amqproxy.process import log
    from amqproxy.replay.outcome import OutcomeFilter
    from amqproxy.replay.replayer import DialFailed
    from amqproxy.replay.shrinking import NotTrue

    captures = CaptureFiles("shrink", files, leg=leg, keylog=keylog)
    for option, value in (("--seconds", seconds), ("--timeout", timeout)):
        if not value > 0:
            raise Failure(f"shrink: {option} {value:g}: give a number of seconds above 0", MISUSED)
    try:
        expression = OutcomeFilter(until)
    except ValueError as error:
        raise Failure(f"shrink: --until: {error}", MISUSED) from None
    target = None if to is None else target_of(to, "shrink: --to")
    try:
        file = OutputFile(output, replaces=True)
    except (FileExists, OSError) as error:
        raise _not_written(output, error) from None
    steps = _read(captures)
    with log.started(LogConfig(level="error")):
        try:
            shrunk = trio.run(_shrink, steps, expression, target, seconds, timeout)
        except NotTrue:
            raise Failure(f"shrink: replaying the whole capture does not make this true: {until}") from None
        except DialFailed as error:
            raise Failure(f"shrink: {error}") from None
        except (KeyboardInterrupt, BaseExceptionGroup) as error:
            if isinstance(error, BaseExceptionGroup) and error.subgroup(KeyboardInterrupt) is None:
                raise
            raise Failure("shrink: interrupted; nothing was written", INTERRUPTED) from None
    try:
        _write(file, shrunk)
    except (FileExists, OSError) as error:
        raise _not_written(output, error) from None
    _print(output, shrunk, json=json)


def _read(files: CaptureFiles) -> list[Step]:
    from amqproxy.replay.dialogue import steps_of

    with files as captures:
        steps = list(islice(steps_of(captures.decoded()), MAX_STEPS + 1))
    if len(steps) > MAX_STEPS:
        raise Failure(f"shrink: there are more than {MAX_STEPS} commands; shrink a part, made with `export --pcapng`")
    if not steps:
        raise Failure("shrink: the captures contain no connection of a protocol that can be played")
    return steps


async def _shrink(
    steps: Sequence[Step], until: OutcomeFilter, target: Target | None, seconds: float, timeout: float
) -> Shrunk:
    import trio

    from amqproxy.replay.delta_debugging import OutOfTime
    from amqproxy.replay.outcome import ReplayOutcome
    from amqproxy.replay.replay_copy import AT_ONCE, PlaySettings
    from amqproxy.replay.replayer import Replayer
    from amqproxy.replay.result import ReplayResult
    from amqproxy.replay.shrinking import Shrinker, opened_vhosts
    from amqproxy.replay.target import Target
    from amqproxy.replay.traffic_log import TrafficLog

    end = trio.current_time() + seconds
    vhosts = opened_vhosts(steps)
    settings = PlaySettings(target=target or Target(), speed=AT_ONCE, timeout=timeout)

    async def play(part: Iterable[Step], number: int) -> ReplayOutcome:
        result = ReplayResult()
        traffic = TrafficLog(time.time_ns() - int(trio.current_time() * 1e9))
        with trio.move_on_at(end if number > 1 else math.inf) as scope:
            async with _broker(target, timeout, vhosts) as dial:
                suffix = f".shrink{number}" if target is not None else ""
                await Replayer(settings, dial, result, suffix=suffix, watch=traffic.note).play(iter(part))
        if scope.cancelled_caught:
            raise OutOfTime
        return ReplayOutcome(traffic, result.differences)

    def show(commands: int, replays: int) -> None:
        if is_terminal(sys.stderr):
            sys.stderr.write(f"{ERASE}{commands} commands left after {replays} replays")
            sys.stderr.flush()

    try:
        return await Shrinker(steps, until, play, lambda: trio.current_time() < end).shrink(show)
    finally:
        if is_terminal(sys.stderr):
            sys.stderr.write(ERASE)


@asynccontextmanager
async def _broker(target: Target | None, timeout: float, vhosts: Iterable[str]) -> AsyncIterator[Dial]:
    """Return a dialler of the target; without a target, of a new broker in this process with these virtual hosts."""
    from amqproxy.configuration.config import BrokerConfig, BrokerLimits
    from amqproxy.replay.broker_dial import broker_dial
    from amqproxy.sockets.transport import SocketTransport, Transport

    if target is not None:
        yield broker_dial(target, timeout)
        return
    from amqproxy import __version__
    from amqproxy.broker.broker import EVERYTHING
    from amqproxy.broker.server.from_config import configured

    async with configured(BrokerConfig(limits=BrokerLimits(disk_free=0)), __version__) as server:
        for vhost in vhosts:
            server.broker.add_vhost(vhost)
            server.broker.users["guest"].permit(vhost, EVERYTHING)

        async def open_one() -> Transport:
            return SocketTransport(server.open())

        yield open_one
        await server.close(0)


def _write(output: OutputFile, shrunk: Shrunk) -> None:
    from amqproxy import __version__
    from amqproxy.replay.traffic_capture import pcapng_of

    comment = f"{shrunk.commands} of {shrunk.commands_before} commands, found in {shrunk.replays} replays"
    with output as file:
        for piece in pcapng_of(shrunk.outcome.traffic, program=f"amqproxy shrink {__version__}", comment=comment):
            file.write(piece)


def _not_written(output: Path, error: Exception) -> Failure:
    reason = error.strerror if isinstance(error, OSError) else error
    return Failure(f"shrink: {output} cannot be written: {reason}")


def _print(output: Path, shrunk: Shrunk, *, json: bool) -> None:
    from amqproxy.taps.record import encoded

    if json:
        fields = ("connections_before", "connections", "commands_before", "commands", "replays", "is_least")
        found = {name: getattr(shrunk, name) for name in fields}
        print(encoded({**found, "output": str(output)}).decode())
        return
    least = "" if shrunk.is_least else "; there was no time to find a smaller one (--seconds)"
    print(
        f"{shrunk.commands_before} → {shrunk.commands} commands, "
        f"{shrunk.connections_before} → {shrunk.connections} connections, in {shrunk.replays} replays{least}: {output}"
    )
