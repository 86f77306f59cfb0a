"""Clients that share upstream connections, some of which do what others must not notice."""

from __future__ import annotations

import struct
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from amqproxy.control import ControlClient
from tests.real import raw
from tests.real.fleet import Fleet
from tests.real.malformed import Case
from tests.real.poll import until
from tests.real.publishers import Publisher, declare, drained
from tests.real.raw import Peer

QUEUE = "neighbours"
BYSTANDERS = 4


class Neighbourhood:
    """A proxy with a pool in front of a broker at `port`."""

    def __init__(self, directory: Path, port: int, record: dict[str, Any] | None = None, **pool: Any) -> None:
        self.broker_port = port
        limits = {"handshake_timeout": 60.0}  # many clients come at once, on machines that are busy
        self.fleet = Fleet(directory, port, limits=limits, record=record, pool={"trust": 600.0, **pool})
        self.port = self.fleet.port
        self._visits = 0

    def stats(self, name: str) -> float:
        with ControlClient(self.fleet.socket) as control:
            samples = control.ask("stats")["metrics"]
        return sum(each["value"] for each in samples if each["name"] == name)

    def pool(self) -> dict[str, Any]:
        with ControlClient(self.fleet.socket) as control:
            (pool,) = control.ask("pools")["pools"]
        return dict(pool)

    def visitor(self) -> bytes:
        """Return properties of a client that has never been here, so that it is not pinned by habit."""
        self._visits += 1
        return raw.product(f"visitor {self._visits}")

    def opened(self, *channels: int, **options: Any) -> Peer:
        return Peer.opened(self.port, *channels, properties=self.visitor(), **options)


class Beside:
    """Clients that publish on the same shared connection for as long as the block lasts, and have lost nothing then."""

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        size: int = BYSTANDERS,
        queue: str = QUEUE,
        window: int = 5,
        pause: float = 0.005,
    ) -> None:
        self._neighbourhood, self._queue = neighbourhood, queue
        declare(neighbourhood.broker_port, queue)
        drained(neighbourhood.broker_port, queue)
        self.clients = [
            Publisher(neighbourhood.port, queue, f"bystander {each}", window, pause) for each in range(size)
        ]
        self._lost = neighbourhood.stats("amqproxy_pool_collateral_closes_total")

    def __enter__(self) -> Beside:
        for each in self.clients:
            each.start()
        until(lambda: all(each.confirmed or each.faults for each in self.clients), "all to publish")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for each in self.clients:
            each.is_over.set()
        for each in self.clients:
            each.join(60)
        if kind is not None:
            return
        assert [fault for each in self.clients for fault in each.faults] == []
        lost = self._neighbourhood.stats("amqproxy_pool_collateral_closes_total")
        assert lost == self._lost
        found = drained(self._neighbourhood.broker_port, self._queue)
        own = [body for body in found if body.startswith(b"bystander ")]
        for each in self.clients:
            prefix = f"{each.name} ".encode()
            numbers = [int(body.removeprefix(prefix)) for body in own if body.startswith(prefix)]
            assert numbers == list(range(each.published)), each.name
        assert self._neighbourhood.pool()["connections"] >= 1


def channel_errors(neighbourhood: Neighbourhood, name: str, errors: int, found: Counter[int]) -> None:
    """Have one client publish to an exchange that is missing, with other publishes before and behind, many times."""
    sent = confirmed = 0
    with neighbourhood.opened(*()) as peer:
        for number in range(errors):
            channel = 1 + number % 3
            peer.send(raw.channel_open(channel), raw.method(channel, 85, 10, b"\0"))
            good = b"".join(raw.message(channel, QUEUE, f"{name} {sent + each}".encode()) for each in range(3))
            bad = raw.publish(channel, "", exchange="missing") + raw.header(channel, 0)
            behind = b"".join(raw.message(channel, QUEUE, b"too late") for _ in range(5))
            peer.send(good, bad, behind)
            sent += 3
            last = 0
            while True:
                frame = peer.read()
                assert frame is not None, f"{name}: lost after {number} errors"
                if frame.method == (60, 80):
                    assert frame.channel == channel
                    tag = struct.unpack_from(">Q", frame.payload, 4)[0]
                    assert last < tag <= 3, (name, tag, last)
                    last = tag
                elif frame.close is not None:
                    assert (frame.close.method, frame.close.code, frame.channel) == (raw.CHANNEL_CLOSE, 404, channel)
                    peer.send(raw.method(channel, 20, 41))
                    break
            confirmed += last
            found[number] += last
        peer.send(raw.connection_close())
        peer.expect(10, 51)


