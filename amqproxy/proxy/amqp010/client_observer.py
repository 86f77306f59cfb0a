"""Observes what the client of a session of AMQP 0-10 asks for, and the broker completes."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import Method
from amqproxy.conversion.command_view import view_channel
from amqproxy.peer import Peer
from amqproxy.proxy.session.passage import Passage
from amqproxy.taps.topology.asked_command import OBSERVED_COMMANDS, AskedCommand
from amqproxy.taps.topology.client_requests import ChannelView, ClientRequests
from amqproxy.taps.topology.observed_objects import Actor, Observation
from amqproxy.taps.topology.observed_topology import ObservedTopology


class Amqp010ClientObserver:
    """Is shown commands by the meter of a session, `number` and `name`.

    It is there for as long as the meter, whoever relays. What is known of the client comes from the `passage`; while
    that is None, since the session is parked, it is what was known before.
    """

    __slots__ = ("_name", "_number", "_passage", "_requests", "_shown_vhost", "_topology", "_user", "_vhost")

    def __init__(self, topology: ObservedTopology, number: int, name: str) -> None:
        self._topology = topology
        self._number = number
        self._name = name
        self._user = self._vhost = self._shown_vhost = ""
        self._passage: Passage | None = None
        self._requests: ClientRequests | None = None

    @property
    def channels(self) -> Mapping[int, ChannelView]:
        """The consumers of each session, by the number of its channel; those without any may be left out."""
        return {} if self._requests is None else self._requests.channels

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
            self._vhost, self._shown_vhost, self._user = map(sys.intern, (known.vhost, shown.vhost, shown.user))

    # --- as a `RequestObserver`

    def ask(self, channel: int, command: Amqp010Method, size: int) -> AskedCommand | None:
        """The client has sent a command of `size` bytes: what is to be known of its end."""
        if not isinstance(command, OBSERVED_COMMANDS):
            return None
        if self._requests is None:
            self._requests = ClientRequests(self._topology)
        return AskedCommand.of(self._requests, self, channel, command, size)

    def end_session(self, channel: int) -> None:
        """The client is attached no more to the session on a channel."""
        if self._requests is not None:
            self._requests.end_session(self, channel)

    # --- as an `ObservedClient`

    def observation(self) -> Observation:
        """Where, by whom and when something is observed just now."""
        self._know()
        return Observation(
            self._vhost, self._shown_vhost, Actor(self._number, self._user, self._name.partition("-")[0]), time.time()
        )

    def cover(self, sender: Peer, channel: int, method: Method) -> Method | None:
        """A method as people may see it; None: not at all."""
        if self._passage is None:
            return method
        command = self._passage.covered_method(sender, Command(view_channel(channel), method))
        return None if command is None else command.method
