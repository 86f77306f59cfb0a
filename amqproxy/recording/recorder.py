"""Begins and ends recordings of what a proxy, or the integrated broker, relays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import msgspec
import trio

from amqproxy.amqp091.frame import METHOD, Frame, count_frames
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
from amqproxy.taps.tap import Tap

TAP = "recorder"
"""The name under which frames that are not recorded are counted."""

START_TIMEOUT = 5.0
"""Seconds for the disk to let a recording begin."""

STOP_TIMEOUT = 10.0
"""Seconds that the end of a recording may take to be written."""

STALL_TIMEOUT = 10.0
"""Seconds after which a disk that takes nothing is one that does not work: no session waits for it any more."""

WATCH_INTERVAL = 1.0
"""Seconds between two looks at whether the disk takes something."""

MOST_STUCK = 4
"""Threads that a disk keeps from ending. While there are so many, no recording begins."""

SESSION_SHARE = 1 / 64
"""Of the memory: where more than half of it is taken, a session that adds more than that waits. Where all of it is
taken, and then some, all sessions wait."""


class NotRecordable(OSError):
    """A directory cannot be used; the text names it, and the reason."""


class AlreadyRecording(Exception):
    """One recording at a time; the text names its directory."""


class NotRecording(Exception):
    """There is no recording to end."""


class AddTap(Protocol):
    """Puts a tap among those that are shown what passes."""

    def __call__(self, tap: Tap, failed: Callable[[Exception], None]) -> None:
        """`failed` is to be called when it fails, and is not shown anything any more."""


class RecorderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a recording stands: JSON of `amqproxy record status`.

    `is_recording` is False when there is none, and then the rest is of the last one, if there was one. `file` is being
    written, `files` are those of this directory that there are, with `size` bytes in all. `frames` were not recorded
    since the disk was too slow (`dropped`) or failed (`lost`); `error` is why it fails now, or why it has ended.
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
    """At most one recording at a time. `add` and `remove` put its tap among those that are shown what passes.

    With a `brake`, sessions can be made to wait for the disk. `run` is to be running: it notices what has failed.
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

    @property
    def status(self) -> RecorderStatus:
        """How the recording stands, or how the last one did."""
        return self._last if self._recording is None else self._recording.status

    async def run(self) -> None:
        """Watch over the recording until cancelled: end it if it has failed, and no wait for a disk that hangs."""
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
        """Begin a recording. `AlreadyRecording` if there is one; `NotRecordable` where its directory cannot be used."""
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
            logger().info("recording", directory=config.directory)
            return recording.status

    async def _open(self, recording: _Recording) -> None:
        """`OSError` where its directory cannot be used; `ValueError` where none can have that name."""
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
        """End the recording, once all that has passed is written. `NotRecording` if there is none."""
        async with self._lock:
            if self._recording is None:
                raise NotRecording("there is no recording")
            await self._end(self._recording)
            return self._last

    async def close(self) -> None:
        """End the recording, if there is one, and begin no other."""
        self._is_closed = True
        with suppress(NotRecording):
            await self.stop()

    async def _end(self, recording: _Recording) -> None:
        """With the lock held."""
        self._remove(recording.tap)
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
        self._files = RecordingFiles(config)
        self._dropped = 0
        self._unwritten = 0
        self._count = count_dropped
        self._brake = brake if config.when_full == "wait" else None
        self._queue = EntryQueue(config.memory)
        self._added: defaultdict[int, int] = defaultdict(int)  # by sessions, while more than half of it is taken
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
        self._recorder_tap = RecorderTap(self._queue, self._on_entry, self._count_dropped)
        self.tap: Tap = self._recorder_tap
        if config.filter is not None:
            self.tap = FilteredTap(
                self._recorder_tap,
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
            connections=self._recorder_tap.connections,
            waiting=self._queue.size,
            dropped=self._dropped + self._unwritten,
            lost=files.lost,
            error=self.failure or self._thread.failure or files.error or self._stalled,
        )

    @property
    def is_alive(self) -> bool:
        """Does its thread still run?"""
        return self._thread.is_alive

    async def open(self) -> None:
        """Begin its first file, however long the disk takes. What has kept the disk from that is raised."""
        freed_memory.keep(self.config.memory)
        self._thread.start()
        await self._opened.wait()
        if self._opening_failure is not None:
            raise self._opening_failure
        self.is_open = True

    async def finish(self) -> None:
        """Write what waits, and complete the last file, however long that takes."""
        self._release()
        self._thread.stop()
        await self._ended.wait()
        freed_memory.give_back()

    def abandon(self) -> None:
        """It has taken too long: do not wait for it, and write no more than needs be."""
        if self.is_open and not self._files.is_closed:
            self.failure = self.failure or f"the disk took too long: {self._queue.size:,} bytes are not written"
        self._is_abandoned = True
        self._release()
        self._thread.abandon()
        self._count_dropped(sum(count_frames(entry.data) for entry in self._queue.discard()))

    def fail(self, failure: Exception) -> None:
        """Its tap has failed, and is shown nothing any more."""
        self.failure = f"recording failed: {describe(failure)}"
        self._release()

    def watch(self, now: float) -> None:
        """See whether the disk still takes what waits; if not, no session waits for it."""
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

    def _release(self) -> None:
        """Let the sessions that wait go on."""
        self._queue.is_waited_for = False
        self._let_go_on()

    def _let_go_on(self) -> None:
        """There is room again."""
        self._added.clear()
        if self._brake is not None:
            self._brake.release()

    def _on_entry(self, session: int, size: int) -> None:
        waiting, memory = self._queue.size, self._queue.memory
        if waiting >= self._queue.batch:
            self._thread.wake()
            if self._brake is not None and self._queue.is_waited_for and waiting > memory // 2:
                self._hold(self._brake, session, size, is_full=waiting > memory + OVERSHOOT * 3 // 4)

    def _hold(self, brake: TapBrake, session: int, size: int, *, is_full: bool) -> None:
        self._added[session] += size
        if is_full:
            brake.pull()
        elif self._added[session] > self._queue.memory * SESSION_SHARE:
            brake.pull(session)

    # --- in the thread that writes

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
    """Is a frame of the connection itself, or does it open or close a channel?"""
    if frame.channel == 0:
        return True
    return frame.kind == METHOD and frame.index >= 0 and BY_INDEX[frame.index].class_id == ChannelOpen.class_id
