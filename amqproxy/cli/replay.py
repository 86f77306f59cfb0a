"""`amqproxy replay`: the client side of captures, played against a broker."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from amqproxy.cli.capture_files import CaptureFiles
from amqproxy.cli.failure import INTERRUPTED, MISUSED, Failure
from amqproxy.cli.printing import wanted
from amqproxy.cli.progress import INTERVAL
from amqproxy.cli.target_url import target_of

if TYPE_CHECKING:
    from amqproxy.comparison.difference import Difference
    from amqproxy.configuration.config import Config
    from amqproxy.replay.replay_copy import PlaySettings
    from amqproxy.replay.result import ReplayResult
    from amqproxy.replay.steps import Step
    from amqproxy.replay.target import Target
    from amqproxy.rules.matching.filters import Filter

REPORT_INTERVAL = 1.0
"""Seconds between two reports of how far it has come."""

USUAL_LIMIT = 100
"""Differences that are printed by default."""


def replay(
    *files: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    to: str,
    speed: str = "1",
    loop: int = 1,
    clients: int = 1,
    order: Literal["capture", "connection"] = "capture",
    rules: Path | None = None,
    filter: str | None = None,
    leg: Literal["client", "upstream"] = "client",
    keylog: Path | None = None,
    timeout: float = 5.0,
    ignore: Annotated[list[str], Parameter(negative="")] = [],  # noqa: B006 - cyclopts reads it, never changed
    ca: Path | None = None,
    insecure: Annotated[bool, Parameter(negative="")] = False,
    limit: int = USUAL_LIMIT,
    json: Annotated[bool, Parameter(negative="")] = False,
    progress: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Play the client side of captures against a broker, and report what it answers otherwise.

    Names and tags that the broker makes up are replaced by those that it makes up now. Exit code 0: all was played, and
    the answers are the recorded ones; 1: not. See docs/captures.md.

    Parameters
    ----------
    files
        The captures, which are one: pcap or pcapng files, directories of them, or - for standard input.
    to
        The broker: amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…; without VHOST, the recorded ones are opened. A
        PASSWORD may be in the variable AMQPROXY_PASSWORD instead, where no other user of the machine sees it.
    speed
        How many times as fast as it was recorded, such as 10 or 0.5; or max, for as fast as the broker answers.
    loop
        Play it so many times, one after the other; without a number, until Ctrl-C.
    clients
        Play so many copies at once; queues and exchanges get names of their own, with .1, .2 and so on behind them.
    order
        Whether a command waits for all that was captured before it, or only for what was on its own connection.
    rules
        A config file, whose rules change what is played as they would in the proxy.
    filter
        Play only the commands for which this CEL expression holds, and what opens their channels. See docs/rules.md.
    leg
        Of a recording of the proxy's, play what its clients sent, or what it sent itself.
    keylog
        Secrets of TLS sessions, in the format of SSLKEYLOGFILE, with which captures are decrypted by tshark.
    timeout
        Seconds for which an answer that was recorded is waited for.
    ignore
        A field that is not compared, such as message_count, properties.headers.x-trace or body. May be given several
        times.
    ca
        With amqps: the authority that must have signed the broker's certificate, in PEM.
    insecure
        With amqps: do not check the broker's certificate.
    limit
        Print at most so many differences; 0 prints all.
    json
        One JSON object a line for each difference, and a summary, instead of text.
    progress
        With --json: each second also an object with how far it has come.
    """
    import trio

    from amqproxy.configuration.config import ConfigError, LogConfig
    from amqproxy.configuration.config_file import load
    from amqproxy.process import log
    from amqproxy.replay.replay_copy import AT_ONCE, Order, PlaySettings
    from amqproxy.replay.replayer import DialFailed
    from amqproxy.replay.result import ReplayResult
    from amqproxy.replay.result_text import difference_line, result_lines

    captures = CaptureFiles("replay", files, leg=leg, keylog=keylog, reads_amqp010=True)
    if loop != 1 and captures.has_standard_input:
        raise Failure("replay: --loop: standard input can be read only once; give a file", MISUSED)
    _check(loop=loop, clients=clients, timeout=timeout, limit=limit)
    target = target_of(to, "replay: --to")
    if (ca or insecure) and not target.is_tls:
        raise Failure("replay: --ca and --insecure are for amqps://", MISUSED)
    settings = PlaySettings(target=target, speed=_speed(speed, AT_ONCE), order=Order(order), timeout=timeout)
    reader = _CaptureReader(captures, wanted(filter), reports=json and progress)
    config = None if rules is None else load(rules)
    printed = count(1)

    def show(difference: Difference) -> None:
        if limit and next(printed) > limit:
            return
        reader.files.make_way()
        print(difference.to_json().decode() if json else difference_line(difference))

    result = ReplayResult(show, ignore)
    is_interrupted = False
    gone: DialFailed | None = None
    _allow_open_files()
    plan = _Plan(target=target, config=config, ca=ca, is_insecure=insecure, loops=loop, clients=clients)
    try:
        with log.started(LogConfig(level="error")):
            trio.run(_play, reader, settings, result, plan, restrict_keyboard_interrupt_to_checkpoints=True)
    except KeyboardInterrupt:
        is_interrupted = True
    except BaseExceptionGroup as group:
        is_interrupted = group.subgroup(KeyboardInterrupt) is not None
        if not is_interrupted:
            raise _output_error(group) or group from None
    except ConfigError as error:
        raise Failure(f"replay: --ca: {error}", MISUSED) from None
    except DialFailed as error:
        gone = error
    if gone is not None and not result.connections:
        raise Failure(f"replay: {gone}")
    if json:
        print(result.summary_json().decode())
    else:
        hidden = max(0, result.difference_count - limit) if limit else 0
        for line in result_lines(result, hidden):
            print(line)
    sys.stdout.flush()
    if is_interrupted:
        raise Failure("replay: interrupted; this is what was played by then", INTERRUPTED)
    if gone is not None:
        raise Failure(f"replay: {gone}; this is what was played by then")
    if not result.is_same:
        raise Failure(
            "replay: the broker has answered otherwise"
            if result.difference_count
            else "replay: not all of it was played"
        )


