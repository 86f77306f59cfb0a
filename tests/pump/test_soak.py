"""The soak itself: that it notices what it is there for, and that it passes for a few seconds."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from random import Random

import pytest

from amqproxy.pump.pumps import are_available
from tests.pump.conversation import DIALECTS, End, NotIdentical
from tests.pump.dialect import Dialect
from tests.pump.soak import MEBIBYTE, Soak

ROOT = Path(__file__).parents[2]


def ends(dialect: Dialect = DIALECTS[0]) -> tuple[End, End]:
    client, broker = End("client", dialect), End("server", dialect)
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


@pytest.mark.parametrize("dialect", DIALECTS)
def test_only_a_torn_connection_may_be_closed_by_the_proxy(dialect: Dialect) -> None:
    forced = dialect.forced
    for received in ([b"abc" + forced], [b"abc", forced], [b"abc", forced[:1], forced[1:]]):
        client, broker = ends(dialect)
        client.outgoing[3:] = forced[:2] + b"\2def"
        for data in received:
            broker.arrive(data, client, is_torn=True)
    client, broker = ends(dialect)
    client.outgoing[:] = b"abc" + dialect.declare(1)[0][:17]
    broker.arrive(b"abc" + forced, client, is_torn=True)
    client, broker = ends(dialect)
    with pytest.raises(NotIdentical):
        broker.arrive(b"abc" + forced, client, is_torn=False)


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
