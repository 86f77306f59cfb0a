"""A session between a client and a broker that the test plays from a script.

    >> connection.open      the client sends it, and the broker must receive just that
    << connection.open-ok   the other way round
    client: connection.close 320, EOF
                            what the client must have seen since it was last looked at; a `>>` or `<<`
                            that such lines follow is checked by them alone

Besides the words of `tests.transcripts.words`, a script knows `EOF` (a half closed, in good order), `RST` (sent: the
connection is reset; seen: it was) and `nothing`.
"""

import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import trio
from trio.testing import wait_all_tasks_blocked

from amqproxy.configuration.config import Limits, Unread
from amqproxy.proxy.dialects import DIALECTS
from amqproxy.proxy.logins.credential import CredentialSource
from amqproxy.proxy.logins.login_check import Login
from amqproxy.proxy.memory_budget import MemoryBudget
from amqproxy.proxy.session.session import Session
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.tap_budget import TapBudget
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.proxy.upstreams.reach import reach_by
from amqproxy.pump.pumps import Pumps
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.sockets.transport import SocketTransport, Transport
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.tap import Tap
from amqproxy.taps.topology.observed_topology import ObservedTopology
from tests.pump.rig import new_pumps
from tests.transcripts.words import octets, words

HANDSHAKE = """
    >> header
    << connection.start
    >> connection.start-ok
    << connection.tune
    >> connection.tune-ok, connection.open
    << connection.open-ok
"""
OPEN = f"""
    {HANDSHAKE}
    >> 1: channel.open
    << 1: channel.open-ok
    >> 2: channel.open
    << 2: channel.open-ok
"""


CUSHION = 0.01
"""Seconds in which loopback TCP surely gets bytes across; a socketpair needs none."""


def connected(*, tcp: bool = False) -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection, non-blocking. Only TCP knows RST."""
    if tcp:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ends = (socket.create_connection(listener.getsockname()), listener.accept()[0])
        for end in ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    return ends


class Actor:
    """The client or the broker: its end of a connection to the proxy."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.cushion = CUSHION if end.family == socket.AF_INET else 0.0
        self.said = bytearray()
        self.seen = bytearray()
        self.ending = ""
        self._looked_at = 0

    def say(self, data: bytes) -> None:
        """Send it all, which the socket must have room for."""
        self.said += data
        assert self.socket.send(data) == len(data)

    def perform(self, what: str) -> None:
        """Send what a line of a script contains."""
        for words_ in (each.strip() for each in what.split(",")):
            if words_ == "EOF":
                self.socket.shutdown(socket.SHUT_WR)
            elif words_ == "RST":
                self.reset()
            else:
                self.said += octets(words_)
                self.socket.send(octets(words_))

    def reset(self) -> None:
        """Tear the connection down."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def look(self) -> bytes:
        """Read what there is; what came since the last look."""
        while self.socket.fileno() >= 0 and not self.ending:
            try:
                data = self.socket.recv(65536)
            except BlockingIOError:
                break
            except ConnectionResetError:
                self.ending = "RST"
                break
            if not data:
                self.ending = "EOF"
            self.seen += data
        new = bytes(self.seen[self._looked_at :])
        self._looked_at = len(self.seen)
        return new

    async def sees(self) -> str:
        """In words, what came since the last look, and the end if it has."""
        had_ended = bool(self.ending)
        new = b""
        while True:
            await wait_all_tasks_blocked(self.cushion)
            more = self.look()
            if not more:
                break
            new += more
        seen = [words(new)] if new else []
        if self.ending and not had_ended:
            seen.append(self.ending)
        return ", ".join(seen) or "nothing"


standing_rules: RuleSet | None = None
"""The rules of sessions that are given none."""


frames_a_pump: int = int(os.environ.get("AMQPROXY_TEST_PUMP", "0"))
"""Frames after which a connection changes its owner, from the relays to a pump and back, all the time; 0: never; -1:
an idle pump has it while it is idle.

