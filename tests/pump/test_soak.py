"""The soak itself: that it notices what it is there for, and that it passes for a few seconds."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from random import Random

import pytest

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import BasicAck
from amqproxy.pump.pumps import are_available
from tests.pump.conversation import FORCED, End, NotIdentical
from tests.pump.soak import MEBIBYTE, Soak

ROOT = Path(__file__).parents[2]


def ends() -> tuple[End, End]:
    client, broker = End("client"), End("server")
    client.outgoing += b"abcdef"
    return client, broker


def test_what_arrives_as_it_was_sent_is_no_longer_awaited() -> None:
    client, broker = ends()
    broker.arrive(b"abc", client, is_torn=False)
    assert bytes(client.outgoing) == b"def"
    assert not client.has_arrived.is_set()
    broker.arrive(b"def", client, is_torn=False)
    assert client.has_arrived.is_set()


@pytest.mark.parametrize("wrong", [b"abd", b"abcdefg", b"bc"])
def test_one_wrong_byte_is_noticed(wrong: bytes) -> None:
    client, broker = ends()
    with pytest.raises(NotIdentical):
        broker.arrive(wrong, client, is_torn=True)


def test_only_a_torn_connection_may_be_closed_by_the_proxy() -> None:
    for received in ([b"abc" + FORCED], [b"abc", FORCED], [b"abc", FORCED[:1], FORCED[1:]]):
        client, broker = ends()
        client.outgoing[3:] = b"\1\0\2def"
        for data in received:
            broker.arrive(data, client, is_torn=True)
    client, broker = ends()
    client.outgoing[:] = b"abc" + encode_method(1, BasicAck(1))[:17]
    broker.arrive(b"abc" + FORCED, client, is_torn=True)
    client, broker = ends()
    with pytest.raises(NotIdentical):
        broker.arrive(b"abc" + FORCED, client, is_torn=False)


def _with_memory(sizes: list[float]) -> Soak:
    soak = Soak(None, Path(), Namespace(), Random(0))  # type: ignore[arg-type]
    soak.rss = [(float(at), int(size * MEBIBYTE)) for at, size in enumerate(sizes)]
    return soak


def test_memory_that_grows_is_noticed() -> None:
    assert "+0 KiB an hour" in _with_memory([60.0] * 5 + [70.0] * 20).check_memory()
    with pytest.raises(AssertionError, match="KiB an hour"):
        _with_memory([60.0 + 0.5 * at for at in range(25)]).check_memory()
    peaks = [70.0, 66.0, 68.0, 60.0, 65.0] * 4
    assert "60.00 MiB early, 61.00 late" in _with_memory([*peaks, 75.0, 61.0, 90.0, 90.0, 90.0]).check_memory()
    with pytest.raises(AssertionError, match="KiB an hour"):
        _with_memory([*peaks, *[each + 5 for each in peaks[:5]]]).check_memory()
    assert "too few" in _with_memory([1.0, 100.0]).check_memory()


@pytest.mark.slow
@pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")
def test_a_short_one_passes() -> None:
    options = ["--minutes", "0.01", "--connections", "4", "--steps", "5", "--pause", "0.005"]
    command = [sys.executable, "-m", "tests.pump.soak", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    assert "passed" in done.stdout
