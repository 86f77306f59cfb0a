"""One source of a dashboard: what every kind of it has."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from amqproxy.capture.decoded import Decoded, SkippedBytes
from amqproxy.capture.unreadable_bytes import MISSING
from dashboard.frame_batches import batches
from dashboard.observation import Observation
from dashboard.proxy_requests import ProxyRequests
from dashboard.ring import Ring

SLICE_SECONDS = 0.005
"""How long records are taken at a time before the event loop does something else."""

MAX_SAMPLES = 3600

ACTING = frozenset(
    (
        *("close", "pause", "resume", "release", "reload"),
        *("rules-set", "rules-shadow", "rules-enforce", "record-start", "record-stop"),
    )
)
"""Requests that change something."""

MESSAGES_SHARE = 2
"""Messages and findings take as many bytes as frames, divided by this."""


OnSample: TypeAlias = Callable[[int, dict[str, Any]], None]
"""Is shown a look at the counters of a source, by its number."""


class SourceState(StrEnum):
    """How a source stands."""

    CONNECTING = "connecting"
    """It was not reached yet."""
    LIVE = "live"
    """It is read."""
    RETRYING = "retrying"
    """It is lost, and tried again; what it had sent is still here."""
    ENDED = "ended"
    """A capture was read to its end."""


class Source:
    """A proxy or a capture, numbered `id`. `on_change` is called when how it stands has changed."""

    kind = ""
    has_row_for_missing = False
    """Is there one row for all that is missing, and not one for each connection?"""

    def __init__(self, id: int, name: str, memory: int, on_change: Callable[[], None], *, is_live: bool) -> None:
        self.id = id
        self.name = name
        self.ring = Ring(memory)
        self.observed = Observation(memory // MESSAGES_SHARE, is_live=is_live)
        self.since = time.time()
        self.version: str | None = None
        self.restarts = 0
        self.reason = ""
        """Why it is not live, where it is not."""
        self.requests: ProxyRequests | None = None
        """What asks it, where it is a proxy."""
        self.understood: frozenset[str] = frozenset()
        """The requests that it understands."""
        self.recordings: Path | None = None
        """Where it records, as far as it has said."""
        self.listeners: list[str] = []
        """Where clients connect, if that is known."""
        self.samples: deque[dict[str, Any]] = deque(maxlen=MAX_SAMPLES)
        self.lost = 0
        """Frames that did not come here, since something was too slow."""
        self.trial = asyncio.Lock()
        """Held while rules are tried on it: one at a time."""
        self.on_sample: OnSample = lambda source, sample: None
        self._state = SourceState.CONNECTING
        self._on_change = on_change

    @property
    def state(self) -> SourceState:
        return self._state

    def become(self, state: SourceState, reason: str = "") -> None:
        """It stands so from now on."""
        if (state, reason) != (self._state, self.reason):
            self._state, self.reason = state, reason
            self._on_change()

    async def run(self) -> None:
        """Read it, until it ends or this is cancelled."""
        raise NotImplementedError

    async def take(self, decoded: Iterable[Decoded]) -> None:
        """Keep what was decoded; others have their turn now and then."""
        stop = time.monotonic() + SLICE_SECONDS
        for each in decoded:
            if isinstance(each, SkippedBytes) and self.has_row_for_missing and each.reason == MISSING:
                self.observed.take(self.ring.unnumbered(each))
                continue
            for part in batches(each):
                self.observed.take(self.ring.append(part))
                if time.monotonic() > stop:
                    self.ring.notify()
                    await asyncio.sleep(0)
                    stop = time.monotonic() + SLICE_SECONDS
        self.ring.notify()

    def add_sample(self, sample: dict[str, Any]) -> None:
        """Keep a look at its counters, and show it to those who listen."""
        self.samples.append(sample)
        self.on_sample(self.id, sample)

    def describe(self, *, read_only: bool) -> dict[str, Any]:
        """What `/api/v1/sources` says of it."""
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
            "listeners": self.listeners,
            "rows": {"first": self.ring.first_seq, "next": self.ring.next_seq},
        }

    def failed(self, reason: str) -> None:
        """It cannot be read any more."""
        self.become(SourceState.ENDED, reason)
