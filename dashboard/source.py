"""The common base of sources: proxies and captures."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from amqproxy.capture.decoded import Decoded, DecodedFrames, SkippedBytes
from amqproxy.capture.unreadable_bytes import MISSING
from amqproxy.control.proxy_requests import ProxyRequests
from amqproxy.dashboard.connection_table import ConnectionTable
from amqproxy.dashboard.frame_batches import batches
from amqproxy.dashboard.marks import Marks
from amqproxy.dashboard.observation import Observation
from amqproxy.dashboard.ring import Ring
from amqproxy.dashboard.shared_rows import SharedRows

SLICE_SECONDS = 0.005
"""Seconds for which traffic is taken before the event loop has its turn."""

MAX_SAMPLES = 3600

ACTING = frozenset(
    (
        *("close", "pause", "resume", "release", "reload"),
        *(
            "rules-set",
            "rules-add",
            "rules-end",
            "rules-remove",
            "rules-shadow",
            "rules-enforce",
            "record-start",
            "record-stop",
        ),
        *("upstreams-drain", "upstreams-eject", "upstreams-restore", "upstreams-weight", "upstreams-rebalance"),
        "broker-change",
        *("switches-begin", "switches-back", "switches-forth", "switches-settle", "switches-forget"),
    )
)
"""Control socket requests that change something."""

MESSAGES_SHARE = 2
"""Ratio of the memory for frames to the memory for messages; findings get as much as messages."""


OnSample: TypeAlias = Callable[[int, dict[str, Any]], None]
"""Listener for samples, called with the source's number and the sample."""


class SourceState(StrEnum):
    """State of a source."""

    CONNECTING = "connecting"
    """Not reached since the start."""
    LIVE = "live"
    """Being read."""
    RETRYING = "retrying"
    """The connection is lost and is being retried; earlier traffic is kept."""
    ENDED = "ended"
    """The capture was read to its end, or the source has failed."""


class Source:
    """A proxy or a capture, numbered `id`; `on_change` is called when its state has changed."""

    kind = ""
    has_row_for_missing = False
    """Whether one row stands for missing frames of all connections, instead of one row per connection."""

    def __init__(self, id: int, name: str, memory: int, on_change: Callable[[], None], *, is_live: bool) -> None:
        self.id = id
        self.name = name
        self.ring = Ring(memory)
        self.shared_rows = SharedRows()
        self.observed = Observation(memory // MESSAGES_SHARE, is_live=is_live)
        self.connection_table = ConnectionTable()
        self.since = time.time()
        self.version: str | None = None
        self.restarts = 0
        self.reason = ""
        """Reason for a state other than live."""
        self.requests: ProxyRequests | None = None
        """Client of the control socket, if the source is a proxy."""
        self.understood: frozenset[str] = frozenset()
        """Names of the requests that the proxy understands."""
        self.recordings: Path | None = None
        """Directory into which the proxy records, as last reported."""
        self.listeners: list[str] = []
        """Addresses on which clients connect, if known."""
        self.samples: deque[dict[str, Any]] = deque(maxlen=MAX_SAMPLES)
        self.lost = 0
        """Frames that the dashboard was too slow to receive."""
        self.lost_findings = 0
        """Findings that the proxy has dropped, since there were too many at once."""
        self.sample: tuple[int, int] | None = None
        """Connections shown at the same time, and those with traffic, where more passes than can be shown."""
        self.marks = Marks()
        self.trial = asyncio.Lock()
        """Held while rules are tried on the source, one trial at a time."""
        self.on_sample: OnSample = lambda source, sample: None
        self._state = SourceState.CONNECTING
        self._on_change = on_change

    @property
    def state(self) -> SourceState:
        return self._state

    def become(self, state: SourceState, reason: str = "") -> None:
        """Set the state and its reason, and notify if either has changed."""
        if (state, reason) != (self._state, self.reason):
            self._state, self.reason = state, reason
            self.changed()

    def changed(self) -> None:
        """Notify that the source's description has changed."""
        self._on_change()

    async def run(self) -> None:
        """Read the source until it ends or the task is cancelled."""
        raise NotImplementedError

    async def take(self, decoded: Iterable[Decoded]) -> float:
        """Append decoded traffic to the ring and observe it, yielding to the event loop every `SLICE_SECONDS`.

        Return the processor time in seconds that this took, without that of tasks which ran between.
        """
        took = -time.thread_time()
        stop = time.monotonic() + SLICE_SECONDS
        for each in decoded:
            if isinstance(each, SkippedBytes) and self.has_row_for_missing and each.reason == MISSING:
                self.observed.take(self.ring.unnumbered(each))
                continue
            comments: tuple[str, ...] = ()
            if isinstance(each, DecodedFrames) and each.note.comments:
                comments, each = each.note.comments, msgspec.structs.replace(each, note=each.note.uncommented)
            for part in batches(each):
                entry = self.ring.append(part)
                if comments:
                    self.marks.read(entry.seq, comments)
                    comments = ()
                self.observed.take(entry, part)
                if time.monotonic() > stop:
                    self.ring.notify()
                    took += time.thread_time()
                    await asyncio.sleep(0)
                    took -= time.thread_time()
                    stop = time.monotonic() + SLICE_SECONDS
        self.ring.notify()
        return took + time.thread_time()

    def add_sample(self, sample: dict[str, Any]) -> None:
        """Keep a sample, and pass it to the listener."""
        self.samples.append(sample)
        self.observed.minutes.at(int(sample["ts"] * 1e9)).take_sample(sample)
        self.on_sample(self.id, sample)

    def describe(self, *, read_only: bool) -> dict[str, Any]:
        """Return the source's entry in `/api/v1/sources`."""
        return {
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "state": self._state,
            "reason": self.reason,
            "version": self.version,
            "since": self.since,
            "restarts": self.restarts,
            "read_only": read_only,
            "can": sorted(self.understood - ACTING if read_only else self.understood),
            "lost": self.lost,
            "sample": None if self.sample is None else dict(zip(("shown", "of"), self.sample, strict=True)),
            "listeners": self.listeners,
            "rows": {"first": self.ring.first_seq, "next": self.ring.next_seq},
        }

    def failed(self, reason: str) -> None:
        """Mark the source as ended because of a failure."""
        self.become(SourceState.ENDED, reason)
