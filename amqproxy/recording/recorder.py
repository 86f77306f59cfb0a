"""Start, stop and supervision of recordings of what the proxy or the integrated broker relays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import msgspec
import trio

from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import BY_INDEX, ChannelOpen
from amqproxy.configuration.config import Limits, RecordConfig
from amqproxy.process.log import logger
from amqproxy.process.supervision import describe
from amqproxy.proxy.filtered_tap import FilteredTap
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.recording import freed_memory
from amqproxy.recording.entry_queue import OVERSHOOT, EntryQueue
from amqproxy.recording.recorder_tap import RecorderTap
from amqproxy.recording.recording_directory import reason_of
from amqproxy.recording.recording_files import RecordingFiles
from amqproxy.recording.writing_thread import WritingThread
from amqproxy.rules.matching.watched_filter import WatchedFilter
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.shared_legs import SharedLegs
from amqproxy.taps.tap import Tap

TAP = "recorder"
"""The tap label under which unrecorded frames are counted."""

START_TIMEOUT = 5.0
"""Seconds until the disk must have opened a recording."""

STOP_TIMEOUT = 10.0
"""Seconds until the end of a recording must be written."""

STALL_TIMEOUT = 10.0
"""Seconds without progress after which a disk counts as stalled, and sessions wait for it no longer."""

WATCH_INTERVAL = 1.0
"""Seconds between two checks of the disk's progress."""

MOST_STUCK = 4
"""Threads blocked by a disk beyond which no recording can be started."""

SESSION_SHARE = 1 / 64
"""Share of the queue memory that a session may add while more than half of it is taken, before it has to wait.

Once the queue exceeds its memory by three quarters of OVERSHOOT, all sessions wait.
"""


class NotRecordable(OSError):
    """The directory is unusable; the text names it and the reason."""


class AlreadyRecording(Exception):
    """A recording is already running; the text names its directory."""


class NotRecording(Exception):
    """No recording is running."""


class AddTap(Protocol):
    """Registers a tap with the sessions."""

    def __call__(self, tap: Tap, failed: Callable[[Exception], None]) -> None:
        """Register `tap`; `failed` is called if it raises, after which it is not called any more."""


class RecorderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of a recording: JSON of `amqproxy record status`.

    If `is_recording` is False, the rest describes the last recording, if there was one. `file` is being written,
    `files` is the number of recordings in this directory, of `size` bytes in total. Frames were not recorded because
    the disk was too slow (`dropped`) or failed (`lost`); `error` is the current failure, or the reason for which the
    recording ended.
    """

    is_recording: bool
    directory: str = ""
    file: str = ""
    files: int = 0
    size: int = 0
    packets: int = 0
    connections: int = 0
    waiting: int = 0
    dropped: int = 0
    lost: int = 0
    error: str = ""


class Recorder:
    """Runs at most one recording at a time; `add` and `remove` register its tap with the sessions.

    With a `brake`, sessions can be made to wait for the disk. `run` has to be running: it detects failures.
    """

    def __init__(
        self,
        limits: Limits,
        metrics: Metrics,
        add: AddTap,
        remove: Callable[[Tap], None],
        brake: TapBrake | None = None,
    ) -> None:
        self._limits = limits
        self._dropped = metrics.records_dropped.labels(TAP)
        self._add = add
        self._remove = remove
        self._brake = brake
        self._recording: _Recording | None = None
        self._stuck: list[_Recording] = []
        self._last = RecorderStatus(is_recording=False)
        self._lock = trio.Lock()
        self._is_closed = False
        self.shared_legs = SharedLegs()
        """Connections that sessions share, which a recording without a filter holds besides."""

    @property
    def status(self) -> RecorderStatus:
        """State of the recording, or of the last one."""
        return self._last if self._recording is None else self._recording.status

    async def run(self) -> None:
        """Supervise the recording until cancelled: end it after a failure, and release sessions from a stalled disk."""
        while True:
            await trio.sleep(WATCH_INTERVAL)
            recording = self._recording
            if recording is None:
                continue
            recording.watch(trio.current_time())
            if recording.failure:
                async with self._lock:
                    if recording is self._recording:
                        await self._end(recording)

    async def start(self, config: RecordConfig) -> RecorderStatus:
        """Start a recording. `AlreadyRecording` if one is running; `NotRecordable` if its directory cannot be used."""
        async with self._lock:
            if self._recording is not None:
                raise AlreadyRecording(f"already recording into {self._recording.config.directory}")
            self._stuck = [each for each in self._stuck if each.is_alive]
            if self._is_closed:
                raise NotRecordable(f"cannot record into {config.directory}: the proxy is ending")
            if len(self._stuck) >= MOST_STUCK:
                directories = ", ".join(sorted({each.config.directory for each in self._stuck}))
                raise NotRecordable(
                    f"cannot record into {config.directory}: earlier recordings have not ended yet, "
                    f"as the disk does not answer, in {directories}"
                )
            recording = _Recording(config, self._limits, self._dropped.inc, self._brake)
            try:
                await self._open(recording)
            except (OSError, ValueError) as error:
                reason = reason_of(error) if isinstance(error, OSError) else str(error)
                raise NotRecordable(f"cannot record into {config.directory}: {reason}") from None
            self._recording = recording
            self._add(recording.tap, recording.fail)
            if config.filter is None:
                self.shared_legs.add(recording.recorder_tap, recording.fail)
            logger().info("recording", directory=config.directory)
            return recording.status

    async def _open(self, recording: _Recording) -> None:
        """Raise `OSError` if the directory cannot be used; `ValueError` if its name is invalid."""
        try:
            with trio.fail_after(START_TIMEOUT):
                await recording.open()
        except trio.TooSlowError:
            raise OSError(f"the disk has not answered for {START_TIMEOUT:.0f} seconds") from None
        finally:
            if not recording.is_open:
                recording.abandon()
                self._stuck.append(recording)

    async def stop(self) -> RecorderStatus:
        """Stop the recording once all queued entries are written. `NotRecording` if there is none."""
        async with self._lock:
            if self._recording is None:
                raise NotRecording("there is no recording")
            await self._end(self._recording)
            return self._last

    async def close(self) -> None:
        """Stop the recording, if there is one, and refuse to start another."""
        self._is_closed = True
        with suppress(NotRecording):
            await self.stop()

    async def _end(self, recording: _Recording) -> None:
        """End a recording; the caller holds the lock."""
        self._remove(recording.tap)
        self.shared_legs.remove(recording.recorder_tap)
        is_over = False
        try:
            with trio.move_on_after(STOP_TIMEOUT):
                await recording.finish()
                is_over = True
        finally:
            if not is_over:
                recording.abandon()
                self._stuck.append(recording)
            self._recording = None
            self._last = status = msgspec.structs.replace(recording.status, is_recording=False)
            log = logger().warning if status.error else logger().info
            fields = {"reason": status.error} if status.error else {}
            log("recording ended", directory=status.directory, packets=status.packets, **fields)


class _Recording:
    """One recording, from its tap to its files."""

    def __init__(
        self, config: RecordConfig, limits: Limits, count_dropped: Callable[[int], None], brake: TapBrake | None
    ) -> None:
        self.config = config
        self.failure = ""
        self.is_open = False
        self._files = RecordingFiles(config, ask_for_end=lambda: self._in_loop(self.recorder_tap.end_file))
        self._dropped = 0
        self._unwritten = 0
        self._noticed = 0
        self._count = count_dropped
        self._brake = brake if config.when_full == "wait" else None
        self._queue = EntryQueue(config.memory)
        self._added: defaultdict[int, int] = defaultdict(int)  # by session, while more than half of the memory is taken
        self._queue.is_waited_for = self._brake is not None
        self._token = trio.lowlevel.current_trio_token()
        self._opened = trio.Event()
        self._ended = trio.Event()
        self._opening_failure: Exception | None = None
        self._is_abandoned = False
        self._stalled = ""
        self._progress: object = None
        self._progressed_at = trio.current_time()
        self._thread = WritingThread(
            self._queue,
            self._files,
            opened=self._on_opened,
            ended=lambda: self._in_loop(self._ended.set),
            drained=self._on_drained,
            count_lost=self._count_unwritten,
        )
        self.recorder_tap = RecorderTap(self._queue, self._on_entry, self._count_dropped)
        self.tap: Tap = self.recorder_tap
        if config.filter is not None:
            self.tap = FilteredTap(
                self.recorder_tap,
                WatchedFilter(config.filter, lambda text: logger().warning("recording filter failed", reason=text)),
                config.memory,
                limits.rule_body,
                keeps_frame=_opens_or_closes,
            )

    @property
    def status(self) -> RecorderStatus:
        files = self._files
        return RecorderStatus(
            is_recording=True,
            directory=self.config.directory,
            file=files.file,
            files=files.count,
            size=files.size,
            packets=files.packets,
            connections=self.recorder_tap.connections,
            waiting=self._queue.size,
            dropped=self._dropped + self._unwritten,
            lost=files.lost,
            error=self.failure or self._thread.failure or files.error or self._stalled,
        )

    @property
    def is_alive(self) -> bool:
        """Whether its thread is still running."""
        return self._thread.is_alive

    async def open(self) -> None:
        """Open the first file, however long the disk takes, and raise the exception that prevented it."""
        freed_memory.keep(self.config.memory)
        self._thread.start()
        await self._opened.wait()
        if self._opening_failure is not None:
            raise self._opening_failure
        self.is_open = True

    async def finish(self) -> None:
        """Write the waiting entries and complete the last file, however long that takes."""
        self._release()
        self._thread.stop()
        await self._ended.wait()
        freed_memory.give_back()

    def abandon(self) -> None:
        """Give up on a recording that has taken too long: discard its queue and do not wait for its thread."""
        if self.is_open and not self._files.is_closed:
            self.failure = self.failure or f"the disk took too long: {self._queue.size:,} bytes are not written"
        self._is_abandoned = True
        self._release()
        self._thread.abandon()
        self._count_dropped(sum(entry.frames for entry in self._queue.discard()))

    def fail(self, failure: Exception) -> None:
        """Handle a failure of the tap, which is not called any more."""
        self.failure = f"recording failed: {describe(failure)}"
        self._release()

    def watch(self, now: float) -> None:
        """Check that the disk makes progress; if it stalls, release the sessions that wait for it.

        Sessions are asked for their states after a loss, once the disk takes entries again.
        """
        progress = self._queue.taken, self._files.progress
        if progress != self._progress or not self._queue.size:
            self._progress, self._progressed_at = progress, now
            if self._stalled:
                self._stalled = ""
                self._queue.is_waited_for = self._brake is not None
                logger().info("recording goes on", directory=self.config.directory, dropped=self._dropped)
        elif now - self._progressed_at >= STALL_TIMEOUT and not self._stalled:
            self._stalled = f"the disk has taken nothing for {STALL_TIMEOUT:.0f} seconds"
            logger().error("recording interrupted", directory=self.config.directory, reason=self._stalled)
            self._release()
        lost = self._dropped + self._unwritten + self._files.lost
        if lost != self._noticed and not self._files.error and self._queue.size <= self._queue.memory // 2:
            self._noticed = lost
            self.recorder_tap.joins += 1

    def _release(self) -> None:
        """Resume the waiting sessions, and let none wait again."""
        self._queue.is_waited_for = False
        self._let_go_on()

    def _let_go_on(self) -> None:
        """Resume the waiting sessions: the queue has room again."""
        self._added.clear()
        if self._brake is not None:
            self._brake.release()

    def _on_entry(self, session: int, size: int) -> None:
        waiting, memory = self._queue.size, self._queue.memory
        self._thread.wake()
        if self._brake is not None and self._queue.is_waited_for and waiting > memory // 2:
            self._hold(self._brake, session, size, is_full=waiting > memory + OVERSHOOT * 3 // 4)

    def _hold(self, brake: TapBrake, session: int, size: int, *, is_full: bool) -> None:
        self._added[session] += size
        if is_full:
            brake.pull()
        elif self._added[session] > self._queue.memory * SESSION_SHARE:
            brake.pull(session)

    # --- in the writing thread

    def _on_opened(self, failure: Exception | None) -> None:
        self._opening_failure = failure
        self._in_loop(self._opened.set)

    def _on_drained(self) -> None:
        if self._added and not self._is_abandoned:
            self._in_loop(self._let_go_on)

    def _count_unwritten(self, entries: int) -> None:
        self._unwritten += entries
        self._count(entries)

    def _in_loop(self, do: Callable[[], None]) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(do, idempotent=True)

    # ---

    def _count_dropped(self, frames: int) -> None:
        self._dropped += frames
        self._count(frames)


def _opens_or_closes(frame: Frame) -> bool:
    """Whether a frame belongs to the connection itself, or opens or closes a channel."""
    if frame.channel == 0:
        return True
    return frame.kind == METHOD and frame.index >= 0 and BY_INDEX[frame.index].class_id == ChannelOpen.class_id
