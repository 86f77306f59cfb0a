"""The command: what goes to which stream, and with which code it ends."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import jsonschema
import msgspec
import pika
import pika.exceptions
import pytest
import structlog
import yaml

from amqproxy import __version__, cli
from amqproxy.config import Config, load, parse

COMMAND = [sys.executable, "-m", "amqproxy"]
DEADLINE = 30.0


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Amqproxy = Callable[..., Outcome]


@pytest.fixture
def amqproxy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Amqproxy]:
    """Runs the command in this process."""

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["amqproxy", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, *capsys.readouterr())

    yield run
    structlog.reset_defaults()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["run", "--help"],
        ["broker", "--help"],
        ["broker", "export", "--help"],
        ["decode", "--help"],
        ["config"],
        ["config", "check", "--help"],
        ["rules", "explain", "--help"],
    ],
)
def test_help(arguments: list[str], amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: amqproxy")


def test_help_tells_the_exit_codes(amqproxy: Amqproxy) -> None:
    out = amqproxy("--help").out
    for code in (0, cli.FAILED, cli.MISUSED, cli.INTERRUPTED, cli.UNHEARD):
        assert f"{code} " in out
    for command in ("run", "broker", "decode", "config", "version", "completion"):
        assert command in out


def test_help_names_every_flag(amqproxy: Amqproxy) -> None:
    out = amqproxy("run", "--help").out
    for flag in ("listen", "upstream", "metrics", "print", "json", "log-format", "log-level", "config"):
        assert f"--{flag}" in out


def test_help_names_every_flag_of_the_broker(amqproxy: Amqproxy) -> None:
    out = amqproxy("broker", "--help").out
    for flag in ("listen", "data", "definitions", "tls-cert", "tls-key", "tls-client-ca", "config", "log-level"):
        assert f"--{flag}" in out
    assert "export" in out


def test_version(amqproxy: Amqproxy) -> None:
    assert amqproxy("--version").out == f"{__version__}\n"
    assert amqproxy("version").out in (f"amqproxy {__version__} (compiled)\n", f"amqproxy {__version__} (plain)\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "nope"),
        (["run", "--nope"], "--nope"),
        (["run", "extra"], "extra"),
        (["run", "--log-level", "loud"], "--log-level"),
        (["run", "--listen", "nowhere"], "--listen nowhere: not of the form HOST:PORT, e.g. "),
        (["run", "--listen", "a:65536"], "port above 65535"),
        (["run", "--upstream", ":5672"], "--upstream :5672: address :5672 leaves open which broker is meant"),
        (["run", "--metrics", "9419"], "--metrics 9419: not of the form HOST:PORT"),
        (["run", "--config", "missing.yaml"], "missing.yaml: cannot be read"),
        (["config", "show", "missing.yaml"], "missing.yaml: cannot be read"),
        (["broker", "--listen", "nowhere"], "--listen nowhere: not of the form HOST:PORT"),
        (["broker", "--tls-cert", "a.pem"], "TLS needs both --tls-cert and --tls-key"),
        (["broker", "--listen", "127.0.0.1:0", "--tls-cert", "a.pem", "--tls-key", "a.key"], "a.pem and a.key: not a"),
        (["broker", "--listen", "127.0.0.1:0", "--definitions", "missing.json"], "missing.json: cannot be read"),
        (["broker", "--config", "missing.yaml"], "missing.yaml: cannot be read"),
        (["broker", "export"], "--data"),
        (["config", "check"], "name a file"),
        (["rules", "check"], "name a file"),
        (["rules", "check", "missing.yaml"], "missing.yaml: cannot be read"),
        (["rules", "explain", "missing.yaml", "--method", "basic.pubish"], "did you mean `basic.publish`?"),
        (["decode"], "name a capture"),
        (["completion", "tcsh"], "tcsh"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy(*arguments)
    assert (code, out) == (cli.MISUSED, "")
    assert said in err
    assert "Traceback" not in err


def test_an_address_that_cannot_be_had(amqproxy: Amqproxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        listening = amqproxy("run", "--listen", address)
        scraped = amqproxy("run", "--listen", "127.0.0.1:0", "--metrics", address)
    assert (listening.code, scraped.code) == (cli.FAILED, cli.FAILED)
    assert listening.err.endswith(f"amqproxy: cannot listen on {address}: Address already in use\n")
    assert scraped.err.endswith(f"amqproxy: cannot serve metrics on {address}: Address already in use\n")


def test_a_capture_that_cannot_be_read(amqproxy: Amqproxy, tmp_path: Path) -> None:
    code, out, err = amqproxy("decode", str(tmp_path / "missing.pcap"))
    assert (code, out) == (cli.FAILED, "")
    assert "missing.pcap" in err


@pytest.mark.parametrize(
    "octets", [b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0", b"\x0a\x0d\x0d\x0a\x6c\0\0\0\x4d\x3c\x2b\x1a"]
)
def test_a_capture_whose_header_is_not_whole(octets: bytes, amqproxy: Amqproxy, tmp_path: Path) -> None:
    file = tmp_path / "cut"
    file.write_bytes(octets)
    code, out, err = amqproxy("decode", str(file))
    assert (code, out) == (cli.FAILED, "")
    assert "cut short" in err


def test_config_check(amqproxy: Amqproxy, tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.yaml", tmp_path / "wrong.toml"
    right.write_text("limits: {connections: 5}")
    wrong.write_text("[limits]\nconections = 5\n")
    assert amqproxy("config", "check", str(right)) == (0, "", f"{right}: fine\n")
    code, out, err = amqproxy("config", "check", str(right), str(wrong))
    assert (code, out) == (cli.MISUSED, "")
    assert err == f"{right}: fine\namqproxy: {wrong}: limits: unknown key `conections`: did you mean `connections`?\n"


def test_config_check_looks_at_certificates(amqproxy: Amqproxy, tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    for text in (
        "listen: [{tls: {certificate: bad.pem, key: bad.pem}}]",
        "broker: {listen: [{tls: {certificate: bad.pem, key: bad.pem}}]}",
        "upstream: {tls: {ca: bad.pem}}",
    ):
        file = tmp_path / "some.yaml"
        file.write_text(text)
        code, _, err = amqproxy("config", "check", str(file))
        assert code == cli.MISUSED
        assert "bad.pem" in err
        assert "fine" not in err


def test_there_is_nothing_to_export_where_no_broker_was(amqproxy: Amqproxy, tmp_path: Path) -> None:
    code, out, err = amqproxy("broker", "export", "--data", str(tmp_path))
    assert (code, out) == (cli.FAILED, "")
    assert err == f"amqproxy: {tmp_path} holds no broker's data: there is no broker.sqlite in it\n"
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_read_cannot_be_exported(amqproxy: Amqproxy, tmp_path: Path) -> None:
    code, out, err = amqproxy("broker", "export", "--data", str(tmp_path / ("x" * 300)))
    assert (code, out) == (cli.FAILED, "")
    assert err == f"amqproxy: {tmp_path / ('x' * 300)} cannot be read: File name too long\n"


def test_flags_of_the_broker_go_before_the_file() -> None:
    config = parse("broker: {listen: [{address: 'b:2'}, {address: 'c:3'}], data: d}", Path("a.yaml")).broker
    assert cli._merged_broker(config, None, None, None, {}) == config
    merged = cli._merged_broker(config, "e:5", Path("f"), Path("g"), {})
    assert ([each.address for each in merged.listen], merged.data, merged.definitions) == (["e:5"], "f", "g")
    tls = {"certificate": "a.pem", "key": "a.key", "client_ca": "ca.pem"}
    (listener,) = cli._merged_broker(config, None, None, None, tls).listen
    assert listener.address == "b:2"
    assert listener.tls is not None
    assert listener.tls.client_ca == "ca.pem"


def test_config_show_is_a_config_file_that_the_schema_takes(amqproxy: Amqproxy, tmp_path: Path) -> None:
    shown = amqproxy("config", "show").out
    assert parse(shown, Path("shown.yaml")) == Config()
    path = tmp_path / "some.toml"
    path.write_text('[metrics]\naddress = ":9419"\n[log]\nlevel = "debug"\n')
    again = amqproxy("config", "show", str(path)).out
    assert parse(again, Path("shown.yaml")) == load(path)
    schema = msgspec.json.decode(amqproxy("config", "schema").out)
    for text in (shown, again):
        jsonschema.validate(yaml.safe_load(text), schema)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("completion", shell)
    assert (code, err) == (0, "")
    assert "amqproxy" in out
    assert "decode" in out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=out, text=True, check=True)


def test_flags_go_before_the_file(tmp_path: Path) -> None:
    config = parse(
        "upstream: {address: 'a:1', tls: {verify: false}}\nlog: {level: error}\nlisten: [{address: 'b:2'}]",
        Path("a.yaml"),
    )
    merged = cli._merged(config, "c:3", "d:4", ":5", "json", None)
    assert [each.address for each in merged.listen] == ["c:3"]
    assert merged.upstream.address == "d:4"
    assert merged.upstream.tls == config.upstream.tls
    assert merged.metrics is not None
    assert merged.metrics.address == ":5"
    assert (merged.log.format, merged.log.level) == ("json", "error")
    assert cli._merged(config, None, None, None, None, None) == config


# ------------------------------------------------------------------------------------ as a process of its own


def start(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen([*COMMAND, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True)


def until(process: subprocess.Popen[str], said: str) -> str:
    """The line of the log that says it."""
    assert process.stderr is not None
    for line in process.stderr:
        if said in line:
            return line
    pytest.fail(f"it ended without saying {said!r}")


def port_in(line: str) -> int:
    return int(line.split("address=127.0.0.1:")[1].split()[0])


@pytest.mark.parametrize("command", [["version"], ["config", "show"], ["config", "schema"], ["completion", "bash"]])
def test_nobody_reads_the_output(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with start(*command, stdout=writing) as process:
        os.close(writing)
        _, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (cli.UNHEARD, "")


def connected(port: int) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))


SHUTDOWN = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"


@pytest.mark.parametrize("command", [["broker"], ["run", "--upstream", "broker"]])
def test_the_broker_takes_its_leave_and_keeps_what_is_durable(command: list[str], tmp_path: Path) -> None:
    config = tmp_path / "some.yaml"
    config.write_text("broker: {listen: [{address: '127.0.0.1:0'}], data: kept}\nlisten: [{address: '127.0.0.1:0'}]")
    with start(*command, "--config", str(config)) as process:
        connection = connected(port_in(until(process, "listening")))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2))
        process.send_signal(signal.SIGTERM)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            connection.sleep(DEADLINE)
        assert (closed.value.reply_code, closed.value.reply_text) == (320, SHUTDOWN)
        _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert "stopped" in err
    exported = subprocess.run(
        [*COMMAND, "broker", "export", "--data", str(tmp_path / "kept")], capture_output=True, check=True
    )
    assert [queue["name"] for queue in msgspec.json.decode(exported.stdout)["queues"]] == ["q"]
    definitions = tmp_path / "definitions.json"
    definitions.write_bytes(exported.stdout)
    for more in (["--data", str(tmp_path / "kept")], ["--definitions", str(definitions)]):
        with start("broker", "--listen", "127.0.0.1:0", *more) as process:
            with connected(port_in(until(process, "listening"))) as connection:
                _, _, body = connection.channel().basic_get("q")
                assert body == (b"kept" if "--data" in more else None)
            process.terminate()
            process.communicate(timeout=DEADLINE)


def test_a_second_signal_ends_the_broker_at_once() -> None:
    with start("broker", "--listen", "127.0.0.1:0") as process:
        connection = connected(port_in(until(process, "listening")))  # which does not answer, since it is not polled
        process.send_signal(signal.SIGINT)
        until(process, "closing")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=3)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connection.sleep(1)
    assert process.returncode == cli.INTERRUPTED


def test_the_brokers_data_is_one_process_own(tmp_path: Path) -> None:
    with start("broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path)) as process:
        until(process, "listening")
        done = subprocess.run([*COMMAND, "broker", "export", "--data", str(tmp_path)], capture_output=True, text=True)
        process.terminate()
        process.communicate(timeout=DEADLINE)
    assert (done.returncode, done.stdout) == (cli.FAILED, "")
    assert "is in use by another process" in done.stderr


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
    assert process.returncode == cli.INTERRUPTED


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
            _BROKERS[-1].close()
        assert process.stderr is not None
        rest = process.stderr.read()
        assert process.wait(DEADLINE) == cli.UNHEARD
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
            _BROKERS[-1].close()
            until(process, "connection closed")
            process.terminate()
            assert process.stderr is not None
            process.stderr.read()
            assert process.wait(DEADLINE) == 0


def opened(port: int, listener: socket.socket) -> socket.socket:
    """A client with an open connection; its broker says no more than it has to, and goes with its end."""
    from tests.proxy.stage import HANDSHAKE
    from tests.proxy.words import octets

    client = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
    broker: socket.socket | None = None
    for line in HANDSHAKE.strip().splitlines():
        arrow, _, said = line.strip().partition(" ")
        if arrow == ">>":
            client.sendall(octets(said))
        broker = broker or listener.accept()[0]
        hears = broker if arrow == ">>" else client
        if arrow == "<<":
            broker.sendall(octets(said))
        assert hears.recv(len(octets(said)), socket.MSG_WAITALL) == octets(said)
    assert broker is not None
    _BROKERS.append(broker)
    return client


_BROKERS: list[socket.socket] = []


@pytest.fixture(autouse=True)
def _close_brokers() -> Iterator[None]:
    yield
    while _BROKERS:
        _BROKERS.pop().close()


def test_decode_reads_standard_input() -> None:
    capture = Path(__file__).parent.parent / "captures" / "confirms.pcapng"
    named = subprocess.run([*COMMAND, "decode", "--json", str(capture)], capture_output=True, check=True)
    piped = subprocess.run(
        [*COMMAND, "decode", "--json", "-"], input=capture.read_bytes(), capture_output=True, check=True
    )
    assert piped.stdout == named.stdout != b""


def test_decode_takes_no_unknown_flag_for_a_file(amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("decode", "--jsno", "x.pcap")
    assert (code, out) == (cli.MISUSED, "")
    assert "unknown option --jsno" in err


@pytest.mark.parametrize("arguments", [["config", "schema"], ["version"]])
def test_a_full_disk_is_said_plainly(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        cli.FAILED,
        "amqproxy: the output cannot be written: No space left on device\n",
    )


def test_output_may_be_closed() -> None:
    done = subprocess.run(f"{' '.join(COMMAND)} version >&-", shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_run_does_not_connect_to_itself(amqproxy: Amqproxy) -> None:
    code, _, err = amqproxy("run", "--listen", "127.0.0.1:7777", "--upstream", "127.0.0.1:7777")
    assert code == cli.MISUSED
    assert "which is where we listen" in err


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000])
def test_definitions_that_are_none(text: str, tmp_path: Path, amqproxy: Amqproxy) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(text)
    code, _, err = amqproxy("broker", "--listen", "127.0.0.1:0", "--definitions", str(file))
    assert code == cli.MISUSED
    assert str(file) in err


def test_rules_are_checked_and_explained(tmp_path: Path, amqproxy: Amqproxy) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("rules:\n  - {name: ours, action: allow, match: {exchange: 'orders.*'}}\n")
    assert amqproxy("rules", "check", str(path)) == Outcome(0, "", f"{path}: 1 rule, fine\n")
    outcome = amqproxy("rules", "explain", str(path), "--method", "basic.publish", "--exchange", "orders.eu")
    assert outcome.code == 0
    assert "1. allow `ours`\n" in outcome.out
    assert "   here:  holds\n" in outcome.out
    path.write_text("rules:\n  - {name: odd, action: allow, when: 'exchnge == 1'}\n")
    refused = amqproxy("rules", "check", str(path))
    assert refused.code == 2
    assert refused.err == (
        f"amqproxy: {path}: rules[0].when: there is no `exchnge`: did you mean `exchange`? (line 1, column 1)\n"
        "    exchnge == 1\n    ^\n"
    )
