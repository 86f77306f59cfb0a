"""`amqproxy mock`."""

import json
import signal
import socket
from pathlib import Path

from amqproxy.amqp010.commands import TxSelect
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.cli.failure import FAILED, MISUSED
from tests.amqp010.recorded import FOLDER
from tests.cli.outcome import Amqproxy
from tests.cli.process import DEADLINE, connected, port_in, start, until
from tests.real.amqp010_peer import Amqp010Peer

CONFIRMS = str(Path(__file__).parent.parent.parent / "captures" / "confirms.pcapng")


def test_a_client_that_does_otherwise() -> None:
    """Its address is printed at once, what the client did otherwise when it has gone; and the exit code tells it."""
    process = start("mock", CONFIRMS, "--listen", "127.0.0.1:0", "--once", "--speed", "10", "--json")
    with connected(port_in(until(process, "listening"))) as connection:
        assert connection.channel().queue_declare("", exclusive=True).method.queue.startswith("amq.gen-")
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == FAILED
    assert "did not act as recorded" in err
    (report,) = [json.loads(line) for line in out.splitlines()]
    assert (report["report"], report["user"], report["stream"]) == ("mocked", "guest", 0)
    assert [(each["kind"], each["method"]) for each in report["differences"]] == [
        ("changed", "queue.declare"),
        ("missing", "confirm.select"),
        ("missing", "basic.publish"),
        ("missing", "basic.publish"),
        ("missing", "basic.publish"),
    ]


def test_until_a_signal_ends_it() -> None:
    process = start("mock", CONFIRMS, "--listen", "127.0.0.1:0", "--loop")
    port = port_in(until(process, "listening"))
    with connected(port) as connection:
        connection.channel()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert "(guest) played #0 127.0.0.1:" in out
    assert "queue.declare  (missing)" in out


def test_a_client_of_the_other_protocol_is_named() -> None:
    process = start("mock", CONFIRMS, "--listen", "127.0.0.1:0")
    with socket.create_connection(("127.0.0.1", port_in(until(process, "listening"))), DEADLINE) as client:
        client.sendall(HEADER)
        line = until(process, "refused")
    assert "the client does not speak AMQP 0-9-1, which is what the recording has" in line
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE)


def test_misuse(amqproxy: Amqproxy) -> None:
    for wrong in (
        [],
        ["--speed", "-1"],
        ["--user", "nobody"],
        ["--tls-cert", "x"],
        ["-x"],
        ["--listen", "127.0.0.1:99999"],
    ):
        assert amqproxy("mock", *([CONFIRMS] if wrong else []), *wrong).code == MISUSED
    for wrong in (["missing.pcap"], [CONFIRMS, "--listen", "192.0.2.1:0"]):
        assert amqproxy("mock", *wrong).code == FAILED


def test_a_recording_of_0_10_beside_one_of_0_9_1() -> None:
    """A client of either protocol is served, and reported."""
    files = [CONFIRMS, str(FOLDER / "brokerj9.2__jms-010-tx.pcapng.gz")]
    process = start("mock", *files, "--listen", "127.0.0.1:0", "--speed", "0", "--json")
    port = port_in(until(process, "listening"))
    with Amqp010Peer(port, vhost="test") as peer, connected(port) as connection:
        peer.attach()
        peer.send(1, TxSelect(sync=True))
        assert peer.expect("session.completed").method.commands.ranges == ((0, 0),)
        assert connection.channel().queue_declare("", exclusive=True).method.queue.startswith("amq.gen-")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE)
    reports = {each["stream"]: each for each in map(json.loads, out.splitlines())}
    assert [reports[stream]["user"] for stream in (0, 1)] == ["guest", "guest"]
    assert {"queue.declare", "tx.commit"} <= {each["method"] for each in reports[1]["differences"]}
