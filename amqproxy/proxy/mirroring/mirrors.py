"""Where copies of publishes go: a `MirrorPublisher` for each broker and login that they are sent with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import trio

from amqproxy.process.supervision import contained, supervised
from amqproxy.proxy.memory_budget import MemoryBudget
from amqproxy.proxy.mirroring.mirror_drops import DropReason, MirrorDrops
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin, MirrorPublisher
from amqproxy.rules.verdict import MirroredCopy
from amqproxy.sockets.transport import Transport

Dial = Callable[[], Awaitable[Transport]]

MAX_MIRROR_PUBLISHERS = 64
"""Brokers and logins at a time; for one more, the one that has had nothing to send for the longest time is retired."""

Key = tuple[str | None, bytes, str]
"""The upstream's name, the login, and the virtual host."""


class Mirrors:
    """Takes copies for the sessions' own upstream, whose dial goes by None, and for others by their names.

    `logins` are those of the named ones, who enter the client's virtual host where theirs is "". To its own upstream, a
    copy goes as the client itself. For each login at most `backlog` copies wait, for all of them `memory` bytes. `run`
    must be running.
    """

    def __init__(
        self,
        dials: Mapping[str | None, Dial],
        logins: Mapping[str, MirrorLogin],
        backlog: int,
        memory: int,
        dropped: Callable[[DropReason, int], None],
    ) -> None:
        self._dials = dict(dials)
        self._logins = logins
        self._backlog = backlog
        self._memory = MemoryBudget(memory)
        self._drops = MirrorDrops(dropped)
        self._publishers: dict[Key, MirrorPublisher] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send copies, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(supervised, "dropped copies not logged", self._drops.run)
            task_status.started()
            await trio.sleep_forever()

    def replace(self, dials: Mapping[str, Dial], logins: Mapping[str, MirrorLogin]) -> None:
        """Go by other upstreams of those names from here on; what waits for one that is another now is dropped."""
        changed = {name for name in self._dials if name is not None and self._dials[name] is not dials.get(name)}
        own = {name: dial for name, dial in self._dials.items() if name is None}
        self._dials = own | dict(dials.items())
        self._logins = logins
        for key, publisher in list(self._publishers.items()):
            if key[0] in changed:
                del self._publishers[key]
                self._drops.add(key[0], DropReason.UPSTREAM, "the upstream has changed", publisher.waiting)
                publisher.retire()

    def put(self, copy: MirroredCopy, client: MirrorLogin) -> None:
        """Send a copy of what `client` has published; nothing waits for it."""
        name = copy.upstream
        dial = self._dials.get(name)
        if dial is None or self._nursery is None:
            self._drops.add(name, DropReason.UPSTREAM, "there is no such upstream" if dial is None else "not running")
            return
        login = client
        if name is not None:
            login = self._logins[name]
            login = login if login.vhost else login._replace(vhost=client.vhost)
        key = (name, login.start.response, login.vhost)
        publisher = self._publishers.get(key)
        if publisher is None or publisher.is_retired:
            if not self._make_room():
                self._drops.add(
                    name, DropReason.LOGINS, f"copies are waiting for {MAX_MIRROR_PUBLISHERS} logins already"
                )
                return
            publisher = MirrorPublisher(dial, login, self._backlog, self._memory, self._drops, name)
            self._publishers[key] = publisher
            self._nursery.start_soon(supervised, "mirror failed", self._serve, key, publisher)
        publisher.put(copy.command)

    def _make_room(self) -> bool:
        """Make room for one more login; False when all of those that there are have something to send."""
        if len(self._publishers) < MAX_MIRROR_PUBLISHERS:
            return True
        idle = [(publisher.used_at, key) for key, publisher in self._publishers.items() if publisher.is_idle]
        if not idle:
            return False
        _, key = min(idle, key=lambda each: each[0])
        self._publishers.pop(key).retire()
        return True

    async def _serve(self, key: Key, publisher: MirrorPublisher) -> None:
        """Have a copyist send until it is retired."""
        with contained("mirror failed", upstream=key[0]):
            await publisher.run()
        if self._publishers.get(key) is publisher:
            del self._publishers[key]