def many_channel_errors(neighbourhood: Neighbourhood, clients: int, errors: int) -> None:
    with Beside(neighbourhood, queue="beside errors"), ThreadPoolExecutor(clients) as threads:
        declare(neighbourhood.broker_port, QUEUE)
        drained(neighbourhood.broker_port, QUEUE)
        counts = [Counter[int]() for _ in range(clients)]
        tasks = [
            threads.submit(channel_errors, neighbourhood, f"author {each}", errors, counts[each])
            for each in range(clients)
        ]
        for task in tasks:
            task.result()
    found = drained(neighbourhood.broker_port, QUEUE)
    assert b"too late" not in found
    assert len(found) == len(set(found)), "a message has come twice"
    for each in range(clients):
        numbers = [int(body.split()[-1]) for body in found if body.startswith(f"author {each} ".encode())]
        assert numbers == list(range(3 * errors))


def _publish_with(flags: int, properties: bytes) -> bytes:
    return raw.publish(1, "nowhere") + raw.header(1, 0, flags=flags, properties=properties)


def _headers(entry: bytes) -> bytes:
    return _publish_with(0x2000, raw.longstr(b"\x01k" + entry))


FURTHER = [
    Case("publish: immediate", "540", raw.publish(1, "q", bits=2) + raw.header(1, 0)),
    Case("publish: bytes behind the last argument", "", raw.method(1, 60, 40, bytes(5) + b"extra") + raw.header(1, 0)),
    Case("publish: unused bits", "carries on", raw.publish(1, "nowhere", bits=0xFC) + raw.header(1, 0)),
    Case("publish: malformed exchange", "", raw.method(1, 60, 40, b"\0\0\1\xff\0\0") + raw.header(1, 0)),
    Case("publish: missing exchange", "channel 404", raw.publish(1, "q", exchange="missing") + raw.header(1, 0)),
    Case(
        "publish: internal exchange",
        "channel 403",
        raw.publish(1, "q", exchange="amq.rabbitmq.trace") + raw.header(1, 0),
    ),
    Case("publish: wrong user_id", "channel 406", _publish_with(0x0010, raw.shortstr("somebody"))),
    Case("publish: wrong expiration", "channel 406", _publish_with(0x0100, raw.shortstr("soon"))),
    Case("publish: CC is not an array", "channel 406", _publish_with(0x2000, raw.longstr(b"\2CCI\0\0\0\1"))),
    *(
        Case(f"publish: header of type {each:c}", "", _headers(bytes([each]) + bytes(8)))
        for each in b"tbBUuIilLfdDsSATqz"
    ),
    *(Case(f"publish: header of type {each:c}", "541", _headers(bytes([each]) + bytes(8))) for each in b"FVx"),
    Case(
        "consume: a consumer tag twice",
        "530",
        raw.queue_declare(1, "", exclusive=True) + 2 * raw.method(1, 60, 20, b"\0\0\0" + raw.shortstr("t") + bytes(5)),
    ),
    Case("qos: prefetch_size", "540", raw.method(1, 60, 10, b"\0\0\0\1\0\0\0")),
    Case("recover: no requeue", "540", raw.method(1, 60, 110, b"\0")),
    Case("flow: inactive", "540", raw.method(1, 20, 20, b"\0")),
    Case("ack: unknown tag", "channel 406", raw.method(1, 60, 80, bytes(7) + b"\7\0")),
    Case("tx: commit without select", "channel 406", raw.method(1, 90, 20)),
    Case("tx: select with confirms", "channel 406", raw.method(1, 85, 10, b"\0") + raw.method(1, 90, 10)),
    Case(
        "exchange: unknown type",
        "",
        raw.method(1, 40, 10, b"\0\0" + raw.shortstr("odd") + raw.shortstr("odd") + bytes(5)),
    ),
    Case(
        "exchange: reserved name",
        "channel 403",
        raw.method(1, 40, 10, b"\0\0" + raw.shortstr("amq.odd") + raw.shortstr("direct") + bytes(5)),
    ),
    Case("queue: reserved name", "channel 403", raw.queue_declare(1, "amq.odd", exclusive=False)),
    Case(
        "queue: unknown queue type",
        "",
        raw.method(
            1, 50, 10, b"\0\0" + raw.shortstr("odd") + b"\2" + raw.longstr(b"\x0cx-queue-typeS" + raw.longstr(b"odd"))
        ),
    ),
    Case(
        "queue: master locator",
        "",
        raw.method(
            1,
            50,
            10,
            b"\0\0"
            + raw.shortstr("odd")
            + b"\2"
            + raw.longstr(raw.shortstr("x-queue-master-locator") + b"S" + raw.longstr(b"odd")),
        ),
    ),
    Case("secret: renewed", "", raw.method(0, 10, 70, raw.longstr(b"guest") + raw.shortstr("because"))),
    Case("channel: 3,000th", "", raw.channel_open(3000)),
    Case("channel: closed twice", "", 2 * raw.method(1, 20, 40, b"\0\xc8\0" + bytes(4))),
    Case(
        "channel: publish behind the close",
        "carries on",
        raw.method(1, 20, 40, b"\0\xc8\0" + bytes(4)) + raw.message(1, QUEUE, b"late"),
    ),
]
"""Further faults of clients, most of them hard errors of RabbitMQ; with "" whatever is answered."""
