"""`amqproxy run`: how it begins, drains and ends."""

import signal
import socket

import pytest

from amqproxy.cli.failure import FAILED, INTERRUPTED, MISUSED, UNHEARD
from tests.cli.outcome import Amqproxy
from tests.cli.process import BROKERS, DEADLINE, opened, port_in, start, until


def test_help_names_every_flag(amqproxy: Amqproxy) -> None:
    out = amqproxy("run", "--help").out
    for flag in ("listen", "upstream", "metrics", "print", "json", "log-format", "log-level", "config"):
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
    assert "which is where we listen" in err


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


def test_printing_until_the_reader_goes_away() -> None:
    """Its going away drains the proxy, without a word about it on standard error."""
    with (
        socket.create_server(("127.0.0.1", 0)) as broker,
        start(
            *("run", "--print", "--listen", "127.0.0.1:0"), *("--upstream", f"127.0.0.1:{broker.getsockname()[1]}")
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
            until(process, "draining")
            client.sendall(b"\1\0\0\0\0\0\4\0\x0a\0\x33\xce")
            BROKERS[-1].close()
        assert process.stderr is not None
        rest = process.stderr.read()
        assert process.wait(DEADLINE) == UNHEARD
    assert "Traceback" not in rest
    assert "Broken" not in rest


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
