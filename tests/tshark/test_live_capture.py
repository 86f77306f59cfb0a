"""`amqproxy sniff`: live, with the output of `decode`."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from amqproxy.amqp010.commands import QueueDeclare
from amqproxy.testing.local_broker import LocalBroker
from tests.capture import golden
from tests.cli.outcome import Amqproxy
from tests.cli.process import COMMAND, DEADLINE
from tests.dashboard.conftest import capture_of
from tests.real import raw
from tests.real.amqp010_peer import Amqp010Peer
from tests.real.require import missing, require, require_module

pytestmark = [pytest.mark.real, pytest.mark.once]

CAPTURE = golden.FOLDER / "confirms.pcapng"


@pytest.fixture(autouse=True)
def _tshark() -> None:
    require("tshark")
    require_module("pyshark")


@pytest.fixture
def _rights(tmp_path: Path) -> None:
    command = [
        require("dumpcap", package="wireshark-common"),
        "-q",
        "-i",
        "lo",
        "-a",
        "duration:1",
        "-w",
        tmp_path / "x",
    ]
    if subprocess.run(command, capture_output=True).returncode:
        missing("the right to capture from lo", "run the tests as root, or see what dumpcap says")


@contextmanager
def sniffing(*options: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """`sniff`, once it captures, and the lines that it prints."""
    process = subprocess.Popen([*COMMAND, "sniff", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reader.start()
    try:
        line = process.stderr.readline()
        assert "capturing from" in line, line + process.stderr.read()
        yield process, lines
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
        process.stderr.close()


def ended(process: subprocess.Popen[str], number: int = signal.SIGINT) -> str:
    """What it says in the end."""
    process.send_signal(number)
    assert process.wait(DEADLINE) == 0
    assert process.stderr is not None
    return process.stderr.read()


@pytest.mark.usefixtures("_rights")
def test_what_passes_on_an_interface() -> None:
    """Each line is there as soon as its packet passed; in the end there are figures."""
    with LocalBroker() as broker, sniffing("-i", "lo", "--port", str(broker.port), "--json") as (process, lines):
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
        channel = connection.channel()
        channel.basic_publish("", "nowhere", b"hello")
        channel.queue_declare("", exclusive=True)
        deadline = threading.Event()
        while not any('"queue.declare-ok"' in line for line in lines):
            assert not deadline.wait(0.05)  # until the test itself is out of time
        connection.close()
        said = ended(process)
    records = [json.loads(line) for line in lines]
    assert [each["type"] for each in records[:2]] == ["protocol-header", "method"]
    assert {each["connection"].rpartition(":")[2] for each in records} == {str(broker.port)}
    assert not [each for each in records if each["type"] == "error"]
    assert "0 dropped; 1 AMQP connections, " in said


@pytest.mark.usefixtures("_rights")
def test_an_interface_that_is_none(amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("sniff", "-i", "no-such-interface")
    assert (code, out) == (1, "")
    assert "no device named" in err
    assert "name one of: " in err
    assert ", lo" in err


# ------------------------------------------------------------------------------------- with another dumpcap


def stand_in(directory: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another dumpcap."""
    path = directory / "dumpcap"
    path.write_text(f"#!{sys.executable}\nimport os, signal, shutil, sys, time\n{program}")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


def test_the_rights_that_are_missing(amqproxy: Amqproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "print(\"Capturing on 'lo'\", file=sys.stderr)\n"
        "sys.exit('dumpcap: You do not have permission to capture on device \"lo\".')"
    )
    stand_in(tmp_path, program, monkeypatch)
    code, out, err = amqproxy("sniff", "-i", "lo")
    assert (code, out) == (1, "")
    assert 'sniff: lo: You do not have permission to capture on device "lo": run it as root' in err
    assert "setcap" in err


@pytest.mark.usefixtures("_rights")
def test_amqp_0_10_that_passes_on_an_interface() -> None:
    with LocalBroker() as broker, sniffing("-i", "lo", "--port", str(broker.port), "--json") as (process, lines):
        with Amqp010Peer(broker.port) as peer:
            peer.attach()
            peer.send(1, QueueDeclare("sniffed", sync=True))
            peer.publish(1, b"hello", key="sniffed")
            deadline = threading.Event()
            while not any('"message.transfer"' in line for line in lines):
                assert not deadline.wait(0.05)
        said = ended(process)
    records = [json.loads(line) for line in lines]
    assert [each["type"] for each in records[:2]] == ["protocol-header", "protocol-header"]
    assert {"control", "command", "header", "body"} <= {each["type"] for each in records}
    assert not [each for each in records if each["type"] == "error"]
    assert "0 dropped; 1 AMQP connections, " in said
    assert f", {len(records) - 2} frames" in said


