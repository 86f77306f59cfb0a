"""`amqproxy run`: how it begins, drains and ends."""

import os
import signal
import socket
from pathlib import Path

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.cli.failure import FAILED, INTERRUPTED, MISUSED, UNHEARD
from tests.cli.outcome import Amqproxy
from tests.cli.process import BROKERS, DEADLINE, opened, port_in, start, until
from tests.transcripts.words import octets

pytestmark = pytest.mark.slow

HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"


def test_help_names_every_flag(amqproxy: Amqproxy) -> None:
    out = amqproxy("run", "--help").out
    for flag in (
        "listen",
        "upstream",
        "metrics",
        "print",
        "json",
        "filter",
        "exit-on-closed-output",
        "log-format",
        "log-level",
        "config",
    ):
        assert f"--{flag}" in out


def test_an_address_that_cannot_be_had(amqproxy: Amqproxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        listening = amqproxy("run", "--listen", address)
        scraped = amqproxy("run", "--listen", "127.0.0.1:0", "--metrics", address)
    assert (listening.code, scraped.code) == (FAILED, FAILED)
    assert listening.err.endswith(f"amqproxy: cannot listen on {address}: Address already in use\n")
    assert scraped.err.endswith(f"amqproxy: cannot serve metrics on {address}: Address already in use\n")


def test_run_does_not_connect_to_itself(amqproxy: Amqproxy) -> None:
    code, _, err = amqproxy("run", "--listen", "127.0.0.1:7777", "--upstream", "127.0.0.1:7777")
    assert code == MISUSED
    assert "which is a listener of this proxy" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(number: signal.Signals) -> None:
    with start("run", "--listen", "127.0.0.1:0") as process:
        until(process, "listening")
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert out == ""
    assert "draining" in err
    assert "stopped" in err


def test_a_second_signal_ends_it_at_once() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as broker,
        start("run", "--listen", "127.0.0.1:0", "--upstream", f"127.0.0.1:{broker.getsockname()[1]}") as process,
    ):
        port = port_in(until(process, "listening"))
        with opened(port, broker) as client:
            client.sendall(b"\1\0\1\0\0\0\5\0\x14\0\x0a\0\xce\1\0\1\0\0\0\x0d\0<\0(\0\0\0\3key\0\xce")
            process.send_signal(signal.SIGINT)
            until(process, "draining")
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=5)
    assert process.returncode == INTERRUPTED


@pytest.mark.parametrize("ends", [True, False])
def test_printing_until_the_reader_goes_away(ends: bool) -> None:
    """Printing ends with one line in the log; only where that is asked for, the proxy drains."""
    options = ["--exit-on-closed-output"] if ends else []
    with (
        socket.create_server(("127.0.0.1", 0)) as broker,
        start(
            *("run", "--print", "--listen", "127.0.0.1:0", *options),
            *("--upstream", f"127.0.0.1:{broker.getsockname()[1]}"),
        ) as process,
    ):
        assert process.stdout is not None
        port = port_in(until(process, "listening"))
        with opened(port, broker) as client:
            lines = [process.stdout.readline() for _ in range(7)]
            assert "protocol header: 0-9-1" in lines[0]
            assert [line.split()[3] for line in lines[1:]] == ["ch"] * 6
            assert "connection.open-ok" in lines[-1]
            process.stdout.close()
            client.sendall(b"\x08\0\0\0\0\0\0\xce")
            assert "the reader of standard output is gone" in until(process, "printing ended")
            if not ends:
                client.sendall(HEARTBEAT * 100)
                assert len(BROKERS[-1].recv(101 * len(HEARTBEAT), socket.MSG_WAITALL)) == 101 * len(HEARTBEAT)
                opened(port, broker).close()
                process.send_signal(signal.SIGTERM)
            until(process, "draining")
            client.sendall(b"\1\0\0\0\0\0\4\0\x0a\0\x33\xce")
            for each in BROKERS:
                each.close()
        assert process.stderr is not None
        rest = process.stderr.read()
        assert process.wait(DEADLINE) == (UNHEARD if ends else 0)
    assert "Traceback" not in rest
    assert "Broken" not in rest
    assert "printing" not in rest


def test_bodies_are_printed_on_request() -> None:
    publish = Command(1, BasicPublish(routing_key="k"), body=b"hello")
    with (
        socket.create_server(("127.0.0.1", 0)) as broker,
        start(
            *("run", "--print", "--body=4", "--listen", "127.0.0.1:0"),
            *("--upstream", f"127.0.0.1:{broker.getsockname()[1]}"),
        ) as process,
    ):
        assert process.stdout is not None
        port = port_in(until(process, "listening"))
        with opened(port, broker) as client:
            for sender, frames in ((client, octets("1: channel.open")), (BROKERS[-1], octets("1: channel.open-ok"))):
                sender.sendall(frames)
                receiver = BROKERS[-1] if sender is client else client
                assert receiver.recv(len(frames), socket.MSG_WAITALL) == frames
            client.sendall(publish.encode(0))
            lines = [process.stdout.readline() for _ in range(12)]
            assert lines[-1].endswith("ch 1      body  5 bytes  hell\n")
        process.terminate()
        process.communicate(timeout=DEADLINE)


@pytest.mark.parametrize("flags", [["--filter", "size > 1"], ["--exit-on-closed-output"], ["--body"], ["--body=5"]])
def test_flags_of_printing_need_it(flags: list[str], amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("run", "--listen", "127.0.0.1:0", *flags)
    assert (code, out) == (MISUSED, "")
    assert err.count("\n") == 1
    assert flags[0].partition("=")[0] in err
    assert "needs --print, --messages or --json" in err


def test_a_reader_that_stops_reading_does_not_keep_it_from_ending() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as broker,
        start(
            *("run", "--print", "--json", "--listen", "127.0.0.1:0"),
            *("--upstream", f"127.0.0.1:{broker.getsockname()[1]}"),
        ) as process,
    ):
        port = port_in(until(process, "listening"))
        with opened(port, broker) as client:
            client.sendall(b"\x08\0\0\0\0\0\0\xce" * 5_000)
            client.shutdown(socket.SHUT_WR)
            BROKERS[-1].close()
            until(process, "connection closed")
            process.terminate()
            assert process.stderr is not None
            process.stderr.read()
            assert process.wait(DEADLINE) == 0


def test_signals_work_while_the_upstream_cannot_be_reached() -> None:
    """The client's session waits for an upstream that accepts no connection."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as broker,
        start(*("run", "--listen", "127.0.0.1:0"), *("--upstream", f"127.0.0.1:{broker.getsockname()[1]}")) as process,
    ):
        port = port_in(until(process, "listening"))
        address = broker.getsockname()
        fillers = [_connecting(address) for _ in range(8)]  # they fill the line of those who wait to be accepted
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as client:
            client.sendall(b"AMQP\0\0\x09\1")
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=DEADLINE)
        for each in fillers:
            each.close()
    assert process.returncode == 0
    assert "stopped" in err


def _connecting(address: tuple[str, int]) -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    made.connect_ex(address)
    return made


@pytest.mark.parametrize("command", [["run", "--config"], ["broker", "--listen", "127.0.0.1:0", "--definitions"]])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, INTERRUPTED)])
def test_a_signal_ends_it_while_it_starts(
    command: list[str], number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """What it reads first never comes."""
    file = tmp_path / "some.yaml"
    os.mkfifo(file)
    with start(*command, str(file)) as process:
        writing = file.open("w")  # which comes back once it reads
        process.send_signal(number)
        _, err = process.communicate(timeout=DEADLINE)
        writing.close()
    assert (process.returncode, err) == (code, "")
