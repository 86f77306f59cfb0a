"""A broker in this process with its shovel process, and another broker beside it."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pika
import trio
from pika.adapters.blocking_connection import BlockingChannel

from amqproxy.broker.broker import Broker
from amqproxy.broker.server.server import BACKLOG, BrokerServer, serve
from amqproxy.shovels.shovel_process import ShovelProcess
from amqproxy.shovels.shovel_states import ShovelStates

DEADLINE = 120.0


class Shoveller:
    """The broker `here`, whose shovels run, and `there`."""

    def __init__(self, here: Broker, there: Broker, ports: tuple[int, int]) -> None:
        self.here = here
        self.there = there
        self.states = ShovelStates(here)
        self.ports = ports
        self.process: ShovelProcess | None = None

    @property
    def here_url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.ports[0]}"

    @property
    def there_url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.ports[1]}"

    def set(self, name: str = "s", vhost: str = "/", **changed: Any) -> None:
        """Set a shovel from the queue a here to the queue b there; `None` leaves a key out."""
        value = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": self.there_url, "dest-queue": "b"}
        value |= {"reconnect-delay": 1} | {key.replace("_", "-"): each for key, each in changed.items()}
        value = {key: each for key, each in value.items() if each is not None}
        self.here.set_parameter(vhost, "shovel", name, value)

    def entry(self, name: str = "s") -> dict[str, Any]:
        return next(self.states.entries(None, name))

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.01)

    async def is_state(self, state: str, name: str = "s") -> None:
        await self.until(lambda: self.entry(name)["state"] == state)

    async def with_channel(self, side: int, do: Callable[[BlockingChannel], Any]) -> Any:
        def run() -> Any:
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.ports[side])) as connection:
                return do(connection.channel())

        return await trio.to_thread.run_sync(run)

    async def fill(self, count: int, queue: str = "a", side: int = 0, first: int = 0) -> None:
        def do(channel: BlockingChannel) -> None:
            channel.queue_declare(queue, durable=True)
            channel.confirm_delivery()
            for number in range(first, first + count):
                channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))

        await self.with_channel(side, do)

    async def taken(self, queue: str = "b", side: int = 1) -> list[bytes]:
        """Take the bodies of all ready messages."""

        def do(channel: BlockingChannel) -> list[bytes]:
            found = []
            while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
                found.append(got[2])
            return found

        return await self.with_channel(side, do)  # type: ignore[no-any-return]

    def depth(self, broker: Broker, queue: str) -> int:
        found = broker.vhosts["/"].queues.get(queue)
        return 0 if found is None else found.message_count

    def held(self, broker: Broker, queue: str) -> int:
        """The number of messages of a queue that are ready or unacknowledged."""
        found = broker.vhosts["/"].queues.get(queue)
        return 0 if found is None else found.message_count + found.unacked

    def kill(self) -> int:
        """Kill the process, and return the process id."""
        assert self.process is not None
        assert self.process.pid is not None
        pid = self.process.pid
        os.kill(pid, signal.SIGKILL)
        return pid


@asynccontextmanager
async def shoveller(here: Broker | None = None, there: Broker | None = None) -> AsyncIterator[Shoveller]:
    here, there = here or Broker(), there or Broker()
    with trio.fail_after(DEADLINE):
        async with serve(there) as other, trio.open_nursery() as nursery:
            server = BrokerServer(here)
            await nursery.start(server.run)
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=BACKLOG)
            server.listen(listener)
            found = Shoveller(here, there, (listener.socket.getsockname()[1], other))
            async with trio.open_nursery() as shovelling:
                found.process = ShovelProcess(server, found.states)
                shovelling.start_soon(found.process.run)
                yield found
                shovelling.cancel_scope.cancel()
            nursery.cancel_scope.cancel()
