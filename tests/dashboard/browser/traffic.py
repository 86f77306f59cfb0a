"""Clients of a proxy: a bit of everything, much of one thing, and what is meant to do harm."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pika
import pika.exceptions

from tests.real import raw

EVIL = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>\'"&lt;{{7*7}}${7*7}\u202e\u0000🦀'

RECORDS = 3
"""Frames of a message."""


def connected(port: int, name: str = "") -> pika.BlockingConnection:
    properties = {"connection_name": name} if name else {}
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", port, client_properties=properties, heartbeat=0)
    )


@contextmanager
def one_of_everything(port: int) -> Iterator[None]:
    """Declare, publish with confirms, have one returned, consume, acknowledge, make a mistake; and stay."""
    with connected(port, "shop") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("orders", "topic")
        channel.queue_declare("orders")
        channel.queue_bind("orders", "orders", "order.*")
        for number in range(20):
            properties = pika.BasicProperties(
                content_type="application/json", headers={"tenant": "acme"}, message_id=str(number)
            )
            channel.basic_publish("orders", "order.new", json.dumps({"order": number}).encode(), properties)
        with suppress(pika.exceptions.UnroutableError):
            channel.basic_publish("orders", "nowhere", b"lost?", mandatory=True)
        for method, _, _ in channel.consume("orders", inactivity_timeout=10):
            channel.basic_ack(method.delivery_tag)
            if method.delivery_tag == 10:
                break
        channel.cancel()
        with suppress(pika.exceptions.ChannelClosedByBroker):
            connection.channel().queue_declare("none", passive=True)
        with connected(port, "gone soon"):
            pass
        yield


@contextmanager
def publishing(port: int, rate: float) -> Iterator[None]:
    """So many frames a second, of messages of 100 bytes, for as long as the block runs."""
    body = bytes(range(32, 127)) + b"12345"
    one = raw.message(1, "nowhere", body)
    is_over = threading.Event()

    def send(peer: raw.Peer) -> None:
        began, sent = time.monotonic(), 0
        while not is_over.wait(0.005):
            due = round((time.monotonic() - began) * rate / RECORDS)
            if due > sent:
                peer.send(one * (due - sent))
                sent = due

    with raw.Peer.opened(port, 1) as peer:
        thread = threading.Thread(target=send, args=(peer,))
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def do_harm(port: int) -> None:
    """A client all of whose names and values are scripts, and are long; one more has a header of 1 MiB."""
    text = EVIL.replace("\u0000", "")
    table = {
        text[:120]: text,
        "list": [text, {"nested": text}],
        "bytes": EVIL.encode() + b"\xff\xfe",
        "long": "🦀" * 20_000,
    }
    with connected(port, text) as connection:
        channel = connection.channel()
        queue = channel.queue_declare(text[:100], exclusive=True).method.queue
        channel.exchange_declare(text[:90], "headers", auto_delete=True)
        channel.queue_bind(queue, text[:90], text[:100], arguments={"x": text})
        properties = pika.BasicProperties(
            content_type="text/html",
            content_encoding=text[:50],
            headers=table,
            correlation_id=text,
            reply_to=text,
            expiration="60000",
            message_id=text,
            type=text,
            user_id="guest",
            app_id=text,
            cluster_id=text,
        )
        for body in (
            EVIL.encode(),
            b"\xff" + EVIL.encode(),
            json.dumps({EVIL: EVIL}).encode(),
            "👩‍👩‍👧‍👦".encode() * 2_000,
        ):
            channel.basic_publish("", queue, body, properties)
        channel.basic_consume(queue, lambda *_: None, consumer_tag=text[:100])
        connection.process_data_events(0.2)
        with suppress(pika.exceptions.ChannelClosedByBroker):
            connection.channel().queue_declare(text[:80], passive=True)
    with raw.Peer.opened(port, 1, frame_max=4 << 20) as peer:
        value = ("<script>window.hurt=1</script>" * 40_000)[: 1 << 20].encode()
        headers = raw.shortstr("large") + b"S" + raw.longstr(value)
        peer.send(
            raw.method(1, 60, 40, b"\0\0" + raw.shortstr("") + raw.shortstr("huge") + b"\0"),
            raw.header(1, 1, flags=0x2000, properties=raw.longstr(headers)),
            raw.body(1, b"!"),
            raw.queue_declare(1),
        )
        peer.expect(50, 11)
