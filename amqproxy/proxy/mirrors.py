"""Where copies of publishes go: a `Copyist` for each broker and login that they are sent with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import trio

from amqproxy.proxy.copy_drops import CopyDrops, DropReason
from amqproxy.proxy.copyist import Copyist, Login
from amqproxy.proxy.memory import Memory
from amqproxy.rules.verdict import MirroredCopy
from amqproxy.sockets.transport import Transport
from amqproxy.supervision import contained, supervised

Dial = Callable[[], Awaitable[Transport]]

MAX_COPYISTS = 64
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
        logins: Mapping[str, Login],
        backlog: int,
        memory: int,
        dropped: Callable[[DropReason, int], None],
    ) -> None:
        self._dials = dict(dials)
        self._logins = logins
        self._backlog = backlog
        self._memory = Memory(memory)
        self._drops = CopyDrops(dropped)
        self._copyists: dict[Key, Copyist] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send copies, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(supervised, "dropped copies not logged", self._drops.run)
            task_status.started()
            await trio.sleep_forever()

    def replace(self, dials: Mapping[str, Dial], logins: Mapping[str, Login]) -> None:
        """Go by other upstreams of those names from here on; what waits for one that is another now is dropped."""
        changed = {name for name in self._dials if name is not None and self._dials[name] is not dials.get(name)}
        own = {name: dial for name, dial in self._dials.items() if name is None}
        self._dials = own | dict(dials.items())
        self._logins = logins
        for key, copyist in list(self._copyists.items()):
            if key[0] in changed:
                del self._copyists[key]
                self._drops.add(key[0], DropReason.UPSTREAM, "the upstream has changed", copyist.waiting)
                copyist.retire()

    def put(self, copy: MirroredCopy, client: Login) -> None:
        """Send a copy of what `client` has published; nobody waits for it."""
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
        copyist = self._copyists.get(key)
        if copyist is None or copyist.is_retired:
            if not self._make_room():
                self._drops.add(name, DropReason.LOGINS, f"copies are waiting for {MAX_COPYISTS} logins already")
                return
            copyist = Copyist(dial, login, self._backlog, self._memory, self._drops, name)
            self._copyists[key] = copyist
            self._nursery.start_soon(supervised, "mirror failed", self._serve, key, copyist)
        copyist.put(copy.command)

    def _make_room(self) -> bool:
        """Make room for one more login; False when all of those that there are have something to send."""
        if len(self._copyists) < MAX_COPYISTS:
            return True
        idle = [(copyist.used_at, key) for key, copyist in self._copyists.items() if copyist.is_idle]
        if not idle:
            return False
        _, key = min(idle, key=lambda each: each[0])
        self._copyists.pop(key).retire()
        return True

    async def _serve(self, key: Key, copyist: Copyist) -> None:
        """Have a copyist send until it is retired."""
        with contained("mirror failed", upstream=key[0]):
            await copyist.run()
        if self._copyists.get(key) is copyist:
            del self._copyists[key]
