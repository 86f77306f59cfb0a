"""Shovels of a broker in their process: each ack mode, each change while they run, and each end that is lost."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from typing import Any

import psutil
import pytest
import trio

from amqproxy.broker.access.permissions import Permission
from amqproxy.broker.access.users import User
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.server import BrokerServer
from amqproxy.shovels.shovel_states import RESTARTED
from tests.shovels.shoveller import shoveller

SOME, MANY = 300, 200


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
@pytest.mark.parametrize("protocol", ["amqp091", "local"])
async def test_all_messages_arrive_in_order(ack_mode: str, protocol: str) -> None:
    moved: list[int] = []
    async with shoveller() as brokers:
        brokers.states.note_moved = moved.append
        await brokers.fill(SOME)
        brokers.set(ack_mode=ack_mode, src_protocol=protocol)
        await brokers.until(lambda: brokers.depth(brokers.there, "b") == SOME)
        await brokers.until(lambda: brokers.held(brokers.here, "a") == 0)
        await brokers.until(lambda: sum(moved) == SOME)
        assert await brokers.taken() == numbers(SOME)
        assert (brokers.entry()["state"], brokers.entry()["forwarded"]) == ("running", SOME)


async def test_both_ends_by_a_network_and_both_here() -> None:
    async with shoveller() as brokers:
        await brokers.fill(3, "from-there", 1)
        brokers.set("in", src_uri=brokers.there_url, src_queue="from-there", dest_uri="amqp://", dest_queue="middle")
        brokers.set("on", src_queue="middle", dest_uri=brokers.here_url, dest_queue="last")
        await brokers.until(lambda: brokers.depth(brokers.here, "last") == 3)
        assert await brokers.taken("last", 0) == numbers(3)
        users = sorted(each.user.name for each in brokers.here.connections if each.vhost is not None)
        assert users == ["guest", "none", "none"]


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish"])
async def test_it_deletes_itself_after_a_number_of_messages(ack_mode: str) -> None:
    async with shoveller() as brokers:
        await brokers.fill(SOME)
        brokers.set(src_delete_after=100, ack_mode=ack_mode)
        await brokers.until(lambda: not brokers.here.parameters)
        assert await brokers.taken() == numbers(100)
        await brokers.until(lambda: brokers.depth(brokers.here, "a") == SOME - 100)
        assert len(await brokers.taken("a", 0)) == SOME - 100


async def test_it_deletes_itself_after_the_queues_length() -> None:
    async with shoveller() as brokers:
        await brokers.fill(SOME)
        brokers.set(src_delete_after="queue-length", ack_mode="no-ack")
        await brokers.until(lambda: not brokers.here.parameters)
        assert await brokers.taken() == numbers(SOME)
        brokers.set(src_delete_after="queue-length")  # an empty one
        await brokers.until(lambda: not brokers.here.parameters)
        await brokers.until(lambda: brokers.process is not None and brokers.process.pid is None)  # none is left


async def test_an_exchange_at_either_end() -> None:
    async with shoveller() as brokers:
        await brokers.with_channel(1, lambda channel: channel.queue_declare("by-topic", durable=True))
        await brokers.with_channel(1, lambda channel: channel.queue_bind("by-topic", "amq.topic", "new"))
        ends: dict[str, Any] = {"src_queue": None, "src_exchange": "amq.topic", "src_exchange_key": "a.*"}
        ends |= {"dest_queue": None, "dest_exchange": "amq.topic", "dest_exchange_key": "new"}
        brokers.set(**ends)
        await brokers.is_state("running")
        await brokers.with_channel(0, lambda channel: channel.basic_publish("amq.topic", "a.b", b"1"))
        await brokers.with_channel(0, lambda channel: channel.basic_publish("amq.topic", "b", b"2"))
        await brokers.with_channel(0, lambda channel: channel.basic_publish("amq.topic", "a.c", b"3"))
        await brokers.until(lambda: brokers.depth(brokers.there, "by-topic") == 2)
        assert await brokers.taken("by-topic") == [b"1", b"3"]


async def test_several_uris_are_tried() -> None:
    async with shoveller() as brokers:
        nowhere = "amqp://u:secret@127.0.0.1:1"
        brokers.set(dest_uri=[nowhere, brokers.there_url, f"{nowhere}/v"])
        await brokers.is_state("running")
        assert brokers.entry()["destination_uri"] == f"amqp://127.0.0.1:{brokers.ports[1]}"
        brokers.set(dest_uri=[nowhere, f"{nowhere}/v"])
        await brokers.is_state("terminated")
        entry = brokers.entry()
        assert entry["reason"] == "failed to connect to destination"
        assert "amqp://127.0.0.1:1/v: 127.0.0.1:1 refused the connection" in entry["cause"]
        assert "secret" not in entry["cause"]


async def test_queues_are_declared_unless_predeclared() -> None:
    async with shoveller() as brokers:
        brokers.set(src_queue_args={"x-max-length": 5}, dest_queue_args={"x-message-ttl": 60000})
        await brokers.is_state("running")
        source, target = brokers.here.vhosts["/"].queues["a"], brokers.there.vhosts["/"].queues["b"]
        assert (source.durable, dict(source.arguments)) == (True, {"x-max-length": 5})
        assert dict(target.arguments) == {"x-message-ttl": 60000}
        brokers.set("p", dest_queue="missing", dest_predeclared=True)
        await brokers.is_state("terminated", "p")
        assert brokers.entry("p")["reason"] == "failed to set up topology"
        await brokers.with_channel(1, lambda channel: channel.queue_declare("missing", durable=True))
        await brokers.is_state("running", "p")  # it is tried again


async def test_a_changed_shovel_is_started_again_and_a_deleted_one_stops() -> None:
    async with shoveller() as brokers:
        await brokers.fill(3)
        brokers.set()
        await brokers.until(lambda: brokers.depth(brokers.there, "b") == 3 and not brokers.held(brokers.here, "a"))
        brokers.set(dest_queue="c")
        await brokers.is_state("running")
        await brokers.fill(3)
        await brokers.until(lambda: brokers.depth(brokers.there, "c") == 3)
        assert await brokers.taken() == numbers(3)
        brokers.here.clear_parameter("/", "shovel", "s")
        await brokers.until(lambda: not brokers.here.connections)
        await brokers.fill(3)
        assert brokers.depth(brokers.here, "a") == 3


async def test_a_shovel_that_does_not_reconnect_can_be_restarted() -> None:
    async with shoveller() as brokers:
        brokers.set(dest_queue="b", dest_predeclared=True, reconnect_delay=0)
        await brokers.is_state("terminated")
        await brokers.with_channel(1, lambda channel: channel.queue_declare("b", durable=True))
        brokers.here.events.report(RESTARTED, "/", "s")
        await brokers.is_state("running")


async def test_a_killed_process_loses_nothing() -> None:
    async with shoveller() as brokers:
        await brokers.fill(SOME)
        brokers.set(src_prefetch_count=20)
        await brokers.until(lambda: brokers.depth(brokers.there, "b") > 50)
        killed = brokers.kill()
        await brokers.until(lambda: brokers.depth(brokers.there, "b") >= SOME and not brokers.held(brokers.here, "a"))
        assert brokers.process is not None
        assert brokers.process.pid not in (killed, None)
        taken = Counter(await brokers.taken())
        assert set(taken) == set(numbers(SOME))
        assert sum(taken.values()) <= SOME + 20  # what was not confirmed


async def test_without_file_descriptors_a_local_connection_fails_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = BrokerServer.open

    def fail(*_: object, **__: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    async with shoveller() as brokers:
        monkeypatch.setattr(BrokerServer, "open", fail)
        brokers.set()
        await brokers.is_state("terminated")
        assert "Too many open files" in brokers.entry()["cause"]
        monkeypatch.setattr(BrokerServer, "open", opened)
        await brokers.is_state("running")


async def test_a_process_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start = trio.lowlevel.open_process

    async def fail(*_: object, **__: object) -> trio.Process:
        monkeypatch.setattr(trio.lowlevel, "open_process", start)
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(trio.lowlevel, "open_process", fail)
    async with shoveller() as brokers:
        brokers.set()
        await brokers.is_state("running")


async def test_a_lost_end_is_connected_to_again() -> None:
    async with shoveller() as brokers:
        brokers.set()
        for broker in (brokers.here, brokers.there):
            await brokers.is_state("running")
            broker.close_connections("gone", 0.0)
            await brokers.is_state("terminated")
            assert brokers.entry()["reason"] == "needed a restart"
            assert "CONNECTION_FORCED" in brokers.entry()["cause"]
        await brokers.is_state("running")


async def test_a_blocked_destination_holds_the_prefetch_and_no_more() -> None:
    async with shoveller() as brokers:
        await brokers.fill(1)
        brokers.set(src_prefetch_count=10)
        await brokers.until(lambda: brokers.depth(brokers.there, "b") == 1)
        brokers.there.set_alarm("memory", is_on=True, now=0.0)
        await brokers.fill(SOME)  # the first one of these makes the destination block its publisher
        await brokers.until(lambda: brokers.entry()["blocked"])
        assert brokers.here.vhosts["/"].queues["a"].unacked <= 10
        brokers.there.set_alarm("memory", is_on=False, now=0.0)
        await brokers.until(lambda: brokers.depth(brokers.there, "b") == SOME + 1)
        assert brokers.entry()["state"] == "running"


async def test_a_full_destination_refuses_and_loses_nothing() -> None:
    async with shoveller() as brokers:
        arguments = {"x-max-length": 10, "x-overflow": "reject-publish"}
        await brokers.with_channel(1, lambda channel: channel.queue_declare("b", durable=True, arguments=arguments))
        await brokers.fill(30)
        brokers.set()
        found: Counter[bytes] = Counter()
        while sum(found.values()) < 30:
            await brokers.until(lambda: brokers.depth(brokers.there, "b"))
            found.update(await brokers.taken())
        assert found == Counter(numbers(30))


async def test_a_number_of_messages_to_a_full_destination_loses_none_behind_them() -> None:
    async with shoveller() as brokers:
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await brokers.with_channel(1, lambda channel: channel.queue_declare("b", durable=True, arguments=arguments))
        await brokers.fill(20)
        brokers.set(src_delete_after=2)
        found: Counter[bytes] = Counter()
        while brokers.here.parameters:
            await brokers.until(lambda: brokers.depth(brokers.there, "b") or not brokers.here.parameters)
            found.update(await brokers.taken())
        await brokers.until(lambda: not brokers.here.vhosts["/"].queues["a"].unacked)
        found.update(await brokers.taken())
        found.update(await brokers.taken("a", 0))
        assert found == Counter(numbers(20))


async def test_users_of_this_broker_have_their_own_rights() -> None:
    here = Broker()
    user = User.with_password("ann", "pass", [])
    user.permit("/", Permission("^$", "^a$", "^a$"))
    here.add_user(user)
    async with shoveller(here) as brokers:
        await brokers.fill(1)
        brokers.set("allowed", src_uri="amqp://ann:pass@")
        await brokers.is_state("running", "allowed")
        brokers.set("without-password", src_uri="amqp://ann@")
        await brokers.is_state("running", "without-password")
        brokers.set("wrong", src_uri="amqp://ann:secret@")
        brokers.set("unknown", src_uri="amqp://bob@")
        brokers.set("queue", src_uri="amqp://ann@", src_queue="c")
        brokers.set("vhost", src_uri="amqp:///none")
        for name, cause in (
            ("wrong", "user 'ann' - invalid credentials"),
            ("unknown", "there is no user 'bob'"),
            ("queue", "403"),
            ("vhost", "vhost none not found"),
        ):
            await brokers.is_state("terminated", name)
            assert cause in brokers.entry(name)["cause"]
            assert "secret" not in brokers.entry(name)["cause"]


async def test_a_source_that_is_its_destination() -> None:
    async with shoveller() as brokers:
        await brokers.fill(5)
        brokers.set(dest_uri="amqp://", dest_queue="a", dest_add_forward_headers=True, src_delete_after=50)
        await brokers.until(lambda: not brokers.here.parameters)
        await brokers.until(lambda: brokers.depth(brokers.here, "a") == 5)
        assert sorted(await brokers.taken("a", 0)) == numbers(5)


async def test_a_deleted_source_queue_is_declared_again() -> None:
    async with shoveller() as brokers:
        brokers.set()
        await brokers.is_state("running")
        await brokers.with_channel(0, lambda channel: channel.queue_delete("a"))
        await brokers.is_state("terminated")
        await brokers.is_state("running")
        assert "a" in brokers.here.vhosts["/"].queues


async def test_passwords_are_no_arguments_of_the_process() -> None:
    async with shoveller() as brokers:
        brokers.set(dest_uri=brokers.there_url.replace("guest:guest", "guest:guest%20"))
        await brokers.is_state("terminated")
        assert brokers.process is not None
        process = psutil.Process(brokers.process.pid)
        assert process.cmdline()[1:] == ["-P", "-m", "amqproxy.shovels.child"]
        assert not any("guest:" in value for value in process.environ().values())


async def test_no_process_is_left() -> None:
    async with shoveller() as brokers:
        brokers.set()
        await brokers.is_state("running")
        assert brokers.process is not None
        pid = brokers.process.pid
        assert pid is not None
    assert not psutil.pid_exists(pid)


async def test_hundreds_of_shovels() -> None:
    """They share one process, and all are stopped."""
    async with shoveller() as brokers:
        await brokers.fill(1)
        for number in range(MANY):
            brokers.set(str(number))
        await brokers.until(lambda: brokers.states.count("running") == MANY)
        await brokers.until(lambda: brokers.depth(brokers.there, "b") == 1)
        assert len(brokers.here.connections) == MANY
        for each in list(brokers.here.parameters):
            brokers.here.clear_parameter("/", "shovel", each["name"])
        await brokers.until(lambda: not brokers.here.connections)
