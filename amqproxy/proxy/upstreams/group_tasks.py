"""Tasks for each upstream group, restarted when the groups change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import trio

from amqproxy.proxy.upstreams.group import UpstreamGroup


class GroupTasks(ABC):
    """Tasks for all groups that `groups` returns; `restart` cancels them and starts those of the present groups."""

    def __init__(self, groups: Callable[[], list[UpstreamGroup]]) -> None:
        self._groups = groups
        self._changed = trio.Event()

    def restart(self) -> None:
        """Restart the tasks, because the groups have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Run the tasks until cancelled."""
        while True:
            self._changed = trio.Event()
            async with trio.open_nursery() as nursery:
                for group in self._groups():
                    self._start(group, nursery)
                await self._changed.wait()
                nursery.cancel_scope.cancel()

    @abstractmethod
    def _start(self, group: UpstreamGroup, nursery: trio.Nursery) -> None:
        """Start the tasks of one group."""
