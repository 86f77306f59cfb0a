"""Whatever a client does on a shared connection, those beside it lose nothing and are told nothing."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import uuid4

import pytest

from tests.real import raw
from tests.real.malformed import BETTER, MALFORMED, WORKERS, ask
from tests.real.neighbourhood import FURTHER, QUEUE, Beside, Neighbourhood, many_channel_errors
from tests.real.poll import until
from tests.real.publishers import CONFIRM_SELECT, declare, drained
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import Peer

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def neighbourhood(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbourhood]:
    found = Neighbourhood(tmp_path_factory.mktemp("neighbours"), rabbitmq.port)
    yield found
    found.fleet.kill()


def test_a_hostile_neighbour_costs_nobody_anything(neighbourhood: Neighbourhood, rabbitmq: RabbitMQ) -> None:
    cases = [case for case in [*MALFORMED, *FURTHER] if not case.is_handshake]
    assert len([case for case in cases if case.rabbitmq.isdigit()]) >= 40
    with Beside(neighbourhood), ThreadPoolExecutor(WORKERS) as threads:
        answers = {case.name: threads.submit(ask, neighbourhood.port, case, neighbourhood.visitor()) for case in cases}
        direct = {case.name: threads.submit(ask, rabbitmq.port, case) for case in cases}
        for case in cases:
            answer, expected = answers[case.name].result(), direct[case.name].result()
            if case.rabbitmq and not case.name.startswith("content: body larger"):  # of which a broker may carry on
                assert answer.summary == BETTER.get(case.name, expected.summary), (case.name, answer, expected)
    assert "Traceback" not in neighbourhood.fleet.log


def test_a_neighbour_that_leaves_at_any_byte_costs_nobody_anything(neighbourhood: Neighbourhood) -> None:
    close = raw.method(1, 20, 40, b"\0\xc8\0" + bytes(4))
    data = raw.message(1, QUEUE, b"whole") + close
    declaration = raw.method(1, 50, 10, b"\0\0" + raw.shortstr("cut") + b"\2" + raw.longstr(b""))
    with Beside(neighbourhood):
        for sent in [*(data[:end] for end in range(len(data))), *(declaration[:end] for end in range(0, 20, 5))]:
            peer = neighbourhood.opened(1)
            peer.send(sent)
            if len(sent) % 2:
                peer.reset()
            else:
                peer.stream.close()
        with suppress(OSError), neighbourhood.opened(1) as last:
            last.send(data)
            last.expect(20, 41)
            last.send(raw.connection_close())
            last.expect(10, 51)
    until(lambda: neighbourhood.pool()["channels"] == 0, "channels to be closed")
    assert neighbourhood.pool()["clients"] == 0


def test_rubbish_of_a_neighbour_costs_nobody_anything(neighbourhood: Neighbourhood) -> None:
    chance = random.Random(35)
    with Beside(neighbourhood):
        for _ in range(30):
            with neighbourhood.opened(1) as peer, suppress(OSError):
                good = b"".join(raw.message(1, QUEUE, b"rubbish") for _ in range(5))
                spoilt = bytearray(good)
                for _ in range(chance.randrange(1, 4)):
                    spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
                peer.send(bytes(spoilt))
                peer.stream.shutdown(socket.SHUT_WR)
                peer.closed()


def test_channel_errors_close_the_channels_of_their_authors_alone(neighbourhood: Neighbourhood) -> None:
    many_channel_errors(neighbourhood, clients=8, errors=25)


@pytest.mark.soak
def test_ten_thousand_channel_errors(neighbourhood: Neighbourhood) -> None:
    many_channel_errors(neighbourhood, clients=64, errors=160)


def closed_cleanly(peer: Peer) -> None:
    peer.send(raw.connection_close())
    while (frame := peer.read()) is not None and frame.method != (10, 51):
        assert frame.close is None, frame.close


def test_frames_behind_the_one_that_pins_are_all_sent(neighbourhood: Neighbourhood) -> None:
    """Its own connection gets all that the client has sent in one piece, on channels that it closes, too."""
    queue = "one piece"
    declare(neighbourhood.broker_port, queue)
    close = raw.method(2, 20, 40, b"\0\xc8\0" + bytes(4))
    qos = raw.method(1, 60, 10, b"\0\0\0\0\0\1\0")
    with neighbourhood.opened(1, 2) as peer:
        before = [raw.message(each, queue, b"%d before" % each) for each in (1, 2)]
        behind = [raw.message(each, queue, b"%d behind" % each) for each in (2, 1)]
        peer.send(*before, raw.publish(2, queue), qos, raw.content(2, b"2 across"), *behind, close)
        answers = {peer.read().method, peer.read().method}  # type: ignore[union-attr]
        assert answers == {(60, 11), (20, 41)}
        closed_cleanly(peer)
    found = drained(neighbourhood.broker_port, queue)
    assert [body for body in found if body.startswith(b"1")] == [b"1 before", b"1 behind"]
    assert [body for body in found if body.startswith(b"2")] == [b"2 before", b"2 across", b"2 behind"]


def declared_between(neighbourhood: Neighbourhood, name: str, *, confirms: bool, chance: random.Random) -> None:
    """Publish, declare and publish in one stream that is cut anywhere: only the second message may arrive."""
    declaration = raw.method(1, 50, 10, b"\0\0" + raw.shortstr(name) + b"\2" + raw.longstr(b""))
    data = raw.message(1, name, b"early") + declaration + raw.message(1, name, b"late")
    cut = chance.randrange(len(data))
    with neighbourhood.opened(1) as peer:
        if confirms:
            peer.send(CONFIRM_SELECT)
            peer.expect(85, 11)
        peer.send(data[:cut])
        peer.send(data[cut:])
        if confirms:
            peer.expect(60, 80)
        peer.expect(50, 11)
        if confirms:
            assert struct.unpack_from(">Q", peer.expect(60, 80).payload, 4)[0] == 2
        closed_cleanly(peer)
    assert drained(neighbourhood.broker_port, name) == [b"late"], (name, cut)


def declared_often(neighbourhood: Neighbourhood, times: int) -> None:
    chance = random.Random(5)
    with ThreadPoolExecutor(8) as threads:
        runs = [
            threads.submit(
                declared_between,
                neighbourhood,
                f"declared {uuid4()}",
                confirms=bool(each % 2),
                chance=random.Random(chance.random()),
            )
            for each in range(times)
        ]
        for run in runs:
            run.result()


def test_a_message_is_routed_by_what_was_declared_before_it(neighbourhood: Neighbourhood) -> None:
    declared_often(neighbourhood, 40)


@pytest.mark.soak
def test_ten_thousand_declarations_between_two_messages(neighbourhood: Neighbourhood) -> None:
    for _ in range(10):
        declared_often(neighbourhood, 1000)


def _queue_method(number: int, queue: str, *rest: bytes) -> bytes:
    return raw.method(1, 50, number, b"\0\0" + raw.shortstr(queue) + b"".join(rest))


def _declare(queue: str) -> bytes:
    return _queue_method(10, queue, b"\2", raw.longstr(b""))  # durable


def _bind(key: str) -> bytes:
    return _queue_method(20, "", raw.shortstr("amq.direct"), raw.shortstr(key), b"\0", raw.longstr(b""))


_UNBIND = _queue_method(50, "", raw.shortstr("amq.direct"), raw.shortstr(""), raw.longstr(b""))
_PURGE, _DELETE = _queue_method(30, "", b"\0"), _queue_method(40, "", b"\0")
_GET = raw.method(1, 60, 70, b"\0\0\0\1")
_MANDATORY = raw.publish(1, "last", exchange="amq.direct", bits=1) + raw.content(1, b"routed")
_SIGN = raw.publish(1, "no such queue", bits=1) + raw.content(1, b"sign")
"""A message that is returned, as a sign that all before it were answered."""

LAST_DECLARED = {
    "none": _PURGE,
    "bind": _declare("last") + _bind("key"),
    "bind without a key": _declare("last") + _bind("") + _MANDATORY,
    "unbind without a key": _declare("last") + _bind("") + _UNBIND + _MANDATORY,
    "purge": _declare("last") + _PURGE,
    "get": _declare("last") + raw.message(1, "last", b"got") + _GET,
    "get twice": _declare("last") + _GET + _GET,
    "consume": _declare("last") + raw.message(1, "last", b"consumed") + raw.consume(1, ""),
    "of two": _declare("other") + _declare("last") + raw.message(1, "last", b"got") + _GET,
    "deleted, purge": _declare("last") + _queue_method(40, "last", b"\0") + _PURGE,
    "deleted, get": _declare("last") + _queue_method(40, "last", b"\0") + _GET,
    "deleted, qos": _declare("last") + _queue_method(40, "last", b"\0") + raw.method(1, 60, 10, bytes(6) + b"\0"),
    "delete": _declare("last") + _DELETE + _DELETE,
}
"""What clients do to the queue that they have declared last, for which an empty name stands."""


def answered(port: int, data: bytes, properties: bytes | None = None) -> list[object]:
    """Return what is answered on channel 1: methods and their bodies, to the end of the channel or the last method."""
    declare(port, "last")
    drained(port, "last")
    found: list[object] = []
    with Peer.opened(port, 1, properties=properties) as peer:
        peer.send(data, _SIGN)
        while not found or (found[-1] != b"sign" and not isinstance(found[-1], raw.Close)):
            frame = peer.read()
            assert frame is not None
            if frame.kind == raw.BODY:
                found.append(frame.payload)
            elif frame.method == raw.CHANNEL_CLOSE and frame.close is not None:
                found.append(frame.close._replace(class_id=0, method_id=0))
            elif frame.method is not None:
                found.append(frame.method)
    return found


@pytest.mark.parametrize("case", LAST_DECLARED)
def test_the_last_declared_queue_is_that_of_a_direct_connection(
    neighbourhood: Neighbourhood, rabbitmq: RabbitMQ, case: str
) -> None:
    data = LAST_DECLARED[case]
    expected = answered(rabbitmq.port, data)
    assert (50, 11) in expected or case == "none"  # it is declared
    with Beside(neighbourhood):
        for _ in range(2):  # first on the scout, then on the shared connection
            assert answered(neighbourhood.port, data, neighbourhood.visitor()) == expected


def pinned_under_load(neighbourhood: Neighbourhood, queue: str, client: int, size: int) -> None:
    """Publish, begin to consume in the midst of it, and publish on: every confirm comes once, in its order."""
    with neighbourhood.opened(1) as peer:
        peer.send(CONFIRM_SELECT)
        peer.expect(85, 11)
        messages = [raw.message(1, queue, b"%d %d" % (client, each)) for each in range(2 * size)]
        qos = raw.method(1, 60, 10, b"\0\0\0\0\0\1\0")
        peer.send(*messages[:size], qos, *messages[size:])
        confirmed, answers = set[int](), 0
        while len(confirmed) < 2 * size or not answers:
            frame = peer.read()
            assert frame is not None
            if frame.method == (60, 80):
                tag, multiple = struct.unpack_from(">QB", frame.payload, 4)
                tags = set(range(1, tag + 1)) - confirmed if multiple else {tag}
                assert not tags & confirmed
                confirmed |= tags
            elif frame.kind != raw.HEARTBEAT:
                assert frame.method == (60, 11), frame.close or frame
                answers += 1
        assert (confirmed, answers) == (set(range(1, 2 * size + 1)), 1)
        closed_cleanly(peer)


def many_pinned(neighbourhood: Neighbourhood, clients: int, size: int) -> None:
    queue = "pinned under load"
    declare(neighbourhood.broker_port, queue)
    with Beside(neighbourhood), ThreadPoolExecutor(20) as threads:
        runs = [threads.submit(pinned_under_load, neighbourhood, queue, each, size) for each in range(clients)]
        for run in runs:
            run.result()
    found = drained(neighbourhood.broker_port, queue)
    for client in range(clients):
        prefix = b"%d " % client
        assert [body for body in found if body.startswith(prefix)] == [
            prefix + b"%d" % each for each in range(2 * size)
        ]


def test_clients_that_are_pinned_under_load_lose_and_repeat_nothing(neighbourhood: Neighbourhood) -> None:
    many_pinned(neighbourhood, 20, 50)


@pytest.mark.soak
def test_a_thousand_clients_are_pinned_under_load(neighbourhood: Neighbourhood) -> None:
    many_pinned(neighbourhood, 1000, 100)


@pytest.mark.soak
def test_wrong_passwords_leave_nothing_in_memory(neighbourhood: Neighbourhood) -> None:
    def wrong(number: int) -> None:
        with Peer.connect(neighbourhood.port) as peer:
            peer.send(raw.PROTOCOL_HEADER)
            peer.expect(10, 10)
            peer.send(raw.start_ok(password=f"wrong {number}"))
            close = peer.closed()
            assert close is not None
            assert close.code == 403

    with Beside(neighbourhood), ThreadPoolExecutor(20) as threads:
        list(threads.map(wrong, range(2000)))
        before = neighbourhood.fleet.rss()
        list(threads.map(wrong, range(2000, 22_000)))
        assert neighbourhood.fleet.rss() < before + 8 * 1024 * 1024


def test_a_neighbour_that_reads_nothing_costs_nobody_anything(neighbourhood: Neighbourhood) -> None:
    """It publishes what is returned to it, until neither the proxy nor its own system takes any more."""
    returned = raw.publish(1, "nowhere", bits=1) + raw.content(1, bytes(4000))
    with Beside(neighbourhood):
        peer = neighbourhood.opened(1)
        peer.stream.settimeout(2.0)
        with suppress(OSError):
            for _ in range(5000):
                peer.send(returned)
        peer.stream.close()
