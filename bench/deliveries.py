"""Deliveries with consecutive delivery tags from 1 on, as brokers number them, and their acknowledgements."""

from __future__ import annotations

import socket
import threading
import time

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import BasicConsume, BasicConsumeOk
from bench import load, talk

BLOCK = 4096
"""Messages that are sent at once; from block to block, only the upper bytes of their delivery tags differ."""

TAG_SIZE = 8
DELIVERY_TAG_AT = 7 + 4 + 1 + len(talk.CONSUMER)
ACK_TAG_AT = 7 + 4


class NumberedFrames:
    """A block of copies of some frames, each with its own delivery tag at `tag_at` in the copy."""

    def __init__(self, frames: bytes, tag_at: int) -> None:
        self.size = len(frames)
        self._tag_at = tag_at
        self._data = bytearray(frames * BLOCK)
        self._put(7, bytes(number & 0xFF for number in range(BLOCK)))
        self._upper = bytes(number >> 8 for number in range(BLOCK))
        self._put(6, self._upper)
        self._block = 0

    def block(self, number: int) -> memoryview:
        """Return the copies with the tags from `number * BLOCK` on; valid until the next call."""
        before, first = ((each * BLOCK).to_bytes(TAG_SIZE) for each in (self._block, number))
        self._block = number
        for place in range(TAG_SIZE - 1):
            if first[place] != before[place]:
                column = first[place : place + 1] * BLOCK
                if place == TAG_SIZE - 2:
                    column = (int.from_bytes(self._upper) | int.from_bytes(column)).to_bytes(BLOCK)
                self._put(place, column)
        return memoryview(self._data)

    def _put(self, place: int, column: bytes) -> None:
        self._data[self._tag_at + place :: self.size] = column


def count(blocks: int) -> int:
    """Return the number of messages in `blocks` blocks; the tag 0 is never sent."""
    return blocks * BLOCK - 1


def subscribe(sock: socket.socket, ack_every: int) -> None:
    """Consume from the queue "bench" on channel 1; if `ack_every` is 0, without acknowledgements."""
    sock.sendall(_consume(ack_every))
    talk.read_method(sock)


def serve(sock: socket.socket, message: bytes, blocks: int, ack_every: int) -> list[float]:
    """Act as the broker: send all messages, read the acknowledgements, close; return when it began and ended."""
    wanted = _consume(ack_every)
    if talk.read_exactly(sock, len(wanted)) != wanted:
        raise ValueError("the client does not consume")
    sock.sendall(encode_method(1, BasicConsumeOk(talk.CONSUMER)))
    began = time.monotonic()
    sending = threading.Thread(target=_send, args=(sock, message, blocks))
    sending.start()
    left = len(talk.ack()) * -(-count(blocks) // ack_every) if ack_every else 0
    buffer = memoryview(bytearray(load.BUFFER))
    while left:
        got = sock.recv_into(buffer, min(left, load.BUFFER))
        if not got:
            raise ValueError(f"closed {left} bytes too early")
        left -= got
    sending.join()
    ended = time.monotonic()
    load.flood([sock], b"", 0)
    return [began, ended]


def _send(sock: socket.socket, message: bytes, blocks: int) -> None:
    frames = NumberedFrames(message, DELIVERY_TAG_AT)
    sock.sendall(frames.block(0)[frames.size :])
    for number in range(1, blocks):
        sock.sendall(frames.block(number))


def receive(sock: socket.socket, message: bytes, blocks: int, ack_every: int) -> list[float]:
    """Act as the client: read all messages, acknowledge every `ack_every`; return when the last message arrived.

    With 1 each message is acknowledged singly, with more several at once, with 0 none.
    """
    total = count(blocks)
    if not ack_every:
        return load.sink([sock], total * len(message))
    buffer = memoryview(bytearray(load.BUFFER))
    acknowledgements = NumberedFrames(talk.ack(), ACK_TAG_AT)
    received = acked = 0
    while received < total * len(message):
        got = sock.recv_into(buffer, min(load.BUFFER, total * len(message) - received))
        if not got:
            raise ValueError("closed too early")
        received += got
        come = received // len(message)
        if ack_every == 1:
            _acknowledge(sock, acknowledgements, acked + 1, come + 1)
            acked = come
        while ack_every > 1 and (come - acked >= ack_every or acked < come == total):
            acked = min(acked + ack_every, total)
            sock.sendall(talk.ack(acked, multiple=True))
    ended = time.monotonic()
    load.sink([sock], 0)
    return [ended]


def _acknowledge(sock: socket.socket, frames: NumberedFrames, first: int, stop: int) -> None:
    """Acknowledge the tags from `first` up to, but not including, `stop` singly."""
    while first < stop:
        number = first // BLOCK
        until = min(stop, (number + 1) * BLOCK)
        start, end = first - number * BLOCK, until - number * BLOCK
        sock.sendall(frames.block(number)[start * frames.size : end * frames.size])
        first = until


def _consume(ack_every: int) -> bytes:
    return encode_method(1, BasicConsume(queue="bench", consumer_tag=talk.CONSUMER, no_ack=not ack_every))
