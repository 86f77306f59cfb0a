"""Recordings begin, end, and have sessions wait where that is wanted."""

import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.frame import every_frame
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.configuration.config import Limits
from amqproxy.control.hub import Hub
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.recording import recorder as module
from amqproxy.recording.entry import Entry
from amqproxy.recording.entry_queue import OVERSHOOT
from amqproxy.recording.recorder import AlreadyRecording, NotRecording, Recorder
from amqproxy.recording.recorder_tap import RecorderTap
from amqproxy.recording.recording_files import RecordingFiles
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.tap import Tap
from tests.real.poll import until
from tests.recording.recorded import config, shown
from tests.taps.sessions import Session
from tests.transcripts.words import octets


class Taps:
    """Where a recorder puts its tap."""

    def __init__(self) -> None:
        self.taps: list[Tap] = []
        self.brake = TapBrake()
        self.metrics = Metrics()
        self.hub = Hub(None, self._apply)
        self.recorder = Recorder(Limits(), self.metrics, self.hub.add, self.hub.remove, self.brake)
        self.session = Session(name="10.0.0.1:4711-10.0.0.9:5673")

    def _apply(self, tap: Tap | None) -> None:
        self.taps = [] if tap is None else [tap]

    def show(self, text: str) -> None:
        for tap in self.taps:
            tap.saw_frames(self.session, CLIENT, every_frame(octets(text), 0))


