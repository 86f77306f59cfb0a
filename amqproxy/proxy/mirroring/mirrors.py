"""Routing of copies of publishes to a `MirrorPublisher` for each broker and login."""

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
"""Maximum of brokers and logins at a time; for one more, the publisher that has been idle longest is retired."""

Key = tuple[str | None, bytes, str, str]
"""Name of the upstream, response of the login, virtual host, and address of the client's own upstream."""


class Mirrors:
    """All mirrors of a proxy: those at the sessions' own upstream, whose dial has the key `None`, and named upstreams.

    `own` returns the dial of the upstream at an address, where sessions have several; without it there is only one.

    `logins` are those of the named upstreams; if a login's virtual host is "", the client's is used. At its own
    upstream, a copy is published as the client itself. At most `backlog` copies are queued for each login, and `memory`
    bytes for all of them. `run` must be running.
    """

    def __init__(
        self,
        dials: Mapping[str | None, Dial],
        logins: Mapping[str, MirrorLogin],
        backlog: int,
        memory: int,
        dropped: Callable[[DropReason, int], None],
        own: Callable[[str], Dial | None] | None = None,
    ) -> None:
        self._dials = dict(dials)
        self._logins = logins
        self._backlog = backlog
        self._memory = MemoryBudget(memory)
        self._own = own
        self._drops = MirrorDrops(dropped)
        self._publishers: dict[Key, MirrorPublisher] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send copies until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(supervised, "dropped copies not logged", self._drops.run)
            task_status.started()
            await trio.sleep_forever()

    def replace(self, dials: Mapping[str, Dial], logins: Mapping[str, MirrorLogin]) -> None:
        """Replace the named upstreams; copies queued for an upstream that has changed are dropped."""
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
        """Queue a copy of a publish of `client`, without waiting."""
        name = copy.upstream
        dial = self._dials.get(name) if name is not None or self._own is None else self._own(client.upstream)
        if dial is None or self._nursery is None:
            self._drops.add(name, DropReason.UPSTREAM, "there is no such upstream" if dial is None else "not running")
            return
        login = client
        if name is not None:
            login = self._logins[name]
            login = login if login.vhost else login._replace(vhost=client.vhost)
        key = (name, login.start.response, login.vhost, login.upstream)
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
        """Make room for one more login; return false if every publisher has copies queued."""
        if len(self._publishers) < MAX_MIRROR_PUBLISHERS:
            return True
        idle = [(publisher.used_at, key) for key, publisher in self._publishers.items() if publisher.is_idle]
        if not idle:
            return False
        _, key = min(idle, key=lambda each: each[0])
        self._publishers.pop(key).retire()
        return True

    async def _serve(self, key: Key, publisher: MirrorPublisher) -> None:
        """Run a publisher until it is retired."""
        with contained("mirror failed", upstream=key[0]):
            await publisher.run()
        if self._publishers.get(key) is publisher:
            del self._publishers[key]
