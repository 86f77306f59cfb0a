"""Where copies of publishes go: a `Copyist` for each broker and login that they are sent with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import trio

from amqproxy.proxy.copyist import Copyist, Login
from amqproxy.rules.verdict import Mirrored
from amqproxy.sockets.transport import Transport

Dial = Callable[[], Awaitable[Transport]]

MAX_COPYISTS = 64
"""Brokers and logins at a time; copies for more are dropped."""


class Mirrors:
    """Takes copies for the sessions' own upstream, whose dial goes by None, and for others by their names.

    `logins` are those of the named ones, who enter the client's virtual host where theirs is "". To its own upstream, a
    copy goes as the client itself. `run` must be running.
    """

    def __init__(
        self,
        dials: Mapping[str | None, Dial],
        logins: Mapping[str, Login],
        backlog: int,
        dropped: Callable[[int], None],
    ) -> None:
        self._dials = dials
        self._logins = logins
        self._backlog = backlog
        self._dropped = dropped
        self._copyists: dict[tuple[str | None, bytes, str], Copyist] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send copies, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    def put(self, copy: Mirrored, client: Login) -> None:
        """Send a copy of what `client` has published; nobody waits for it."""
        name = copy.upstream
        dial = self._dials.get(name)
        if dial is None or self._nursery is None:
            self._dropped(1)
            return
        login = client
        if name is not None:
            login = self._logins[name]
            login = login if login.vhost else login._replace(vhost=client.vhost)
        key = (name, login.start.response, login.vhost)
        copyist = self._copyists.get(key)
        if copyist is None:
            if len(self._copyists) >= MAX_COPYISTS:
                self._dropped(1)
                return
            copyist = self._copyists[key] = Copyist(dial, login, self._backlog, self._dropped)
            self._nursery.start_soon(copyist.run)
        copyist.put(copy.command)
