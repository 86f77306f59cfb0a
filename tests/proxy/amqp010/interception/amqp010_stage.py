"""Two legs of AMQP 0-10 with an interceptor between them, whose rules are as in a config.

`Amqp010Stage.say` has lines of a transcript sent (see `tests.amqp010.transcript`), and returns what each peer gets for
them, in the same words: `=>` the broker, `<=` the client.
"""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.interception.interceptor import Amqp010Interceptor
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.proxy.amqp010.traffic import Amqp010Traffic
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.proxy.session.closing import Closing
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.metrics import Metrics
from tests.amqp010.transcript import Step, steps_of
from tests.proxy.legs import Script
from tests.rules.scene import rule

OPENING = """
    >> protocol-header
    << protocol-header
    << connection.start mechanisms=PLAIN,EXTERNAL locales=en_US
    >> connection.start-ok mechanism=PLAIN response="\0guest\0guest" locale=en_US
    << connection.tune channel_max=256 max_frame_size=4096 heartbeat_min=0 heartbeat_max=120
    >> connection.tune-ok channel_max=256 max_frame_size=4096 heartbeat=0
    >> connection.open virtual_host=test
    << connection.open-ok
"""

ATTACHING = """
    >> 1 session.attach name_=s
    << 1 session.attached name_=s
    >> 1 session.command-point command_id=0 command_offset=0
    << 1 session.command-point command_id=0 command_offset=0
"""


class Amqp010Stage:
    """`rules` are in TOML. `heard` are the bytes that each peer has been sent; time is that of `now`."""

    def __init__(
        self, *rules: str, opening: str = OPENING + ATTACHING, is_tapped: bool = False, share: MemoryShare | None = None
    ) -> None:
        self.legs = {peer: Connection(initial_frame_max=0) for peer in Peer}
        self.now = 1000.0
        self.ruleset = RuleSet([rule(text) for text in rules])
        self.client = Client(session=7, address="10.0.0.7", port=4711)
        self.interceptor = Amqp010Interceptor(
            self.legs,
            self.ruleset.evaluator(self.client),
            self.client,
            random=lambda: 0.5,
            time=lambda: 1_700_000_000.0,
            is_tapped=is_tapped,
            share=share,
        )
        self.heard = dict.fromkeys(Peer, b"")
        self.closing = Closing({}, SessionReport(7, "10.0.0.7:4711-", Metrics(), None))
        self.is_closing = False
        self._ears = {peer: FrameReader(frame_max=0) for peer in Peer}
        self._assemblies: dict[tuple[Peer, int], AssemblyReader] = {}
        self.opening = self.say(opening)

    def say(self, transcript: str, *, by_byte: bool = False) -> list[str]:
        """Send lines, and return what the peers get."""
        heard: list[str] = []
        for step in steps_of(transcript):
            heard += self._send(step, by_byte)
        return heard

    def _send(self, step: Step, by_byte: bool) -> list[str]:
        if step.is_header:
            for leg in self.legs.values():
                leg.receive_header(step.sender, step.data)
            return []
        return self.feed(step.sender, step.data, by_byte=by_byte)

    def feed(self, sender: Peer, data: bytes, *, by_byte: bool = False) -> list[str]:
        """Send bytes."""
        reader = self.legs[sender].readers[sender]
        for piece in [data[place : place + 1] for place in range(len(data))] if by_byte else [data]:
            frames = reader.feed(piece)
            try:
                self.interceptor.take(sender, frames, self.now)
            except ProtocolError as error:
                self.closing.refuse(sender, error, Amqp010Traffic._as_answered(None, sender, error, None))  # type: ignore[arg-type]
                raise
            assert reader.error is None
        return self.listen()

    def wait(self, seconds: float) -> list[str]:
        """Let time pass."""
        self.now += seconds
        while self.interceptor.next_deadline <= self.now:
            self.interceptor.tick(self.now)
        return self.listen()

    def listen(self) -> list[str]:
        """What the peers have been sent meanwhile."""
        lines: list[str] = []
        for peer in (SERVER, CLIENT):
            lines += self._hear(peer, bytes(self.interceptor.take_output(peer)))
        self._note_end()
        if self.closing._closes and not self.is_closing:
            self.is_closing = True
            for peer in (SERVER, CLIENT):
                leg = Amqp010Leg(peer, Script([]))
                leg.connection = self.legs[peer]
                error = self.closing._closes[peer]
                if leg.takes_close or leg.expects_close(error, self.client):
                    lines += self._hear(peer, leg.close(error))
        return lines

    def _note_end(self) -> None:
        """End the session if the interceptor has refused the connection or failed."""
        if self.interceptor.refusal is not None:
            self.closing.refuse_by_rule(self.interceptor.refusal)
        elif self.interceptor.fault is not None:
            sender, error = self.interceptor.fault.sender, self.interceptor.fault.error
            self.closing.refuse(sender, error, Amqp010Traffic._as_answered(None, sender, error, None))  # type: ignore[arg-type]

    def _hear(self, peer: Peer, data: bytes) -> list[str]:
        lines: list[str] = []
        self.heard[peer] += data
        for frame in self._ears[peer].feed(data):
            assembly = self._assembled(peer, frame)
            if assembly is not None:
                lines.append(f"{'=>' if peer is SERVER else '<='} {described(assembly)}")
        assert self._ears[peer].error is None, self._ears[peer].error
        return lines

    def _assembled(self, peer: Peer, frame: Frame) -> Assembly | None:
        reader = self._assemblies.setdefault((peer, frame.channel), AssemblyReader())
        return reader.add(frame)


def described(assembly: Assembly) -> str:
    """A control or command in the words of a transcript."""
    channel = f"{assembly.channel} " if assembly.channel else ""
    words = [f"{name}={_text(value)}" for name, value in _fields(assembly.method)]
    header = assembly.header
    for entry in header.entries if header is not None else ():
        words += [f"{name}={_text(value)}" for name, value in entry.present().items()]
    if assembly.has_body:
        words.append(f"body={assembly.body.decode('utf-8', 'replace')[:40]}")
    return " ".join([f"{channel}{assembly.method.name}", *words])


def _fields(method: Method) -> Iterable[tuple[str, object]]:
    for field in (*method.fields, *(("sync",) if hasattr(method, "sync") else ())):
        value = getattr(method, field)
        if value is not None and value is not False:
            yield field, value


def _text(value: object) -> str:
    ranges = getattr(value, "ranges", None)
    if ranges is not None:
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is True:
        return "true"
    return str(dict(value)) if hasattr(value, "entries") else str(int(value) if isinstance(value, int) else value)  # type: ignore[call-overload]


def transfer(
    sender: Peer = CLIENT,
    *,
    destination: str = "orders",
    body: bytes | None = b"hello",
    channel: int = 1,
    accept_mode: int = 1,
    sync: bool = False,
    frame_max: int = 4096,
    **properties: object,
) -> bytes:
    """The frames of a message, whose properties go to the struct that has them."""

    of_delivery = {name: value for name, value in properties.items() if name in DeliveryProperties.fields}
    of_message = {name: value for name, value in properties.items() if name in MessageProperties.fields}
    entries: list[object] = []
    if of_delivery:
        entries.append(DeliveryProperties(**of_delivery))  # type: ignore[arg-type]
    if of_message:
        entries.append(MessageProperties(**of_message))  # type: ignore[arg-type]
    header = Header(tuple(entries)) if entries else None
    method = MessageTransfer(destination, accept_mode, 0, sync=sync)
    return Assembly(channel, method, header, body).encode(frame_max)
