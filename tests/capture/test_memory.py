"""Memory does not depend on the size of a capture: `make soak` reads 2 GB through a pipe."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.capture.compression import zstd
from tests.capture import building
from tests.capture.building import ACK, CLIENT, FIN, SERVER, SYN

MEGABYTE = 1_000_000
ALLOWANCE = 40 * 1024
"""KiB that a large capture may take more than a small one."""

MESSAGES = 200
"""Of one connection; then the next one comes, of another client."""


def connection(number: int) -> Iterator[tuple[bool, int, bytes]]:
    """What passes: whether the client sends it, the flags, the bytes."""
    yield True, SYN, b""
    yield False, SYN | ACK, b""
    yield True, ACK, HEADER
    yield False, ACK, encode_method(0, ConnectionTune(2047, 131072, 60))
    yield True, ACK, encode_method(0, ConnectionTuneOk(2047, 131072, 60)) + encode_method(1, ChannelOpen())
    yield False, ACK, encode_method(1, ChannelOpenOk())
    yield True, ACK, encode_method(1, ConfirmSelect())
    yield False, ACK, encode_method(1, ConfirmSelectOk())
    for each in range(1, MESSAGES + 1):
        publish = BasicPublish(exchange="e", routing_key=f"key.{number}.{each}")
        yield True, ACK, Command(1, publish, body=bytes(200 if each % 2 else 40_000)).encode(0)
        yield False, ACK, encode_method(1, BasicAck(each))
    yield True, ACK | FIN, b""
    yield False, ACK | FIN, b""


def capture(size: int) -> Iterator[bytes]:
    """A capture of so many bytes, piece by piece, in which a tenth of all segments is missing from the third on."""
    yield building.section() + building.interface()
    written = stamp = number = 0
    while written < size:
        number += 1
        port = 1024 + number % 60_000
        seqs = {True: 1, False: 1}
        pieces = []
        for is_client, flags, payload in connection(number):
            stamp += 100
            ports, ends = (port, 5672), (CLIENT, SERVER)
            if not is_client:
                ports, ends = ports[::-1], ends[::-1]
            ack = seqs[not is_client]
            segment = building.tcp(payload, source=ports[0], target=ports[1], seq=seqs[is_client], ack=ack, flags=flags)
            seqs[is_client] += len(payload) + (flags & (SYN | FIN) > 0)
            if number < 3 or not payload or stamp % 1000:
                packet = building.ethernet(building.ipv4(segment, source=ends[0], target=ends[1]))
                pieces.append(building.enhanced(stamp, packet))
        piece = b"".join(pieces)
        written += len(piece)
        yield piece


def peak(size: int, *options: str, is_packed: bool = False) -> int:
    """KiB that `decode` took for a capture from a pipe."""
    program = (
        "import resource, sys; from amqproxy.cli import main\n"
        "try: main()\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "decode", *options, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    writer = threading.Thread(target=_write, args=(process.stdin, size, is_packed))
    writer.start()
    said = process.stderr.read().split()
    writer.join()
    process.stderr.close()
    assert process.wait() == 0, said
    return int(said[-1])


def _write(pipe: BinaryIO, size: int, is_packed: bool) -> None:
    packer = zstd.ZstdCompressor()
    with pipe:
        for piece in capture(size):
            pipe.write(packer.compress(piece) if is_packed else piece)
        if is_packed:
            pipe.write(packer.flush())


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("megabytes", [300, 2000])
@pytest.mark.parametrize("options", [["--json"], ["--messages", "--findings"]], ids=["frames", "messages"])
def test_a_large_capture_takes_no_more_than_a_small_one(options: list[str], megabytes: int) -> None:
    assert peak(megabytes * MEGABYTE, *options) < peak(30 * MEGABYTE, *options) + ALLOWANCE


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_nor_does_a_compressed_one() -> None:
    assert peak(500 * MEGABYTE, "--json", is_packed=True) < peak(30 * MEGABYTE, "--json", is_packed=True) + ALLOWANCE
