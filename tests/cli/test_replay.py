"""`amqproxy replay`."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from amqproxy.cli.failure import FAILED, INTERRUPTED, MISUSED, UNHEARD
from amqproxy.testing.local_broker import LocalBroker
from tests.amqp010.recorded import FOLDER
from tests.cli.outcome import Amqproxy
from tests.cli.process import port_in, silent_broker, start, until

CAPTURES = Path(__file__).parent.parent.parent / "captures"
AMQP010 = str(FOLDER / "brokerj9.2__jms-010-tx.pcapng.gz")
CONFIRMS, BLOCKED, GET = (str(CAPTURES / f"{name}.pcapng") for name in ("confirms", "blocked", "publish-get-ack"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalBroker() as broker:
        yield broker.url


def test_the_same(amqproxy: Amqproxy, url: str) -> None:
    code, out, err = amqproxy("replay", CONFIRMS, "--to", url, "--speed", "max")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "1 connection, 11 commands sent, 12 answers compared, 0 differences"
    assert lines[1].startswith("latency")
    assert any(line.startswith("publish confirmed") for line in lines)


def test_different(amqproxy: Amqproxy, url: str) -> None:
    code, out, err = amqproxy("replay", BLOCKED, "--to", url, "--speed", "max")
    assert (code, err) == (FAILED, "amqproxy: replay: the broker's answers differ\n")
    assert out.splitlines()[0] == "- #0 connection.blocked: it did not come"


def test_as_json(amqproxy: Amqproxy, url: str) -> None:
    code, out, _ = amqproxy("replay", BLOCKED, "--to", url, "--speed", "max", "--json")
    *differences, summary = [json.loads(line) for line in out.splitlines()]
    assert code == FAILED
    assert [(each["kind"], each["method"]) for each in differences] == [
        ("missing", "connection.blocked"),
        ("missing", "connection.unblocked"),
    ]
    assert summary["report"] == "summary"
    assert (summary["same"], summary["differences"], summary["missing"]) == (False, 2, 2)
    assert set(summary["latencies"]["channel.open"]["live"]) == {"count", "p50", "p99"}


def test_amqp_0_10(amqproxy: Amqproxy, url: str) -> None:
    """Of Broker-J: all is played but what is about a queue that only Broker-J has."""
    code, out, err = amqproxy("replay", AMQP010, "--to", url, "--speed", "max", "--json")
    *differences, summary = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (FAILED, "amqproxy: replay: the broker's answers differ\n")
    assert {each["method"] for each in differences} == {"execution.result", "session.completed", "message.transfer"}
    assert (summary["connections"], summary["commands_sent"], summary["differences"]) == (1, 51, 3)
    assert {each["reason"][:27] for each in summary["not_played"]} == {"the session was closed: 404"}
    assert {"tx.commit", "publish confirmed"} <= set(summary["latencies"])
    wanted = ("--filter", "method == 'queue.declare' || (method == 'message.transfer' && routing_key == 'jms.tx')")
    code, out, err = amqproxy("replay", AMQP010, "--to", url, "--speed", "50", "--clients", "2", *wanted)
    assert (code, err) == (0, "")
    assert out.startswith("2 connections, ")


def test_a_loop_of_copies_at_another_speed(amqproxy: Amqproxy, url: str) -> None:
    code, out, err = amqproxy("replay", GET, "--to", url, "--speed", "20", "--loop", "2", "--clients", "3")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("6 connections, 114 commands sent")


def test_only_what_a_filter_selects(amqproxy: Amqproxy, url: str) -> None:
    wanted = ("--filter", "method == 'queue.declare' || method == 'queue.delete'")
    code, out, err = amqproxy("replay", GET, "--to", url, "--speed", "max", *wanted)
    assert (code, err) == (0, "")
    assert "1 connection, 8 commands sent" in out
    code, out, _ = amqproxy("replay", GET, "--to", url, "--speed", "max", "--filter", "method == 'tx.select'")
    assert (code, out) == (0, "0 connections, 0 commands sent, 0 answers compared, 0 differences\n")


def test_fields_that_do_not_count(amqproxy: Amqproxy, url: str, tmp_path: Path) -> None:
    config = tmp_path / "rules.toml"
    rule = 'name = "tag"\naction = "rewrite"\nmatch.method = "basic.get-ok"\nproperties.set = {app_id = "changed"}\n'
    config.write_text(f"[[rules]]\n{rule}")
    command = ("replay", GET, "--to", url, "--speed", "max", "--rules", str(config))
    code, out, _ = amqproxy(*command)
    assert code == FAILED
    assert "→ 'changed'" in out
    assert amqproxy(*command, "--ignore", "properties.app_id").code == 0


def test_changed_by_rules(amqproxy: Amqproxy, url: str, tmp_path: Path) -> None:
    config = tmp_path / "rules.toml"
    config.write_text('[[rules]]\nname = "no"\naction = "refuse"\nmatch.method = "confirm.select"\n')
    code, out, _ = amqproxy("replay", CONFIRMS, "--to", url, "--speed", "max", "--rules", str(config))
    assert code == FAILED
    assert "+ #0/1 channel.close reply_code=403" in out


def test_a_broker_that_is_not_there(amqproxy: Amqproxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    code, out, err = amqproxy("replay", CONFIRMS, "--to", f"amqp://user:secret@127.0.0.1:{port}")
    assert (code, out) == (FAILED, "")
    assert "refused the connection" in err
    assert "secret" not in err


def test_a_broker_that_goes_away_ends_a_loop(amqproxy: Amqproxy) -> None:
    """It is served once, and not again: what was played by then is reported."""
    with LocalBroker() as broker, socket.create_server(("127.0.0.1", 0)) as listener:

        def serve_once() -> None:
            client, _ = listener.accept()
            listener.close()
            with client, socket.create_connection(("127.0.0.1", broker.port)) as upstream:
                back = threading.Thread(target=pump, args=(upstream, client))
                back.start()
                pump(client, upstream)
                back.join()

        threading.Thread(target=serve_once, daemon=True).start()
        to = f"amqp://127.0.0.1:{listener.getsockname()[1]}"
        code, out, err = amqproxy("replay", CONFIRMS, "--to", to, "--speed", "max", "--loop")
    assert code == FAILED
    assert out.splitlines()[0] == "1 connection, 11 commands sent, 12 answers compared, 0 differences"
    assert "refused the connection" in err
    assert "the results so far are above" in err


def pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_output_that_nothing_reads_any_more_ends_it_quietly(url: str) -> None:
    read, write = os.pipe()
    os.close(read)
    process = start("replay", BLOCKED, "--to", url, "--speed", "max", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (UNHEARD, "")


def test_over_tls(amqproxy: Amqproxy, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(str(files["ca"]))
    certificate.cert_chain_pems[0].write_to_path(str(files["cert"]))
    certificate.private_key_pem.write_to_path(str(files["key"]))
    flags = ("--tls-cert", str(files["cert"]), "--tls-key", str(files["key"]))
    process = start("broker", "--listen", "127.0.0.1:0", *flags)
    try:
        port = port_in(until(process, "listening"))
        command = ("replay", CONFIRMS, "--to", f"amqps://guest:guest@127.0.0.1:{port}", "--speed", "max")
        assert amqproxy(*command, "--ca", str(files["ca"])).code == 0
        assert amqproxy(*command, "--insecure").code == 0
        code, out, err = amqproxy(*command)
        assert (code, out) == (FAILED, "")
        assert "certificate" in err
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_misuse(amqproxy: Amqproxy, url: str) -> None:
    for wrong in (
        (),
        ("--speed", "0"),
        ("--speed", "fast"),
        ("--clients", "0"),
        ("--loop", "-1"),
        ("--timeout", "0"),
        ("--ca", "x.pem"),
        ("--filter", "no such"),
    ):
        assert amqproxy("replay", *([CONFIRMS] if wrong else []), "--to", url, *wrong).code == MISUSED, wrong
    for target in ("localhost:5672", "amqp://", "amqp://host:99999", "http://host"):
        assert amqproxy("replay", CONFIRMS, "--to", target).code == MISUSED, target
    assert amqproxy("replay", "-", "--to", url, "--loop").code == MISUSED
    code, _, err = amqproxy("replay", "missing.pcap", "--to", url)
    assert code == FAILED
    assert "missing.pcap" in err


@pytest.mark.slow
def test_a_terminal_is_shown_how_far_it_is(url: str) -> None:
    """At the speed of the recording, for two and a half seconds."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "amqproxy", "replay", str(CAPTURES / "heartbeats.pcapng"), "--to", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    process.communicate(timeout=60)
    shown = os.read(ours, 100_000)
    os.close(ours)
    assert process.returncode == 0
    assert b"100 % of " in shown
    assert b": 3 commands sent" in shown  # the rest, where the path leaves room for it
    assert shown.endswith(b"\r\x1b[K")


def test_ctrl_c_ends_with_the_report_so_far() -> None:
    with silent_broker() as (url, is_greeted):
        process = start("replay", CONFIRMS, "--to", url, "--timeout", "60", stdout=subprocess.PIPE)
        try:
            assert is_greeted.wait(30)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == INTERRUPTED
    assert out.splitlines()[-1] == "1 connection, 0 commands sent, 0 answers compared, 0 differences"
    assert "interrupted" in err
