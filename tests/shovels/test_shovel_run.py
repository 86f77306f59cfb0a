"""One run over connections within this process: brokers that hang, heartbeats, and messages on their way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pika
import pytest
import trio

from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.server import serve
from amqproxy.moving.broker_link import BrokerLink, open_link
from amqproxy.moving.move_login import client_properties
from amqproxy.proxy.upstream import Unreachable
from amqproxy.shovels import shovel_run
from amqproxy.shovels.broker_uri import BrokerURI, parse_uri
from amqproxy.shovels.openings import Openings
from amqproxy.shovels.shovel_run import ShovelFailed, ShovelRun
from amqproxy.sockets.transport import Transport
from tests.shovels.shovel_frames import shovel_of

DEADLINE = 120.0


async def none_is_local(_: BrokerURI) -> Transport:
    raise Unreachable("refused", "none is local")


class Run(ShovelRun):
    """A run that notes when it consumes."""

    def __init__(self, **changed: object) -> None:
        self.consumes = trio.Event()
        super().__init__(shovel_of(**changed), none_is_local, self._note)

    async def _note(self, _source: str, _destination: str) -> None:
        self.consumes.set()
        await self.on_consuming()

    async def on_consuming(self) -> None:
        pass


@asynccontextmanager
async def hung() -> AsyncIterator[tuple[str, trio.Event]]:
    """The URI of a broker that accepts connections and answers nothing, and an event for the first of them."""
    came = trio.Event()

    async def accept(stream: trio.SocketStream) -> None:
        came.set()
        async with stream:
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, accept, 0, host="127.0.0.1"))
        yield f"amqp://127.0.0.1:{listener.socket.getsockname()[1]}", came
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("hangs", ["src_uri", "dest_uri"])
async def test_a_broker_that_hangs_delays_no_shovel_of_another_one(hangs: str) -> None:
    with trio.fail_after(DEADLINE):
        async with serve(Broker()) as port, hung() as (uri, came), trio.open_nursery() as nursery:
            works, openings = f"amqp://127.0.0.1:{port}", Openings(1)
            first = Run(**{"src_uri": works, "dest_uri": works, hangs: uri})
            nursery.start_soon(first.run, openings)
            await came.wait()
            for uris in (works, [works, uri], [uri, works]):
                run = Run(src_uri=uris, dest_uri=works)
                nursery.start_soon(run.run, openings)
                await run.consumes.wait()
            nursery.cancel_scope.cancel()


async def test_the_source_gets_heartbeats_while_the_destination_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beating = trio.Event()

    async def note(_: BrokerLink) -> None:
        beating.set()

    monkeypatch.setattr(BrokerLink, "send_heartbeats", note)
    with trio.fail_after(DEADLINE):
        async with serve(Broker()) as port, hung() as (uri, came), trio.open_nursery() as nursery:
            nursery.start_soon(Run(src_uri=f"amqp://127.0.0.1:{port}", dest_uri=uri).run, Openings())
            await came.wait()
            await beating.wait()
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("offered", "own", "agreed"), [(60, 10, 10), (5, 10, 5), (0, 10, 10), (60, 0, 60), (0, 0, 0)])
async def test_the_heartbeat_is_the_shorter_one(offered: int, own: int, agreed: int) -> None:
    with trio.fail_after(DEADLINE):
        async with serve(Broker(heartbeat=offered)) as port:
            uri = parse_uri(f"amqp://127.0.0.1:{port}")
            start = ConnectionStartOk(client_properties=client_properties("t"), response=b"\0guest\0guest")
            dial = Run(src_uri=uri.shown)._dial(Openings(), uri, uri.address)
            async with open_link(dial, start, "/", heartbeat=own) as link:
                assert link._connection.heartbeat == agreed


async def test_causes_have_the_order_of_the_uris(monkeypatch: pytest.MonkeyPatch) -> None:
    uris = [f"amqp://127.0.0.1:1/{number}" for number in range(5)]
    monkeypatch.setattr(shovel_run.random, "sample", lambda places, count: list(reversed(places))[:count])
    with pytest.raises(ShovelFailed) as failed:
        await Run(src_uri=uris).run(Openings())
    places = [failed.value.cause.index(f"{uri}: ") for uri in uris]
    assert places == sorted(places)


async def test_without_acks_all_that_was_sent_arrives() -> None:
    """More messages come than the queue has when the shovel starts: the source forgets them as it sends them."""
    here, there = Broker(), Broker()

    class Filled(Run):
        async def on_consuming(self) -> None:
            await fill(port, 200)
            while here.vhosts["/"].queues["a"].message_count:  # noqa: ASYNC110
                await trio.sleep(0.01)

    with trio.fail_after(DEADLINE):
        async with serve(here) as port, serve(there) as other:
            await fill(port, 100)
            ends = {"src_uri": f"amqp://127.0.0.1:{port}", "dest_uri": f"amqp://127.0.0.1:{other}"}
            await Filled(ack_mode="no-ack", src_delete_after="queue-length", **ends).run(Openings())
            while there.vhosts["/"].queues["b"].message_count < 300:  # noqa: ASYNC110
                await trio.sleep(0.01)


async def fill(port: int, count: int) -> None:
    def run() -> None:
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
            channel = connection.channel()
            channel.queue_declare("a", durable=True)
            for _ in range(count):
                channel.basic_publish("", "a", b"m")
            channel.queue_declare("a", passive=True)

    await trio.to_thread.run_sync(run)
