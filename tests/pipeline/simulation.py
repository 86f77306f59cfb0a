"""Captures of clients and a broker that are made up, with the truth about each message and delivery.

A simulation is what a seed makes of it: connections with channels that publish with confirms, in transactions or
without, that consume, get, acknowledge one or several, refuse, requeue and recover; that are closed and opened again,
cut, or lose bytes; with contents of several channels interleaved. All of it goes through one broker, whose queues
deliver in order, so that messages cross connections. Connections are recorded on hosts, each with a clock and files of
its own. `Simulation.run` writes them and gathers the truth.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.wire import Table
from amqproxy.capture import pcapng_writer
from amqproxy.capture.endpoints import Endpoint
from amqproxy.capture.synthetic_tcp import CLIENT, SERVER, SyntheticTCP

START_NS = 1_700_000_000_000_000_000
PAUSE_NS = 1_500_000_000_000
FRAME_MAX = 4096
"""Small, so that some bodies have several frames."""
USERS = ("ann", "bob", "eve")
NOWHERE = "nowhere"
"""The routing key that no queue is bound with."""


class Published(msgspec.Struct):
    """The truth about a publish."""

    connection: str
    channel: int
    ts_ns: int
    exchange: str
    routing_key: str
    message_id: str | None
    size: int
    outcome: str = "open"
    settled_ns: int | None = None
    is_returned: bool = False

    @property
    def latency_ns(self) -> int | None:
        return None if self.settled_ns is None else self.settled_ns - self.ts_ns


class Delivered(msgspec.Struct):
    """The truth about a delivery, and about the publish that it came from, if that was captured."""

    connection: str
    channel: int
    ts_ns: int
    kind: Literal["deliver", "get"]
    queue: str
    redelivered: bool
    published: Published | None
    message: Message
    outcome: str = "open"
    settled_ns: int | None = None
    requeue: bool | None = None

    @property
    def latency_ns(self) -> int | None:
        return None if self.settled_ns is None else self.settled_ns - self.ts_ns


class Message(msgspec.Struct):
    """What a queue holds."""

    published: Published | None
    exchange: str
    routing_key: str
    properties: Properties
    body: bytes
    redelivered: bool = False


class Truth(msgspec.Struct):
    """All that happened; times are those of the clocks of hosts."""

    ahead_ns: dict[str, int] = {}
    """Nanoseconds by which the clock of each connection's host is ahead."""
    published: list[Published] = []
    delivered: list[Delivered] = []
    waiting: dict[str, int] = {}
    """Number of messages in each queue at the end."""
    frames: int = 0
    connections: int = 0
    channels: int = 0


class _Channel:
    def __init__(self, number: int, role: str) -> None:
        self.number = number
        self.role = role
        self.published = 0
        self.before = 0
        """Publishes before confirm.select."""
        self.unconfirmed: dict[int, Published] = {}
        self.in_transaction: list[tuple[Published, Message]] = []
        self.last_tag = 0
        self.unacked: dict[int, Delivered] = {}
        self.queue = ""


class Host:
    """Records some of the connections, by a clock that is `ahead_ns`, in files of `packets` each, as tcpdump does.

    The first `missed` packets passed before it began.
    """

    def __init__(self, file: BinaryIO | Path, *, ahead_ns: int = 0, packets: int = 1 << 60, missed: int = 0) -> None:
        self.ahead_ns = ahead_ns
        self.files: list[Path] = []
        self._path = file if isinstance(file, Path) else None
        self._file = None if isinstance(file, Path) else file
        self._packets, self._missed, self._count = packets, missed, 0

    def write(self, packet: bytes) -> None:
        self._missed -= 1
        if self._missed >= 0:
            return
        if self._path is not None and self._count % self._packets == 0:
            self.close()
            self.files.append(self._path.with_name(f"{self._path.name}{len(self.files) or ''}"))
            self._file = self.files[-1].open("wb")
            begin(self._file)
        assert self._file is not None
        self._file.write(packet)
        self._count += 1

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def begin(file: BinaryIO) -> None:
    """Write what a pcapng file begins with."""
    file.write(pcapng_writer.section_header(program="tests"))
    file.write(pcapng_writer.interface_description("made up", "tests.pipeline.simulation"))


class _Connection:
    def __init__(self, host: Host, number: int) -> None:
        self.host = host
        ends = Endpoint(bytes((10, 0, number >> 8 & 255, number & 255)), 40_000 + number % 20_000), _SERVER
        self.name = f"{ends[0]}-{ends[1]}"
        self.tcp = SyntheticTCP(*ends, number * 7919)
        self.channels: dict[int, _Channel] = {}
        self.user = USERS[number % len(USERS)]
        self.has_lost = False


