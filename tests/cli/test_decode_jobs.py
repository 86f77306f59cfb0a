"""Decoding by several processes: the lines of one, in their order."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from amqproxy.capture.byte_window import OnRead
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded
from amqproxy.capture.share import Share
from amqproxy.capture.warnings import OnWarning, ignore_warning
from amqproxy.cli.decode_jobs import lines_of_jobs
from amqproxy.cli.failure import Failure
from tests.capture import building, golden
from tests.cli.conftest import Amqproxy

CAPTURES = golden.captures()


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--json"],
        ["--json", "--body", "--filter", "exchange != ''"],
        ["--messages", "--json"],
        ["--fields", "stream,method,channel", "--header"],
    ],
)
@pytest.mark.parametrize("jobs", ["2", "5"])
def test_the_lines_are_those_of_one_process(amqproxy: Amqproxy, options: list[str], jobs: str) -> None:
    files = [str(path) for path in CAPTURES]
    one = amqproxy("decode", *files, *options)
    several = amqproxy("decode", *files, *options, "--jobs", jobs)
    assert one.code == several.code == 0
    assert several.out == one.out
    assert several.err == one.err
    assert one.out.count("\n") > len(files)


def test_a_damaged_file_ends_as_in_one_process(amqproxy: Amqproxy, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pcapng"
    whole = golden.FOLDER.joinpath("confirms.ports-reused.pcapng").read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2 // 4 * 4] + b"\xff" * 64)
    one = amqproxy("decode", str(damaged))
    assert one.code != 0
    assert amqproxy("decode", str(damaged), "--jobs", "3") == one


def test_streams_without_amqp_are_counted_once(amqproxy: Amqproxy, tmp_path: Path) -> None:
    capture = tmp_path / "http.pcap"
    request = b"GET / HTTP/1.1\r\n\r\n"
    segments = [building.tcp(request, source=40_000 + number, target=80) for number in range(5)]
    capture.write_bytes(building.pcap([(1, building.ethernet(building.ipv4(each))) for each in segments]))
    one = amqproxy("decode", str(capture))
    assert "5 TCP streams without AMQP" in one.err
    assert amqproxy("decode", str(capture), "--jobs", "2") == one


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--jobs", "0"], "1 to 64"),
        (["--jobs", "2", "--findings"], "--jobs is for frames and --messages"),
        (["--jobs", "2", "--follow", "1"], "--jobs is for frames and --messages"),
    ],
)
def test_what_one_process_has_to_do(amqproxy: Amqproxy, options: list[str], said: str) -> None:
    ended = amqproxy("decode", str(CAPTURES[0]), *options)
    assert ended.code == 2
    assert said in ended.err


class Stuck:
    """A view that gives a line, and then does what it is told."""

    def __init__(self, killed: bool) -> None:
        self._is_killed = killed

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        for each in decoded:
            yield "x" * (1 << 20)
            if self._is_killed and each.stream % 2 == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0 if self._is_killed else 3600)

    def finish(self) -> Iterator[str]:
        return iter(())


def read(share: Share, notify: OnWarning, on_read: OnRead) -> Iterator[Decoded]:
    return read_decoded(CAPTURES, notify, on_read, share=share)


def test_a_process_that_is_killed_is_an_error() -> None:
    with pytest.raises(Failure, match=r"a process of --jobs ended unexpectedly \(SIGKILL\)"):
        list(lines_of_jobs(Stuck(killed=True), read, 2, "name", ignore_warning, lambda _: None))
    assert multiprocessing.active_children() == []


def test_all_end_with_the_reader() -> None:
    """As after Ctrl-C, which the others ignore: there is one that says so."""
    lines = lines_of_jobs(Stuck(killed=False), read, 3, "name", ignore_warning, lambda _: None)
    assert next(lines)
    assert len(multiprocessing.active_children()) == 3
    lines.close()
    assert multiprocessing.active_children() == []
