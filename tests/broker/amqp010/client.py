"""A client of an `Amqp010Connection`, in memory: commands in, answers out, and a clock that stands still."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import (
    ExchangeBind,
    ExecutionException,
    ExecutionResult,
    MessageFlow,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
)
from amqproxy.amqp010.controls import (
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    SessionAttach,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
)
from amqproxy.amqp010.domains import CreditUnit
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Command, Method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.broker.amqp010.connection import Amqp010Connection
from amqproxy.broker.broker import Broker

INFINITE = 0xFFFFFFFF


class Client010:
    """One connection to a broker. `now` is its time, which moves only when it is set."""

    def __init__(self, broker: Broker, *, is_loopback: bool = True, certificate_name: str | None = None) -> None:
        self.broker = broker
        self.now = 1000.0
        self.connection = Amqp010Connection(
            broker,
            is_loopback=is_loopback,
            wake=lambda: None,
            name="127.0.0.1:1 -> 127.0.0.1:2",
            certificate_name=certificate_name,
            now=self.now,
        )
        self._reader = FrameReader(frame_max=0)
        self._assemblies: dict[int, AssemblyReader] = {}
        self._is_greeted = False

    def open(self, vhost: str | None = "/", user: str = "guest", password: str = "guest") -> Client010:
        """All of the handshake."""
        self.feed(HEADER)
        self.send(0, self.start_ok(user, password))
        assert self.names() == ["connection.start", "connection.tune"]
        self.send(0, ConnectionTuneOk(100, 65_535, 0))
        self.send(0, ConnectionOpen(vhost))
        assert self.names() == ["connection.open-ok"]
        return self

    @staticmethod
    def start_ok(user: str = "guest", password: str = "guest") -> ConnectionStartOk:
        return ConnectionStartOk(Map(), "PLAIN", f"\0{user}\0{password}".encode(), "en_US")

    def session(self, number: int = 1, name: bytes = b"s") -> Session010:
        """Attach a session."""
        session = Session010(self, number, name)
        self.send(number, SessionAttach(name))
        assert self.names() == ["session.attached"]
        self.send(number, SessionCommandPoint(0, 0))
        return session

    def feed(self, data: bytes) -> None:
        self.broker.work.quantum.begin()
        self.connection.feed(data, self.now)

    def send(self, channel: int, method: Method) -> None:
        self.feed(encode_method(channel, method))

    def rest(self) -> None:
        """Let the broker do what it has left to later turns."""
        while self.broker.work:
            self.broker.work.go_on(self.now)

    def tick(self) -> None:
        self.broker.work.quantum.begin()
        self.broker.tick(self.now)
        self.rest()

    def receive(self) -> list[Assembly]:
        """All that the broker has sent since the last time."""
        self.rest()
        data = self.connection.take_output()
        self.connection.sent(self.now)
        self.rest()
        data += self.connection.take_output()
        self.connection.sent(self.now)
        if not self._is_greeted and data:
            assert data[:8] == HEADER
            self._is_greeted, data = True, data[8:]
        found = []
        for frame in self._reader.feed(data):
            reader = self._assemblies.setdefault(frame.channel, AssemblyReader())
            assembly = reader.add(frame)
            if assembly is not None:
                found.append(assembly)
        return found

    def names(self) -> list[str]:
        return [each.method.name for each in self.receive()]


class Session010:
    """A session of a client: it counts its commands, and knows what came back."""

    def __init__(self, client: Client010, number: int, name: bytes) -> None:
        self.client = client
        self.number = number
        self.name = name
        self.sent = 0
        self.came = 0
        """The id of the next command that comes."""
        self.completed: set[int] = set()
        self.results: dict[int, Any] = {}
        self.messages: list[tuple[int, Assembly]] = []
        self.others: list[Method] = []
        self.exception: ExecutionException | None = None

    def send(self, command: Command, header: Header | None = None, body: bytes | None = None) -> int:
        """Send a command; its id."""
        command_id = self.sent
        self.sent += 1
        self.client.feed(Assembly(self.number, command, header, body).encode(65_535))
        return command_id

    def control(self, method: Method) -> None:
        self.client.send(self.number, method)

    def take(self) -> Session010:
        """Take what has come."""
        for assembly in self.client.receive():
            if assembly.channel != self.number:
                continue
            method = assembly.method
            position = self.came
            if assembly.is_command:
                self.came += 1
            match method:
                case MessageTransfer():
                    self.messages.append((position, assembly))
                case ExecutionResult():
                    self.results[method.command_id] = method.value
                case ExecutionException():
                    self.exception = method
                case SessionCompleted():
                    self.completed |= set(method.commands)
                case SessionCommandPoint():
                    self.came = method.command_id
                case _:
                    self.others.append(method)
        return self

    def call(self, command: Command) -> Any:
        """Send a command, which has to be complete then; its result, if it has one."""
        command_id = self.send(command)
        self.take()
        assert self.exception is None, self.exception
        assert command_id in self.completed, command
        return self.results.get(command_id)

    def fault(self, command: Command, header: Header | None = None, body: bytes | None = None) -> tuple[int, str]:
        """Send a command that ends the session: the code, and the description."""
        command_id = self.send(command, header, body)
        self.take()
        assert self.exception is not None, command
        assert self.exception.command_id == command_id
        assert [type(each) for each in self.others[-1:]] == [SessionDetach]
        return self.exception.error_code, self.exception.description

    def declare(self, queue: str = "q", **options: Any) -> None:
        self.call(QueueDeclare(queue, **options))

    def bind(self, queue: str, exchange: str, key: str = "", arguments: dict[str, Any] | None = None) -> None:
        self.call(ExchangeBind(queue, exchange, key, None if arguments is None else Map(arguments)))

    def transfer(
        self,
        body: bytes = b"",
        key: str = "q",
        exchange: str = "",
        *,
        accept_mode: int | None = 1,
        delivery: DeliveryProperties | None = None,
        message: MessageProperties | None = None,
    ) -> int:
        """Publish a message; the id of the command."""
        entries = (delivery or DeliveryProperties(routing_key=key), message or MessageProperties())
        return self.send(MessageTransfer(exchange, accept_mode, 0), Header(entries), body)

    def subscribe(
        self,
        queue: str = "q",
        destination: str = "d",
        *,
        accept_mode: int = 0,
        messages: int | None = INFINITE,
        size: int | None = INFINITE,
        **options: Any,
    ) -> None:
        """Subscribe, with credit."""
        self.call(MessageSubscribe(queue, destination, accept_mode, options.pop("acquire_mode", 0), **options))
        if messages:
            self.send(MessageFlow(destination, CreditUnit.MESSAGE, messages))
        if size:
            self.send(MessageFlow(destination, CreditUnit.BYTE, size))
        self.take()

    def got(self) -> list[bytes]:
        """The bodies of the messages that came since the last time."""
        self.take()
        bodies = [assembly.body for _, assembly in self.messages]
        self.messages = []
        return bodies

    def complete(self, *ids: int) -> None:
        self.control(SessionCompleted(SequenceSet.of(ids)))