_SERVER = Endpoint(bytes((10, 1, 0, 1)), 5672)

ROLES = ("confirm", "confirm", "plain", "tx", "consumer", "consumer", "no-ack", "getter")


class Simulation:
    """Some connections and `steps` of what clients do, decided by `seed`, recorded by `hosts`, one after the other."""

    def __init__(self, seed: int, *hosts: Host, first: int = 0, connections: int = 4, start_ns: int = START_NS) -> None:
        self.random = random.Random(seed)
        self.hosts = hosts
        self.now_ns = start_ns
        self.truth = Truth()
        self.first = self.next = first
        self.most = connections
        self.prefix = f"{first}."
        self.connections: list[_Connection] = []
        self.queues: dict[str, deque[Message]] = {f"{self.prefix}q{n}": deque() for n in range(3)}
        self.options = [pcapng_writer.packet_options(side) for side in (pcapng_writer.INBOUND, pcapng_writer.OUTBOUND)]
        self.count = 0

    def run(self, steps: int, *, pauses: Sequence[int] = ()) -> Truth:
        """Make so many steps, and end half of the connections in order; the others are cut.

        Before the steps `pauses` nothing happens for `PAUSE_NS`.
        """
        for step in range(steps):
            if step in pauses:
                self.now_ns += PAUSE_NS
            while len(self.connections) < self.most:
                self.connect()
            connection = self.random.choice(self.connections)
            self.step(connection)
        for connection in list(self.connections):
            self.random.choice((self.close, self.cut))(connection)
        self.truth.waiting = {name: len(queue) for name, queue in self.queues.items()}
        return self.truth

    # --- packets

    def tick(self) -> int:
        self.now_ns += self.random.randrange(1_000, 3_000_000)
        return self.now_ns

    def write(self, connection: _Connection, packets: list[tuple[int, bytes]], data: bytes = b"") -> None:
        for side, header in packets:
            now_ns = self.now_ns + connection.host.ahead_ns
            connection.host.write(b"".join(pcapng_writer.packet(0, now_ns, header, data, 0, self.options[side])))

    def send(self, connection: _Connection, side: int, *frames: bytes) -> int:
        """One packet; its time by the host's clock."""
        now = self.tick() + connection.host.ahead_ns
        data = b"".join(frames)
        self.truth.frames += sum(map(_count_frames, frames))
        self.write(connection, [(side, connection.tcp.data(side, len(data)))], data)
        return now

    def ask(self, connection: _Connection, channel: int, request: Method, reply: Method) -> tuple[int, int]:
        """A request of the client's and its reply; their times."""
        asked = self.send(connection, CLIENT, encode_method(channel, request))
        return asked, self.send(connection, SERVER, encode_method(channel, reply))

    # --- connections and channels

    def connect(self) -> None:
        connection = _Connection(self.hosts[self.next % len(self.hosts)], self.next)
        self.truth.ahead_ns[connection.name] = connection.host.ahead_ns
        self.next += 1
        self.truth.connections += 1
        self.tick()
        self.write(connection, connection.tcp.handshake())
        self.send(connection, CLIENT, HEADER)
        self.truth.frames -= 1
        self.send(connection, SERVER, encode_method(0, ConnectionStart(mechanisms=b"PLAIN")))
        named = ConnectionStartOk(
            client_properties=Table({"connection_name": f"app-{connection.user}", "product": "made up"}),
            response=f"\0{connection.user}\0secret".encode(),
        )
        self.send(connection, CLIENT, encode_method(0, named))
        self.send(connection, SERVER, encode_method(0, ConnectionTune(2047, FRAME_MAX, 60)))
        tuned = encode_method(0, ConnectionTuneOk(2047, FRAME_MAX, 60))
        self.send(connection, CLIENT, tuned, encode_method(0, ConnectionOpen("/")))
        self.send(connection, SERVER, encode_method(0, ConnectionOpenOk()))
        self.connections.append(connection)
        for _ in range(self.random.randint(1, 4)):
            self.open_channel(connection)

    def open_channel(self, connection: _Connection) -> None:
        number = next(each for each in range(1, 99) if each not in connection.channels)
        channel = _Channel(number, self.random.choice(ROLES))
        self.ask(connection, number, ChannelOpen(), ChannelOpenOk())
        self.truth.channels += 1
        connection.channels[number] = channel
        if channel.role == "confirm":
            if self.random.random() < 0.2:
                self.publish(connection, [channel], is_confirmed=False)
                channel.before = 1
            self.ask(connection, number, ConfirmSelect(), ConfirmSelectOk())
        elif channel.role == "tx":
            self.ask(connection, number, TxSelect(), TxSelectOk())
        elif channel.role in ("consumer", "no-ack"):
            channel.queue = self.random.choice(list(self.queues))
            self.ask(connection, number, BasicQos(prefetch_count=7), BasicQosOk())
            is_unacked = channel.role == "no-ack"
            consume = BasicConsume(queue=channel.queue, consumer_tag="c", no_ack=is_unacked)
            self.ask(connection, number, consume, BasicConsumeOk("c"))

    def close_channel(self, connection: _Connection, channel: _Channel) -> None:
        if self.random.random() < 0.5:
            self.ask(connection, channel.number, ChannelClose(200, "bye"), ChannelCloseOk())
        else:
            error = ChannelClose(406, "PRECONDITION_FAILED - made up")
            self.send(connection, SERVER, encode_method(channel.number, error))
            self.send(connection, CLIENT, encode_method(channel.number, ChannelCloseOk()))
        self.end_channel(connection, channel)

    def end_channel(self, connection: _Connection, channel: _Channel) -> None:
        """What is open stays so, and the queues get back what was delivered."""
        del connection.channels[channel.number]
        outcome = "unknown" if connection.has_lost else "open"
        for published in (*channel.unconfirmed.values(), *(each for each, _ in channel.in_transaction)):
            published.outcome = outcome
        for delivered in channel.unacked.values():
            delivered.outcome = outcome
        self.requeue(channel.unacked.values())
        channel.unacked.clear()

    def close(self, connection: _Connection) -> None:
        self.ask(connection, 0, ConnectionClose(200, "bye"), ConnectionCloseOk())
        self.tick()
        self.write(connection, connection.tcp.close(CLIENT))
        self.end(connection)

    def cut(self, connection: _Connection) -> None:
        self.tick()
        self.write(connection, connection.tcp.reset(self.random.choice((CLIENT, SERVER))))
        self.end(connection)

    def end(self, connection: _Connection) -> None:
        for channel in list(connection.channels.values()):
            self.end_channel(connection, channel)
        self.connections.remove(connection)

    def lose(self, connection: _Connection) -> None:
        """Bytes are not captured: what is open on the connection is unknown from now on; it ends soon."""
        side = self.random.choice((CLIENT, SERVER))
        self.tick()
        connection.tcp.skip(side, self.random.randint(1, 5000))
        self.send(connection, side, encode_method(0, ConnectionClose(320, "made up")))
        connection.has_lost = True
        self.cut(connection)

    # --- steps

    def step(self, connection: _Connection) -> None:
        draw = self.random.random()
        if draw < 0.004:
            self.random.choice((self.close, self.cut, self.lose))(connection)
        elif draw < 0.01 and connection.channels:
            self.close_channel(connection, self.random.choice(list(connection.channels.values())))
        elif draw < 0.02 or not connection.channels:
            self.open_channel(connection)
        else:
            channels = list(connection.channels.values())
            channel = self.random.choice(channels)
            if channel.role in ("confirm", "plain", "tx"):
                others = [each for each in channels if each.role == channel.role and each is not channel]
                both = [channel, *others[:1]] if self.random.random() < 0.3 else [channel]
                if channel.role == "tx" and channel.in_transaction and self.random.random() < 0.4:
                    self.end_transaction(connection, channel)
                elif channel.unconfirmed and self.random.random() < 0.5:
                    self.confirm(connection, channel)
                else:
                    self.publish(connection, both)
            elif channel.unacked and self.random.random() < 0.5:
                self.settle(connection, channel)
            else:
                self.deliver(connection, channel)

    def publish(self, connection: _Connection, channels: list[_Channel], *, is_confirmed: bool = True) -> None:
        """A message on each of these channels, their frames one by one if there are several."""
        made = [self.message(connection, channel) for channel in channels]
        if len(channels) == 1:
            frames = _frames(made[0][0])
            at = [self.send(connection, CLIENT, *frames)]
        else:
            queues = [deque(_frames(encoded)) for encoded, _, _ in made]
            at = [0] * len(queues)
            while any(queues):
                place = self.random.choice([place for place, each in enumerate(queues) if each])
                at[place] = self.send(connection, CLIENT, queues[place].popleft())
        for channel, (_, published, message), ts_ns in zip(channels, made, at, strict=True):
            published.ts_ns = ts_ns
            self.truth.published.append(published)
            channel.published += 1
            if channel.role == "tx":
                channel.in_transaction.append((published, message))
                continue
            is_awaited = channel.role == "confirm" and is_confirmed
            if not is_awaited:
                published.outcome = "sent"
            self.route(connection, channel, published, message, can_nack=is_awaited)

    def message(self, connection: _Connection, channel: _Channel) -> tuple[bytes, Published, Message]:
        draw = self.random.random()
        exchange = self.random.choice(("work", "fan"))
        key = self.random.choice(list(self.queues))
        identifier = None if draw < 0.3 and channel.role != "tx" else f"{self.prefix}{len(self.truth.published)}"
        if identifier is not None:
            identifier += f"-{connection.name}-{channel.number}-{self.now_ns}"
        is_mandatory = identifier is not None and self.random.random() < 0.1 and channel.role == "confirm"
        if is_mandatory:
            exchange, key = "work", NOWHERE
        headers = Table({"tenant": connection.user}) if draw > 0.8 else None
        properties = Properties(
            content_type="text/plain" if draw > 0.5 else None,
            delivery_mode=2 if draw > 0.6 else None,
            headers=headers,
            message_id=identifier,
        )
        size = self.random.choice((0, 5, 100, 9000)) if identifier else 4
        body = self.random.choice((b"ping", b"pong")) if identifier is None else self.random.randbytes(size)
        publish = BasicPublish(exchange=exchange, routing_key=key, mandatory=is_mandatory)
        published = Published(connection.name, channel.number, 0, exchange, key, identifier, len(body))
        encoded = Command(channel.number, publish, properties, body).encode(FRAME_MAX)
        return encoded, published, Message(published, exchange, key, properties, body)

    def route(
        self, connection: _Connection, channel: _Channel, published: Published, message: Message, *, can_nack: bool
    ) -> None:
        if can_nack:
            channel.unconfirmed[channel.published] = published
        if message.routing_key == NOWHERE:
            published.is_returned = True
            returned = BasicReturn(312, "NO_ROUTE", message.exchange, message.routing_key)
            encoded = Command(channel.number, returned, message.properties, message.body).encode(FRAME_MAX)
            self.send(connection, SERVER, encoded)
            return
        if can_nack and published.message_id is not None and self.random.random() < 0.05:
            self.nack(connection, channel)
            return
        self.enqueue(message)

    def enqueue(self, message: Message) -> None:
        names = list(self.queues) if message.exchange == "fan" else [message.routing_key]
        for name in names:
            self.queues[name].append(msgspec.structs.replace(message))

    def nack(self, connection: _Connection, channel: _Channel) -> None:
        """The broker refuses the newest publish."""
        number = channel.published
        nack = BasicNack(number - channel.before, requeue=False)
        now = self.send(connection, SERVER, encode_method(channel.number, nack))
        published = channel.unconfirmed.pop(number)
        published.outcome, published.settled_ns = "nacked", now

    def confirm(self, connection: _Connection, channel: _Channel) -> None:
        numbers = list(channel.unconfirmed)
        number = self.random.choice(numbers)
        multiple = self.random.random() < 0.5
        tag = number - channel.before
        if multiple and self.random.random() < 0.1:
            number, tag = numbers[-1], 0
        now = self.send(connection, SERVER, encode_method(channel.number, BasicAck(tag, multiple)))
        for each in numbers if multiple else [number]:
            if each <= number:
                published = channel.unconfirmed.pop(each)
                published.outcome, published.settled_ns = "confirmed", now

    def end_transaction(self, connection: _Connection, channel: _Channel) -> None:
        is_commit = self.random.random() < 0.7
        pair = (TxCommit(), TxCommitOk()) if is_commit else (TxRollback(), TxRollbackOk())
        _, now = self.ask(connection, channel.number, *pair)
        for published, message in channel.in_transaction:
            published.outcome = "committed" if is_commit else "rolled back"
            published.settled_ns = now
            if is_commit:
                self.enqueue(message)
        channel.in_transaction.clear()

    # --- consuming

    def deliver(self, connection: _Connection, channel: _Channel) -> None:
        if channel.role == "getter":
            self.get(connection, channel)
            return
        queue = self.queues[channel.queue]
        sent: list[bytes] = []
        found: list[tuple[int, Delivered]] = []
        for _ in range(min(len(queue), self.random.choice((1, 1, 5)), 7 - len(channel.unacked))):
            message = queue.popleft()
            channel.last_tag += 1
            method = BasicDeliver("c", channel.last_tag, message.redelivered, message.exchange, message.routing_key)
            sent.append(Command(channel.number, method, message.properties, message.body).encode(FRAME_MAX))
            found.append((channel.last_tag, _delivered(connection, channel, message, "deliver", channel.queue)))
        if not sent:
            return
        at = self.send(connection, SERVER, *sent)
        for tag, delivered in found:
            self.add_delivered(channel, tag, delivered, at, is_acked=channel.role == "no-ack")

    def get(self, connection: _Connection, channel: _Channel) -> None:
        name = self.random.choice(list(self.queues))
        no_ack = self.random.random() < 0.3
        self.send(connection, CLIENT, encode_method(channel.number, BasicGet(queue=name, no_ack=no_ack)))
        queue = self.queues[name]
        if not queue:
            self.send(connection, SERVER, encode_method(channel.number, BasicGetEmpty()))
            return
        message = queue.popleft()
        channel.last_tag += 1
        method = BasicGetOk(channel.last_tag, message.redelivered, message.exchange, message.routing_key, len(queue))
        at = self.send(
            connection, SERVER, Command(channel.number, method, message.properties, message.body).encode(FRAME_MAX)
        )
        delivered = _delivered(connection, channel, message, "get", name)
        self.add_delivered(channel, channel.last_tag, delivered, at, is_acked=no_ack)

    def add_delivered(self, channel: _Channel, tag: int, delivered: Delivered, at: int, *, is_acked: bool) -> None:
        delivered.ts_ns = at
        self.truth.delivered.append(delivered)
        if is_acked:
            delivered.outcome = "auto-acked"
        else:
            channel.unacked[tag] = delivered

    def settle(self, connection: _Connection, channel: _Channel) -> None:
        tags = list(channel.unacked)
        tag = self.random.choice(tags)
        draw = self.random.random()
        requeue: bool | None = None
        if draw < 0.35:
            method: Method = BasicAck(tag)
            outcome, settled = "acked", [tag]
        elif draw < 0.7:
            method = BasicAck(tag, multiple=True)
            outcome, settled = "acked", [each for each in tags if each <= tag]
        elif draw < 0.8:
            requeue = self.random.random() < 0.5
            method = BasicNack(tag, multiple=True, requeue=requeue)
            outcome, settled = "nacked", [each for each in tags if each <= tag]
        elif draw < 0.95:
            requeue = self.random.random() < 0.5
            method = BasicReject(tag, requeue=requeue)
            outcome, settled = "rejected", [tag]
        else:
            requeue, outcome, settled = True, "recovered", tags
            _, now = self.ask(connection, channel.number, BasicRecover(requeue=True), BasicRecoverOk())
            self.settled(channel, settled, outcome, now, requeue)
            return
        now = self.send(connection, CLIENT, encode_method(channel.number, method))
        self.settled(channel, settled, outcome, now, requeue)

    def settled(self, channel: _Channel, tags: list[int], outcome: str, now: int, requeue: bool | None) -> None:
        found = [channel.unacked.pop(tag) for tag in tags]
        for delivered in found:
            delivered.outcome, delivered.settled_ns, delivered.requeue = outcome, now, requeue
        if requeue:
            self.requeue(found)

    def requeue(self, deliveries: Iterable[Delivered]) -> None:
        """Put messages back at the front, in the order in which they were delivered."""
        for delivered in reversed(list(deliveries)):
            message = msgspec.structs.replace(delivered.message, redelivered=True)
            self.queues[delivered.queue].appendleft(message)


def _delivered(
    connection: _Connection, channel: _Channel, message: Message, kind: Literal["deliver", "get"], queue: str
) -> Delivered:
    return Delivered(connection.name, channel.number, 0, kind, queue, message.redelivered, message.published, message)


def write_capture(path: Path, seeds: range, *, steps: int, connections: int = 4) -> list[Truth]:
    """One capture with a simulation of each seed, one behind the other; what is true of each."""
    found = []
    with path.open("wb") as file:
        begin(file)
        start_ns = START_NS
        first = 0
        for seed in seeds:
            simulation = Simulation(seed, Host(file), first=first, connections=connections, start_ns=start_ns)
            found.append(simulation.run(steps))
            start_ns, first = simulation.now_ns + 1_000_000, simulation.next
    return found


def _frames(encoded: bytes) -> list[bytes]:
    """The frames of a command, one by one."""
    return list(_split(encoded))


def _split(encoded: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(encoded):
        end = at + 8 + int.from_bytes(encoded[at + 3 : at + 7])
        yield encoded[at:end]
        at = end


def _count_frames(encoded: bytes) -> int:
    if encoded == HEADER:
        return 1
    return len(_frames(encoded))
