"""All sources of a dashboard, by number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amqproxy.dashboard.capture_source import CaptureSource
from amqproxy.dashboard.proxy_source import ProxySource
from amqproxy.dashboard.settings import Settings
from amqproxy.dashboard.source import OnSample, Source
from amqproxy.process.supervision import contained, describe

MAX_SOURCES = 64
"""Maximum number of open proxies and captures."""


class TooManySources(Exception):
    """The limit on open sources is reached."""


class Sources:
    """The sources of a dashboard; listeners are called when the state of any source has changed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.sources: dict[int, Source] = {}
        self.building, self.compiling = asyncio.Lock(), asyncio.Lock()
        """Locks held while rows are built for a browser and while a filter is compiled: other tasks run in between."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._listeners: list[Callable[[], None]] = []
        self._sample_listeners: list[OnSample] = []
        self._next = 0
        for path in settings.connect:
            self._add(ProxySource(self._next, path, settings.ring, self._changed))
        for path in settings.captures:
            self._add(CaptureSource(self._next, path, settings.ring, self._changed))

    def start(self) -> None:
        """Start reading all sources."""
        for source in self.sources.values():
            self._start(source)

    async def stop(self) -> None:
        """Stop reading all sources."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def open_capture(self, path: Path) -> Source:
        """Open another capture; `TooManySources` beyond the limit."""
        source = CaptureSource(self._next, path, self.settings.ring, self._changed)
        self._add(source)
        self._start(source)
        self._changed()
        return source

    def rename(self, path: Path, named: Path) -> None:
        """Give the sources that show a capture its new path and name."""
        for source in self.sources.values():
            if isinstance(source, CaptureSource) and source.path.resolve() == path:
                source.path, source.name = named, named.name
                self._changed()

    def describe(self) -> list[dict[str, Any]]:
        """Return the response of `/api/v1/sources`."""
        return [each.describe(read_only=self.settings.read_only) for each in self.sources.values()]

    def listen(self, listener: Callable[[], None]) -> None:
        """Register `listener` to be called when a source has changed."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Unregister `listener`."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def listen_to_samples(self, listener: OnSample) -> None:
        """Register `listener` to be called with each sample of a source."""
        self._sample_listeners.append(listener)

    def forget_samples(self, listener: OnSample) -> None:
        """Unregister `listener`."""
        if listener in self._sample_listeners:
            self._sample_listeners.remove(listener)

    def _on_sample(self, source: int, sample: dict[str, Any]) -> None:
        for listener in self._sample_listeners:
            listener(source, sample)

    def _add(self, source: ProxySource | CaptureSource) -> None:
        if len(self.sources) >= MAX_SOURCES:
            raise TooManySources(f"{MAX_SOURCES} sources are open already")
        if source.name in [each.name for each in self.sources.values()]:
            source.name = str(source.path)
        source.on_sample = self._on_sample
        self.sources[source.id] = source
        self._next += 1

    def _start(self, source: Source) -> None:
        self._tasks[source.id] = asyncio.create_task(_contained(source), name=f"source {source.id}")

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()


async def _contained(source: Source) -> None:
    """Read a source, and contain its failure so that the other sources continue."""
    with contained("source failed", source=source.name, then=lambda error: source.failed(describe(error))):
        await source.run()
