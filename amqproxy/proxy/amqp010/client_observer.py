"""Observer of a 0-10 client's commands and their completion by the broker."""

from __future__ import annotations

import sys
import time

from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import Method
from amqproxy.conversion.amqp010.command_view import view_channel
from amqproxy.peer import Peer
from amqproxy.proxy.session.passage import Passage
from amqproxy.taps.topology.amqp010.asked_command import OBSERVED_COMMANDS, AskedCommand
from amqproxy.taps.topology.client_requests import ClientRequests
from amqproxy.taps.topology.observed_objects import Actor, Observation
from amqproxy.taps.topology.observed_topology import ObservedTopology


class Amqp010ClientObserver:
    """Observer of the commands that the meter of a session sees; `number` and `name` are the session's.

    It lives as long as the meter, whether relays or a pump have the connection. The client is known from the `passage`;
    while that is `None`, since the session is parked, the observer uses what it knew before.
    """

    __slots__ = (
        "_name",
        "_number",
        "_passage",
        "_requests",
        "_shown_vhost",
        "_topology",
        "_upstream",
        "_user",
        "_vhost",
    )

    def __init__(self, topology: ObservedTopology, number: int, name: str) -> None:
        self._topology = topology
        self._number = number
        self._name = name
        self._user = self._vhost = self._shown_vhost = self._upstream = ""
        self._passage: Passage | None = None
        self._requests: ClientRequests | None = None

    @property
    def requests(self) -> ClientRequests | None:
        """Requests of the client; `None` if it has sent none."""
        return self._requests

    @property
    def passage(self) -> Passage | None:
        return self._passage

    @passage.setter
    def passage(self, passage: Passage | None) -> None:
        self._know()
        self._passage = passage

    def _know(self) -> None:
        if self._passage is not None:
            known, shown = self._passage.client, self._passage.shown_client
            # connections may be many, and their users few
            names = known.vhost, shown.vhost, shown.user, shown.upstream
            self._vhost, self._shown_vhost, self._user, self._upstream = map(sys.intern, names)

    # --- `RequestObserver` interface

    def ask(self, channel: int, command: Amqp010Method, size: int) -> AskedCommand | None:
        """Return a record of a command of `size` bytes that awaits its completion; `None` if it is not observed."""
        if not isinstance(command, OBSERVED_COMMANDS):
            return None
        if self._requests is None:
            self._requests = ClientRequests(self._topology)
        return AskedCommand.of(self._requests, self, channel, command, size)

    def end_session(self, channel: int) -> None:
        """End the client's session on a channel."""
        if self._requests is not None:
            self._requests.end_session(self, channel)

    # --- `ObservedClient` interface

    def observation(self) -> Observation:
        """Return the virtual host, the actor and the time of a command being observed."""
        self._know()
        actor = Actor(self._number, self._user, self._name.partition("-")[0], self._upstream)
        return Observation(self._vhost, self._shown_vhost, actor, time.time())

    def cover(self, sender: Peer, channel: int, method: Method) -> Method | None:
        """Return a method as people may see it, redacted; `None` if it may not be shown at all."""
        if self._passage is None:
            return method
        command = self._passage.covered_method(sender, Command(view_channel(channel), method))
        return None if command is None else command.method