def listed(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_from_start_to_stop(tmp_path: Path) -> None:
    taps = Taps()
    assert not taps.recorder.status.is_recording
    status = await taps.recorder.start(config(tmp_path))
    assert status.is_recording
    with pytest.raises(AlreadyRecording, match="already recording into"):
        await taps.recorder.start(config(tmp_path))
    taps.show("1: tx.commit")
    status = await taps.recorder.stop()
    assert (status.is_recording, status.files, status.dropped) == (False, 1, 0)
    assert taps.taps == []
    assert taps.recorder.status == status
    assert shown([tmp_path]) == ["client tx.commit"]
    with pytest.raises(NotRecording):
        await taps.recorder.stop()
    await taps.recorder.start(config(tmp_path))
    await taps.recorder.stop()


async def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    taps = Taps()
    with pytest.raises(OSError, match="none"):
        await taps.recorder.start(config(tmp_path / "none" / "captures"))
    assert taps.taps == []
    await taps.recorder.start(config(tmp_path))
    await taps.recorder.stop()


async def test_a_filter_keeps_what_opens_and_closes(tmp_path: Path) -> None:
    taps = Taps()
    await taps.recorder.start(config(tmp_path, filter='method == "basic.qos"'))
    taps.show("1: channel.open, 1: tx.commit, 1: basic.qos, heartbeat, 1: channel.close-ok, connection.close 320")
    await taps.recorder.stop()
    assert shown([tmp_path]) == [
        *["client channel.open", "client basic.qos"],
        *["client channel.close-ok", "client connection.close"],
    ]


class SlowFiles(RecordingFiles):
    """A disk that takes nothing until it may."""

    may_write = threading.Event()

    def write(self, entries: list[Entry]) -> None:
        assert self.may_write.wait(60)
        super().write(entries)


class HangingFiles(RecordingFiles):
    """A disk on which nothing can be opened until it may."""

    may_open = threading.Event()

    def open(self) -> None:
        assert self.may_open.wait(60)
        super().open()


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    SlowFiles.may_write = threading.Event()
    monkeypatch.setattr(module, "RecordingFiles", SlowFiles)
    return SlowFiles.may_write


async def test_where_the_disk_is_slow_frames_are_dropped_and_counted(
    tmp_path: Path, slow_disk: threading.Event
) -> None:
    taps = Taps()
    await taps.recorder.start(config(tmp_path, memory=10_000))
    for _ in range(100):
        taps.show("1: tx.commit")
    assert not taps.brake.is_on
    dropped = taps.recorder.status.dropped
    assert dropped == taps.metrics.registry.get_sample_value("amqproxy_records_dropped_total", {"tap": "recorder"}) > 0
    slow_disk.set()
    await taps.recorder.stop()
    assert len(shown([tmp_path])) == 100 - dropped


async def test_after_a_loss_sessions_are_asked_for_their_states(
    tmp_path: Path, slow_disk: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WATCH_INTERVAL", 0.01)
    taps = Taps()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(taps.recorder.run)
        await taps.recorder.start(config(tmp_path, memory=10_000))
        joins = taps.hub.joins
        for _ in range(100):
            taps.show("1: tx.commit")
        await trio.sleep(0.1)
        assert taps.hub.joins == joins  # there is no room for a state as long as the disk takes nothing
        slow_disk.set()
        await trio.to_thread.run_sync(until, lambda: taps.hub.joins == joins + 1, "a request for the states")
        await trio.sleep(0.1)
        assert taps.hub.joins == joins + 1
        await taps.recorder.stop()
        nursery.cancel_scope.cancel()


async def test_after_a_failure_of_the_disk_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCH_INTERVAL", 0.01)
    taps = Taps()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(taps.recorder.run)
        await taps.recorder.start(config(tmp_path))
        recording = taps.recorder._recording
        assert recording is not None
        files, joins = recording._files, taps.hub.joins
        files.error, files.lost, files._failed_ns = "no space left on device", 7, files._timer()
        await trio.sleep(0.1)
        assert taps.hub.joins == joins
        files.error = ""
        await trio.to_thread.run_sync(until, lambda: taps.hub.joins == joins + 1, "a request for the states")
        await taps.recorder.stop()
        nursery.cancel_scope.cancel()


async def test_or_sessions_wait_and_nothing_is_missing(tmp_path: Path, slow_disk: threading.Event) -> None:
    taps = Taps()
    await taps.recorder.start(config(tmp_path, memory=100_000, when_full="wait"))
    passed = 0

    async def relay() -> None:
        nonlocal passed
        for _ in range(1000):
            await taps.brake.wait(taps.session.number)
            taps.show("1: tx.commit")
            passed += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay)
        await wait_all_tasks_blocked()
        assert 0 < passed < 1000
        assert taps.brake.is_on
        slow_disk.set()
    assert passed == 1000
    await taps.recorder.stop()
    assert not taps.brake.is_on
    assert taps.recorder.status.dropped == 0
    assert len(shown([tmp_path])) == 1000


async def test_sessions_go_on_when_a_recording_ends_that_they_wait_for(
    tmp_path: Path, slow_disk: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_TIMEOUT", 0.01)
    taps = Taps()
    await taps.recorder.start(config(tmp_path, memory=10_000, when_full="wait"))
    for _ in range(20):
        taps.show("1: tx.commit")
    assert taps.brake.is_on
    status = await taps.recorder.stop()
    assert not taps.brake.is_on
    assert "the disk took too long" in status.error
    slow_disk.set()


async def test_what_was_not_written_in_time_is_counted_and_the_file_is_complete(
    tmp_path: Path, slow_disk: threading.Event, mock_clock: MockClock
) -> None:
    taps = Taps()
    await taps.recorder.start(config(tmp_path))
    taps.show("1: tx.commit")
    recording = taps.recorder._recording
    assert recording
    until(lambda: not recording._queue._entries, "the thread to write the first")
    taps.show("1: tx.commit, 1: tx.commit")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(taps.recorder.stop)
        await wait_all_tasks_blocked()
        mock_clock.jump(module.STOP_TIMEOUT)
    assert re.fullmatch(r"the disk took too long: [\d,]+ bytes are not written", taps.recorder.status.error)
    assert taps.recorder.status.dropped == 2
    assert recording._queue.size < 1000  # what the disk has been given: the rest takes no memory any more
    slow_disk.set()
    recording._thread._thread.join()
    assert shown(sorted(listed(tmp_path))) == ["client tx.commit"]
    assert taps.metrics.registry.get_sample_value("amqproxy_records_dropped_total", {"tap": "recorder"}) == 2


@pytest.fixture
def hanging_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    HangingFiles.may_open = threading.Event()
    monkeypatch.setattr(module, "RecordingFiles", HangingFiles)
    yield HangingFiles.may_open
    HangingFiles.may_open.set()


async def outcome(do: Callable[[], Awaitable[object]], outcomes: list[str]) -> None:
    """Note how it ends."""
    try:
        await do()
        outcomes.append("done")
    except (OSError, NotRecording, AlreadyRecording) as error:
        outcomes.append(str(error))


async def test_a_directory_that_hangs_is_refused_in_time(
    tmp_path: Path, hanging_disk: threading.Event, mock_clock: MockClock
) -> None:
    taps = Taps()
    outcomes: list[str] = []
    for _ in range(module.MOST_STUCK + 1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outcome, lambda: taps.recorder.start(config(tmp_path)), outcomes)
            await wait_all_tasks_blocked()
            mock_clock.jump(module.START_TIMEOUT)
    slow = f"cannot record into {tmp_path}: the disk has not answered for 5 seconds"
    assert outcomes[:-1] == [slow] * module.MOST_STUCK
    assert "earlier recordings have not ended yet" in outcomes[-1]
    assert (taps.taps, taps.recorder.status.is_recording) == ([], False)
    threads = [each._thread._thread for each in taps.recorder._stuck]
    hanging_disk.set()
    for thread in threads:
        thread.join()
    assert listed(tmp_path) == []
    await taps.recorder.start(config(tmp_path))
    await taps.recorder.stop()


async def test_all_that_waits_for_a_start_ends_with_it(
    tmp_path: Path, hanging_disk: threading.Event, mock_clock: MockClock
) -> None:
    taps = Taps()
    outcomes: list[str] = []
    async with trio.open_nursery() as nursery:
        for do in (
            lambda: taps.recorder.start(config(tmp_path)),
            taps.recorder.stop,
            taps.recorder.close,
            lambda: taps.recorder.start(config(tmp_path)),
        ):
            nursery.start_soon(outcome, do, outcomes)
            await wait_all_tasks_blocked()
        mock_clock.jump(module.START_TIMEOUT)
    assert [each.rpartition(": ")[2] for each in outcomes] == [
        "the disk has not answered for 5 seconds",
        "there is no recording",
        "done",
        "the proxy is ending",
    ]


async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path, hanging_disk: threading.Event) -> None:
    taps = Taps()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(taps.recorder.start, config(tmp_path))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    (stuck,) = taps.recorder._stuck
    hanging_disk.set()
    stuck._thread._thread.join()
    assert listed(tmp_path) == []
    assert (taps.taps, taps.recorder.status.is_recording) == ([], False)


async def seconds(clock: MockClock, count: int) -> None:
    """So many seconds pass."""
    for _ in range(count):
        clock.jump(1)
        await wait_all_tasks_blocked()


async def test_a_disk_that_hangs_holds_nobody_up_for_ever(
    tmp_path: Path, slow_disk: threading.Event, mock_clock: MockClock, log: list[structlog.typing.EventDict]
) -> None:
    taps = Taps()
    await taps.recorder.start(config(tmp_path, memory=10_000, when_full="wait"))
    recording = taps.recorder._recording
    assert recording
    async with trio.open_nursery() as nursery:
        nursery.start_soon(taps.recorder.run)
        while not taps.brake.is_on:
            taps.show("1: tx.commit")
        await seconds(mock_clock, int(module.STALL_TIMEOUT))
        assert taps.brake.is_on
        await seconds(mock_clock, 2)
        assert taps.recorder.status.error == "the disk has taken nothing for 10 seconds"
        for _ in range(100):
            taps.show("1: tx.commit")
        assert not taps.brake.is_on
        assert taps.recorder.status.dropped
        slow_disk.set()
        until(lambda: not recording._queue.size, "the disk to take everything")
        await seconds(mock_clock, 2)
        assert taps.recorder.status.error == ""
        slow_disk.clear()
        while not taps.brake.is_on:
            taps.show("1: tx.commit")
        slow_disk.set()
        nursery.cancel_scope.cancel()
    await taps.recorder.stop()
    assert [each["event"] for each in log if "recording " in each["event"]] == [
        *["recording interrupted", "recording goes on", "recording ended"],
    ]


async def test_chunks_larger_than_the_memory_are_not_dropped_where_sessions_wait(
    tmp_path: Path, slow_disk: threading.Event
) -> None:
    taps = Taps()
    await taps.recorder.start(config(tmp_path, memory=10_000, when_full="wait"))
    for _ in range(3):
        taps.show("1: body 20000, 1: tx.commit")
        assert taps.brake.is_on
    while not taps.recorder.status.dropped:
        taps.show("1: body 20000")  # as it would not, while it waits: even then memory is bounded
    assert taps.recorder.status.waiting <= 10_000 + OVERSHOOT + 25_000
    slow_disk.set()
    await taps.recorder.stop()
    assert len(shown([tmp_path])) == 3


async def test_only_sessions_whose_data_waits_wait(tmp_path: Path, slow_disk: threading.Event) -> None:
    taps = Taps()
    memory = 100_000
    await taps.recorder.start(config(tmp_path, memory=memory, when_full="wait"))
    first = taps.session.number
    while not taps.brake.holds(first):
        taps.show("1: body 5000")
    assert taps.recorder.status.waiting > memory // 2
    taps.session = Session(first + 1)
    taps.show("1: tx.commit")
    assert not taps.brake.holds(taps.session.number)  # it has not much there
    taps.show("1: body 5000")
    assert taps.brake.holds(taps.session.number)
    while not taps.brake.holds(first + 2):  # else some of what many sessions send would not be recorded
        taps.show("1: body 50000")
    assert taps.recorder.status.dropped == 0
    slow_disk.set()
    await trio.to_thread.run_sync(lambda: until(lambda: not taps.recorder.status.waiting, "the disk"))
    await wait_all_tasks_blocked()
    assert not taps.brake.is_on
    await taps.recorder.stop()


@pytest.mark.parametrize("filter", [None, 'method == "tx.commit"'])
async def test_a_recorder_that_fails_ends_its_recording(
    tmp_path: Path,
    filter: str | None,
    slow_disk: threading.Event,
    mock_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    log: list[structlog.typing.EventDict],
) -> None:
    taps = Taps()
    await taps.recorder.start(config(tmp_path, when_full="wait", memory=10_000, filter=filter))
    while not taps.brake.is_on:
        taps.show("1: tx.commit")
    count = len(taps.recorder._recording._queue._entries) if taps.recorder._recording else 0
    monkeypatch.setattr(RecorderTap, "saw_frames", lambda *given: 1 // 0)
    taps.show("1: tx.commit")
    assert not taps.brake.is_on
    assert taps.recorder.status.error.startswith("recording failed: ZeroDivisionError")
    assert taps.taps == []
    slow_disk.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(taps.recorder.run)
        await wait_all_tasks_blocked()
        mock_clock.jump(module.WATCH_INTERVAL)
        while taps.recorder.status.is_recording:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert taps.recorder.status.error.startswith("recording failed: ZeroDivisionError")
    assert len(shown([tmp_path])) >= count > 0
    assert all(file.name.endswith(".pcapng") for file in listed(tmp_path))
    assert [each["event"] for each in log if each["log_level"] != "debug"][-1] == "recording ended"
    await taps.recorder.start(config(tmp_path))
    await taps.recorder.stop()


async def test_a_fault_of_ours_in_the_thread_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taps = Taps()
    await taps.recorder.start(config(tmp_path))
    monkeypatch.setattr(RecordingFiles, "write", lambda *given: 1 // 0)
    taps.show("1: tx.commit")
    status = await taps.recorder.stop()
    assert status.error.startswith("ZeroDivisionError")
    assert status.dropped == 1
