"""Answers to requests about a broker that runs by itself: most of a proxy's requests, and those about queues."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from amqproxy import __version__
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.control.broker_control import BrokerControl
from amqproxy.control.broker_entries import (
    chosen_consumers,
    served_channels,
    served_consumers,
    served_entry,
    session_entry,
    topology_entries,
)
from amqproxy.control.dialects import Entry
from amqproxy.control.management.broker_management import BrokerManagement
from amqproxy.control.numbered import numbered_or_all
from amqproxy.control.recording_control import RecordingControl
from amqproxy.control.request import (
    PROTOCOL,
    PROXY_REQUESTS,
    REQUESTS,
    AnyRequest,
    ChangeBroker,
    CloseBrokerConnection,
    CloseSession,
    Hello,
    ListBrokerConnections,
    ListBrokerObjects,
    ListBrokerQueues,
    ListBrokerTransactions,
    ListChannels,
    ListConnections,
    ListConsumers,
    ListSessions,
    LogInToBroker,
    Reload,
    SampleBroker,
    ShowBroker,
    ShowBrokerMessages,
    ShowRecording,
    ShowStats,
    ShowTopology,
    StartRecording,
    StopRecording,
)
from amqproxy.control.request_error import RequestError
from amqproxy.control.request_handler import ListResponse, Response, StreamedList
from amqproxy.control.statistics import Statistics

LACKING = "this is a broker by itself: only a proxy has rules, holds commands and pauses connections"


class ServedBroker(Protocol):
    """The part of a `BrokerServer` that the handler uses."""

    broker: Broker
    served: dict[int, ServedConnection]


class BrokerRequestHandler:
    """Handler of requests about one broker. `reload` rereads the reloadable configuration.

    `time` is the time of day in seconds; `listen` are the addresses where clients connect. `management` answers the
    requests of the management API.
    """

    def __init__(
        self,
        server: ServedBroker,
        reload: Callable[[], Awaitable[None]],
        *,
        time: Callable[[], float],
        statistics: Statistics,
        recording: RecordingControl,
        management: BrokerManagement,
        listen: Sequence[str] = (),
    ) -> None:
        self._server = server
        self._reload = reload
        self._time = time
        self._statistics = statistics
        self._recording = recording
        self._management = management
        self._broker_control = BrokerControl(server.broker)
        self._listen = list(listen)

    async def answered(self, request: AnyRequest) -> Response | ListResponse | StreamedList:
        """Return the response. `RequestError` if the request cannot be carried out, or only by a proxy."""
        match request:
            case Reload():
                await self._reload()
                return {"rules": 0, "restart": []}
            case StartRecording() | StopRecording() | ShowRecording():
                return await self._recording.answer(request)
            case ChangeBroker():
                return await self._management.change(request)
            case LogInToBroker():
                return await self._management.login(request)
            case _:
                return self.answer(request)

    def answer(self, request: AnyRequest) -> Response | ListResponse | StreamedList:
        """Return the response to a request that does not wait for anything. `RequestError` as for `answered`."""
        served = self._server.served
        match request:
            case Hello():
                requests = [name for name in REQUESTS if name not in PROXY_REQUESTS]
                return {"protocol": PROTOCOL, "version": __version__, "requests": requests, "listen": self._listen}
            case ListConnections():
                return ListResponse("connections", map(served_entry, list(served.values())))
            case ListSessions():
                return ListResponse("sessions", map(session_entry, list(served.values())))
            case ListChannels():
                return ListResponse("channels", self._of_each(request.session, served_channels))
            case ListConsumers():
                return ListResponse("consumers", self._of_each(request.session, served_consumers))
            case ShowTopology():
                return ListResponse("topology", self._topology(request.vhost), {"forgotten": 0})
            case ShowStats():
                return ListResponse("metrics", self._statistics.samples(), {"stats": self._statistics.process()})
            case ListBrokerQueues() | ListBrokerConnections() | ListBrokerTransactions() | ShowBrokerMessages():
                return ListResponse(*self._broker_control.entries(request))
            case ListBrokerObjects():
                return StreamedList("objects", self._management.objects(request))
            case SampleBroker():
                return StreamedList("objects", self._management.samples(request))
            case ShowBroker():
                return self._management.facts()
            case CloseSession():
                self._management.close(request.session, request.text, request.channel)
                return {}
            case CloseBrokerConnection():
                self._management.close(request.session, request.text)
                return {}
            case _:
                raise RequestError("not-observable", LACKING)

    def held(self, session: object, number: int, excerpt: int) -> None:
        """Return None: a broker holds no command."""

    def _of_each(
        self, number: int | None, entries: Callable[[ServedConnection], Iterator[Entry]]
    ) -> Iterator[Entry | None]:
        """List the entries of one connection, or of all.

        A None after each connection lets the caller yield: there may be many connections without an entry.
        """
        return _listed(numbered_or_all(self._server.served, number), self._server.served, entries)

    def _topology(self, vhost: str | None) -> Iterator[Entry | None]:
        yield from topology_entries(self._server.broker, vhost, self._time())
        yield from chosen_consumers(list(self._server.served.values()), vhost)


def _listed(
    chosen: Sequence[ServedConnection],
    served: Mapping[int, Any],
    entries: Callable[[ServedConnection], Iterator[Entry]],
) -> Iterator[Entry | None]:
    for each in chosen:
        if each.number in served:
            yield from entries(each)
        yield None
