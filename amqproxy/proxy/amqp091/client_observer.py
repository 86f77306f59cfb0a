"""Observer of a client's requests and the replies to them."""

from __future__ import annotations

import time

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.transitions import Peer
from amqproxy.proxy.amqp091.watched_connection import WatchedConnection
from amqproxy.proxy.session.passage import Passage
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.taps.topology.client_requests import ClientRequests
from amqproxy.taps.topology.observed_objects import Actor, Observation
from amqproxy.taps.topology.observed_topology import ObservedTopology


class ClientObserver:
    """Observer of the methods taken by the client leg's `connection`, redacted by the `passage`.

    Without a `topology`, it has no effect. Failures are logged and do not affect the session.
    """

    __slots__ = ("_connection", "_report", "_requests", "_shown", "_topology", "passage")

    def __init__(
        self, connection: Connection, passage: Passage, report: SessionReport, topology: ObservedTopology | None
    ) -> None:
        self._connection = connection
        self.passage: Passage | None = passage
        self._report = report
        self._shown: tuple[str, Actor] | None = None
        self._topology = topology
        self._requests: ClientRequests | None = None
        if topology is not None and isinstance(connection, WatchedConnection):
            connection.on_method = self._take

    def forget(self) -> None:
        """Discard the cached redacted client, since the rules that redact have changed."""
        self._shown = None

    @property
    def requests(self) -> ClientRequests | None:
        """Requests of the client, if any, with which a later observer of the same client continues."""
        return self._requests

    def go_on_with(self, requests: ClientRequests | None) -> None:
        """Continue from the requests of an earlier observer."""
        self._requests = requests

    def let_go(self) -> None:
        """Stop observing and release all references."""
        self.passage = None
        if isinstance(self._connection, WatchedConnection):
            self._connection.on_method = None

    def end(self) -> None:
        """Count the client's declarations as gone, and stop observing."""
        if self._requests is not None:
            with self._report.contained("end not observed"):
                self._requests.end(self)
        self.let_go()

    def _take(self, sender: Peer, frame: Frame) -> None:
        if self._requests is None:
            assert self._topology is not None
            self._requests = ClientRequests(self._topology)
        with self._report.contained("request not observed"):
            self._requests.take(self, sender, frame.channel, frame.method, frame.size)

    # --- `ObservedClient` interface

    def observation(self) -> Observation:
        """Return the virtual host, the actor and the time of a method being observed."""
        if self._shown is None:
            assert self.passage is not None
            client = self.passage.shown_client
            actor = Actor(self._report.number, client.user, self._report.name.partition("-")[0], client.upstream)
            self._shown = client.vhost, actor
        return Observation(self._connection.virtual_host, *self._shown, time.time())

    def cover(self, sender: Peer, channel: int, method: Method) -> Method | None:
        """Return a method as people may see it, redacted; `None` if it may not be shown at all."""
        assert self.passage is not None
        command = self.passage.covered_method(sender, Command(channel, method))
        return None if command is None else command.method
