"""Recordings of what clients do, played again and recorded again."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

from amqproxy.capture.decode import read_decoded
from amqproxy.cli.decode import decode
from amqproxy.cli.failure import Failure
from amqproxy.cli.replay import replay
from amqproxy.cli.verify import verify
from amqproxy.comparison.command_store import CommandStore
from amqproxy.comparison.comparison import compared
from amqproxy.comparison.difference import Difference
from amqproxy.testing.local_proxy import LocalProxy
from tests.real import raw
from tests.real.clients import Broker
from tests.real.poll import until
from tests.real.raw import Peer
from tests.real.reports import captured, decoded, difference, grouped
from tests.real.wire import Recorder

Report = dict[str, Any]

LARGE = 5_000_000

PATIENCE = 30.0
"""Seconds for which a replay waits for an answer: more than an operator takes on a loaded machine."""

BLOCKED = b"\x00\x0a\x00\x3c\x0dlow on memory"
"""What connection.blocked has in it, from either broker."""


class Recordings:
    """Records, with a proxy, what passes between clients and brokers.

    `for_tshark` are the recordings of clients so far, and of those with large bodies the first one alone, for which
    tshark takes ten seconds.
    """

    def __init__(self) -> None:
        self.for_tshark: list[Path] = []
        self._has_large = False

    def record(self, broker: Broker, file: Path, play: Callable[[Broker], None]) -> list[str]:
        """Write to `file` what passes while `play` works with `broker`: the kinds of findings in it.

        The recording shows what a recorder before the proxy has seen on the wire.
        """
        with self._recording(broker, file) as recorder:
            play(Broker(recorder.port, broker.ctl))
            recorded = recorder.take()
        reports = list(decoded(file))
        shown, expected = grouped(reports), grouped(captured(recorded))
        assert shown == expected, difference(shown, expected)
        is_large = file.stat().st_size > LARGE
        if not (is_large and self._has_large):
            self.for_tshark.append(file)
            self._has_large |= is_large
        return sorted(each["kind"] for each in reports if "kind" in each)

    def replay(self, first: Path, broker: Broker, second: Path) -> list[Report]:
        """Play `first` to `broker` and record that in `second`: what differed, and what could not be played.

        What an operator did at the time is done again: where the broker blocked a connection, it ran out of memory.
        """
        with self._recording(broker, second) as recorder, contextlib.ExitStack() as stack:
            if BLOCKED in first.read_bytes():
                stack.enter_context(out_of_memory(broker, recorder))
            to = f"amqp://guest:guest@127.0.0.1:{recorder.port}"
            reports = reported(replay, first, to=to, speed="max", timeout=PATIENCE, json=True, limit=0)
        summary = reports.pop()
        return [each for each in reports if not only_counts(each)] + summary["not_played"]

    @contextlib.contextmanager
    def _recording(self, broker: Broker, file: Path) -> Iterator[Recorder]:
        """A proxy that records to `file`, and a recorder of the wire before it, which is where to connect to."""
        directory = file.with_suffix("")
        directory.mkdir()
        with LocalProxy(f"127.0.0.1:{broker.port}", directory) as proxy, Recorder(proxy.port) as recorder:
            yield recorder
            recorder.take()
        (recording,) = directory.iterdir()
        recording.rename(file)


def only_counts(difference: Report) -> bool:
    """Are counts of a queue all that differs?

    RabbitMQ answers queue.declare before what the same channel has published or settled has reached the queue.
    """
    fields = {each["field"].removeprefix("reply_arguments.") for each in difference.get("changes", ())}
    return bool(fields) and fields <= {"message_count", "consumer_count"}


@contextlib.contextmanager
def out_of_memory(broker: Broker, recorder: Recorder) -> Iterator[None]:
    """The broker blocks connections until one of the recorder's has been blocked."""
    is_over = Event()

    def unblock() -> None:
        try:
            until(
                lambda: is_over.is_set() or any(BLOCKED in each.to_client for each in recorder.connections),
                "a connection to be blocked",
            )
        finally:
            broker.unblock()

    thread = Thread(target=unblock)
    broker.block()
    thread.start()
    try:
        await_alarm(broker.port)
        yield
    finally:
        is_over.set()
        thread.join()


def await_alarm(port: int) -> None:
    """It takes a moment, and reaches a connection when that publishes."""
    with Peer.opened(port, 1) as client:

        def is_blocked() -> bool:
            client.send(raw.message(1, "nowhere", b""))
            client.stream.settimeout(0.05)
            try:
                return client.read() is not None
            except TimeoutError:
                return False

        until(is_blocked, "a connection to be blocked")


def differences(first: Path, *others: Path) -> Iterator[list[Report]]:
    """In what each of the others differs from the first recording."""
    with closing(CommandStore()) as one:
        one.load(read_decoded(first))
        for each in others:
            with closing(CommandStore()) as other:
                other.load(read_decoded(each))
                found = [report for report in compared(one, other) if isinstance(report, Difference)]
            reports = [json.loads(report.to_json()) for report in found]
            yield [report for report in reports if not only_counts(report)]


def kinds_of_findings(file: Path) -> list[str]:
    return sorted(each["kind"] for each in reported(decode, file, findings=True, json=True))


def unlike_tshark(file: Path) -> tuple[list[Report], int]:
    """What tshark dissects otherwise than we decode, but for its known faults; how many frames were compared."""
    *found, summary = reported(verify, file, json=True)
    return [each for each in found if "known" not in each], summary["compared"]


def reported(command: Callable[..., None], *files: Path, **flags: Any) -> list[Report]:
    """The JSON lines that a command writes, whatever its exit code."""
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.suppress(Failure):
        command(*files, **flags)
    return [json.loads(line) for line in output.getvalue().splitlines()]