class _Plan:
    """What the flags ask for, besides how a copy is played."""

    def __init__(
        self, *, target: Target, config: Config | None, ca: Path | None, is_insecure: bool, loops: int, clients: int
    ) -> None:
        self.target = target
        self.config = config
        self.ca = ca
        self.is_insecure = is_insecure
        self.loops = loops
        self.clients = clients


async def _play(reader: _CaptureReader, settings: PlaySettings, result: ReplayResult, plan: _Plan) -> None:
    import trio

    from amqproxy.replay.broker_dial import broker_dial
    from amqproxy.replay.replayer import Replayer
    from amqproxy.replay.rules_between import rules_between

    ca = str(plan.ca) if plan.ca else None
    dial = broker_dial(plan.target, settings.timeout, ca=ca, verify=not plan.is_insecure)
    async with AsyncExitStack() as stack:
        if plan.config is not None:
            between = rules_between(dial, plan.config.rules, plan.config.limits, plan.target.address)
            dial = await stack.enter_async_context(between)
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(reader.show, result)
        failure: Exception | None = None
        try:
            for number in count(1) if not plan.loops else range(1, plan.loops + 1):
                reader.loop = number
                replayer = Replayer(settings, dial, result, clients=plan.clients)
                await replayer.play(reader.steps(result, is_first=number == 1))
        except Exception as error:  # noqa: BLE001 - raised below, where no nursery makes a group of it
            failure = error
        finally:
            reader.files.clear()
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


class _CaptureReader:
    """Reads the captures, as often as they are played."""

    def __init__(self, files: CaptureFiles, chosen: Filter | None, *, reports: bool) -> None:
        self.files = files
        self.loop = 1
        """Which time it is that they are played."""
        self._reports = reports
        self._chosen = chosen
        self._streams: set[int] | None = None

    async def show(self, result: ReplayResult) -> None:
        """Keep the progress line up to date, also where a small file takes long to play; and report it, if wanted."""
        import trio

        self.files.detail = lambda: f": {result.sent} commands sent, {result.difference_count} differences"
        reported_at = trio.current_time()
        while True:
            await trio.sleep(INTERVAL)
            self.files.refresh()
            if self._reports and trio.current_time() - reported_at >= REPORT_INTERVAL:
                reported_at = trio.current_time()
                print(result.progress_json(self.loop).decode(), flush=True)

    def steps(self, result: ReplayResult, *, is_first: bool) -> Iterator[Step]:
        """The steps to play; the first time, `result` is shown what happened in the recording."""
        from amqproxy.replay.dialogue import steps_of
        from amqproxy.replay.step_selection import selected, streams_of

        if self._chosen is not None and is_first and not self.files.has_standard_input:
            self._streams = streams_of(steps_of(self.files.decoded()), self._chosen)
        decoded = self.files.decoded()
        steps = steps_of(decoded, result.recorded.note) if is_first else steps_of(decoded)
        yield from steps if self._chosen is None else selected(steps, self._chosen, self._streams)


def _output_error(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Why the output cannot be written, such as that nothing reads it any more, if that is what has failed."""
    found: BaseException | None = group.subgroup(OSError)
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _allow_open_files() -> None:
    """Allow as many connections as the system does: a capture may have thousands."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _speed(text: str, most: float) -> float:
    if text == "max":
        return most
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < most:
        raise Failure(f"replay: --speed {text}: give a number above 0, or max", MISUSED)
    return speed


def _check(*, loop: int, clients: int, timeout: float, limit: int) -> None:
    for option, value, least in (("--loop", loop, 0), ("--clients", clients, 1), ("--limit", limit, 0)):
        if value < least:
            raise Failure(f"replay: {option} {value}: it is at least {least}", MISUSED)
    if not timeout > 0:
        raise Failure(f"replay: --timeout {timeout:g}: give a number of seconds above 0", MISUSED)