@pytest.mark.parametrize(
    ("name", "method"), [("confirms", "basic.publish"), ("brokerj9.2__jms-010-tx", "message.transfer")]
)
def test_options_are_those_of_decode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amqproxy: Amqproxy, name: str, method: str
) -> None:
    """A dumpcap that writes a capture and ends, as with `-a duration`."""
    capture = capture_of(name)
    if capture.suffix == ".gz":
        capture = tmp_path / "plain.pcapng"
        capture.write_bytes(gzip.decompress(capture_of(name).read_bytes()))
    stand_in(tmp_path, f"shutil.copyfileobj(open({str(capture)!r}, 'rb'), sys.stdout.buffer)", monkeypatch)
    for options in (
        [],
        ["--json"],
        ["--messages"],
        ["--findings"],
        ["--fields", "from,method", "--header"],
        ["--filter", f"method == '{method}'", "--body=10"],
        ["--follow", "0/1"],
    ):
        code, out, _ = amqproxy("sniff", "-i", "lo", *options)
        assert (code, out) == (0, amqproxy("decode", str(capture), *options).out)


def test_an_interface_that_goes_down_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amqproxy: Amqproxy
) -> None:
    """After what was captured until then."""
    program = (
        f"shutil.copyfileobj(open({str(CAPTURE)!r}, 'rb'), sys.stdout.buffer)\n"
        "print(\"Capturing on 'lo'\\nPackets captured: 66\", file=sys.stderr)\n"
        "print('dumpcap: The network adapter is no longer running.', file=sys.stderr)\n"
        "sys.exit(2)"
    )
    stand_in(tmp_path, program, monkeypatch)
    code, out, err = amqproxy("sniff", "-i", "lo")
    assert (code, out) == (1, amqproxy("decode", str(CAPTURE)).out)
    assert "66 packets captured" in err
    assert err.endswith("sniff: lo: The network adapter is no longer running\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_capture_and_not_the_output(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was captured before it is decoded to its end."""
    program = (
        f"data = open({str(CAPTURE)!r}, 'rb').read()\n"
        "out = sys.stdout.buffer\n"
        "def stop(number, at):\n"
        "    out.write(data[2000:])\n"
        "    out.flush()\n"
        "    print('Packets captured: 66', file=sys.stderr)\n"
        "    print(\"Packets received/dropped on interface 'lo': 66/7 (pcap:0)\", file=sys.stderr)\n"
        "    os._exit(0)\n"
        "signal.signal(signal.SIGINT, stop)\n"
        "out.write(data[:2000])\n"
        "out.flush()\n"
        "while True: time.sleep(1)"
    )
    stand_in(tmp_path, program, monkeypatch)
    with sniffing("-i", "lo", "--json") as (process, lines):
        said = ended(process, number)
    assert lines == golden.records_path(CAPTURE).read_text().splitlines(keepends=True)
    assert "66 packets captured, 7 dropped; 1 AMQP connections, 31 frames" in said


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--port", "1", "--capture-filter", "tcp"], "exclude each other"),
        (["--port", "70000"], "between 1 and 65535"),
        (["--header"], "need --fields"),
        (["--findings", "--filter", "true"], "needs --messages"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], text: str, amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("sniff", "-i", "lo", *options)
    assert (code, out) == (2, "")
    assert text in err


def test_without_tshark(amqproxy: Amqproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pyshark.tshark.tshark.get_config", lambda: None)
    assert shutil.which("dumpcap") is None
    code, out, err = amqproxy("sniff", "-i", "lo")
    assert (code, out) == (1, "")
    assert "dumpcap is not installed: apt-get install tshark" in err
    monkeypatch.setitem(sys.modules, "pyshark.tshark", None)
    monkeypatch.setitem(sys.modules, "pyshark.tshark.tshark", None)
    assert "pyshark is not installed: pip install 'amqproxy[captures]'" in amqproxy("sniff", "-i", "lo").err


@pytest.mark.usefixtures("_rights")
def test_a_reset_that_passes_on_an_interface_ends_the_connection() -> None:
    with LocalBroker() as broker, sniffing("-i", "lo", "--port", str(broker.port), "--messages") as (process, lines):
        raw.Peer.opened(broker.port, 1).reset()
        deadline = threading.Event()
        while not any("connection closed: client reset the connection" in line for line in lines):
            assert not deadline.wait(0.05)
        ended(process)