The pump has no thread: the event loop turns it, so that a script knows when nothing more is to be done.
"""


class Stage:
    """A session, its two ends, and what is counted of it."""

    client: Actor
    broker: Actor

    def __init__(
        self,
        limits: Limits | None = None,
        tap: Tap | None = None,
        dial: Callable[[], Awaitable[Transport]] | None = None,
        tcp: bool = False,
        transport: Callable[[socket.socket], Transport] = SocketTransport,
        rules: RuleSet | None = None,
        unread: Unread = None,
        login: Login | None = None,
        credentials: CredentialSource | None = None,
        memory: MemoryBudget | None = None,
        topology: ObservedTopology | None = None,
        tap_budget: TapBudget | None = None,
        brake: TapBrake | None = None,
        pumps: Pumps | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self._has_own_pumps = pumps is None
        self.pumps = pumps
        if pumps is None and frames_a_pump:
            self.pumps = (
                new_pumps(0, self.metrics, most_frames=frames_a_pump, first_chunks=1, most_chunks=1)
                if frames_a_pump > 0
                else new_pumps(0, self.metrics, is_idle_only=True)
            )
        self._tcp = tcp
        self._transport = transport
        client, accepted = connected(tcp=tcp)
        self.client = Actor(client)
        self._ours = [accepted]
        self.session = Session(
            1,
            transport(accepted),
            "c:1-p:2",
            reach_by(dial or self._dial, credentials),
            SessionServices(
                self.limits,
                self.metrics,
                memory=memory,
                topology=topology,
                tap_budget=tap_budget,
                brake=brake,
                pumps=self.pumps,
            ),
            DIALECTS,
            tap,
            rules=rules or standing_rules,
            unread=unread,
            login=login,
            resume=lambda session: self._resumed.set(),
        )
        self._resumed = trio.Event()
        self.is_over = trio.Event()

    async def _dial(self) -> Transport:
        broker, dialled = connected(tcp=self._tcp)
        self.broker = Actor(broker)
        self._ours.append(dialled)
        return self._transport(dialled)

    async def run(self) -> None:
        if self.pumps is None:
            await self.session.run()
        elif not self._has_own_pumps:
            await self._run()
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.pumps.run)
                await self._run()
                nursery.cancel_scope.cancel()
            assert self.pumps.connections == 0
        self.is_over.set()

    async def _run(self) -> None:
        """Run the session, and again each time that it has been parked."""
        try:
            while True:
                await self.session.run()
                if self.session.is_over:
                    break
                await self._resumed.wait()
                self._resumed = trio.Event()
        finally:
            self.session.recall()
            await self.session.run()

    def silent(self, now: float) -> list[Session]:
        """The session, where it is parked and a peer has been silent for too long."""
        return [] if self.pumps is None or not self.pumps.silent(now) else [self.session]

    async def play(self, script: str) -> None:
        """Perform a script, and check it line by line."""
        lines = [line.strip() for line in script.splitlines() if line.strip()]
        for line, following in pairwise([*lines, ""]):
            await self._play(line, is_checked_by=following)

    async def _play(self, line: str, is_checked_by: str) -> None:
        actor, _, what = line.partition(" ")
        await wait_all_tasks_blocked()
        if actor in ("client:", "broker:"):
            seen = await (self.client if actor == "client:" else self.broker).sees()
            assert f"{actor} {seen}" == line
            return
        speaker, receiver = (self.client, "broker") if actor == ">>" else (self.broker, "client")
        speaker.perform(what)
        await wait_all_tasks_blocked(speaker.cushion)
        if not is_checked_by.startswith(("client:", "broker:")):
            await self._play(f"{receiver}: {what}", "")

    @property
    def is_closed(self) -> bool:
        """Has the proxy closed both of its sockets?"""
        return all(end.fileno() == -1 for end in self._ours)

    def count(self, name: str, **labels: str) -> float:
        """The value of a metric; 0 when it has none."""
        return self.metrics.registry.get_sample_value(f"amqproxy_{name}", labels) or 0

    @property
    def end(self) -> tuple[str, str]:
        """Who closed, and with which code, as counted."""
        closes = [
            (sample.labels["by"], sample.labels["code"])
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "amqproxy_connection_closes_total"
        ]
        assert len(closes) == 1
        return closes[0]


@asynccontextmanager
async def staged(
    script: str = "",
    *,
    limits: Limits | None = None,
    tap: Tap | None = None,
    dial: Callable[[], Awaitable[Transport]] | None = None,
    tcp: bool = False,
    transport: Callable[[socket.socket], Transport] = SocketTransport,
    rules: RuleSet | None = None,
    unread: Unread = None,
    login: Login | None = None,
    credentials: CredentialSource | None = None,
    memory: MemoryBudget | None = None,
    topology: ObservedTopology | None = None,
    tap_budget: TapBudget | None = None,
    brake: TapBrake | None = None,
    pumps: Pumps | None = None,
) -> AsyncIterator[Stage]:
    """A session that has come as far as the script; it must be over when the block ends, or it is cancelled.

    However it ends, nothing may be left of it. It may share `pumps` with others; else it has its own.
    """
    stage = Stage(
        limits, tap, dial, tcp, transport, rules, unread, login, credentials, memory, topology, tap_budget, brake, pumps
    )
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.run)
            await wait_all_tasks_blocked()
            await stage.play(script)
            yield stage
            nursery.cancel_scope.cancel()
    finally:
        stage.client.socket.close()
        if hasattr(stage, "broker"):
            stage.broker.socket.close()
    assert stage.count("channels") == 0
    assert stage.is_closed
