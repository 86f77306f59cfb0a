"""`amqproxy broker`: its options, how it ends, and what it keeps."""

import os
import signal
import socket
import ssl
import subprocess
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pika
import pika.exceptions
import psutil
import pytest
import trustme

from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.cli.failure import FAILED, INTERRUPTED, MISUSED, UNHEARD
from amqproxy.control import ControlClient, RequestError
from tests.cli.outcome import Amqproxy
from tests.cli.process import COMMAND, DEADLINE, connected, port_in, start, until
from tests.real.poll import until as wait_until

pytestmark = pytest.mark.slow

SHUTDOWN = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"


def test_help_names_every_flag_of_the_broker(amqproxy: Amqproxy) -> None:
    out = amqproxy("broker", "--help").out
    for flag in (
        "listen",
        "data",
        "definitions",
        "tls-cert",
        "tls-key",
        "tls-client-ca",
        "config",
        "log-level",
        "print",
    ):
        assert f"--{flag}" in out
    assert "export" in out


def test_there_is_nothing_to_export_where_no_broker_was(amqproxy: Amqproxy, tmp_path: Path) -> None:
    code, out, err = amqproxy("broker", "export", "--data", str(tmp_path))
    assert (code, out) == (FAILED, "")
    assert err == f"amqproxy: {tmp_path} does not contain a broker's data: there is no broker.sqlite in it\n"
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_read_cannot_be_exported(amqproxy: Amqproxy, tmp_path: Path) -> None:
    code, out, err = amqproxy("broker", "export", "--data", str(tmp_path / ("x" * 300)))
    assert (code, out) == (FAILED, "")
    assert err == f"amqproxy: {tmp_path / ('x' * 300)} cannot be read: File name too long\n"


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000])
def test_definitions_that_are_none(text: str, tmp_path: Path, amqproxy: Amqproxy) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(text)
    code, _, err = amqproxy("broker", "--listen", "127.0.0.1:0", "--definitions", str(file))
    assert code == MISUSED
    assert str(file) in err


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


def test_what_passes_is_printed(tmp_path: Path) -> None:
    """In the end all of it, before the broker ends."""
    options = ("--messages", "--findings", "--json", "--body=3")
    with start("broker", "--listen", "127.0.0.1:0", *options) as process:
        connection = connected(port_in(until(process, "listening")))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"body", pika.BasicProperties(delivery_mode=2))
        assert channel.basic_get("q", auto_ack=True)[2] == b"body"
        connection.close()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=DEADLINE)
    records = [msgspec.json.decode(line) for line in out.splitlines()]
    shown = [(each["type"], each["outcome"], each.get("body")) for each in records if "type" in each]
    assert shown == [
        ("connection", "opened", None),
        ("channel", "opened", None),
        ("request", "answered", None),
        ("publish", "sent", "bod"),
        ("get", "auto-acked", "bod"),
        ("channel", "closed", None),
        ("connection", "closed", None),
    ]
    assert [each["kind"] for each in records if "kind" in each] == ["unconfirmed-publish", "auto-ack"]


def test_a_filter_needs_something_to_be_printed(amqproxy: Amqproxy) -> None:
    assert amqproxy("broker", "--filter", "channel == 1").code == MISUSED


@pytest.mark.parametrize("options", [[], ["--exit-on-closed-output"]])
def test_the_broker_outlives_the_reader_of_what_it_prints(options: list[str]) -> None:
    """Unless it is not to."""
    with start("broker", "--listen", "127.0.0.1:0", "--print", *options) as process:
        port = port_in(until(process, "listening"))
        assert process.stdout is not None
        process.stdout.close()
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as client:
            client.sendall(HEADER)
        until(process, "printing ended")
        if not options:
            connected(port).close()
            process.terminate()
        until(process, "stopped")
        process.wait(DEADLINE)
    assert process.returncode == (UNHEARD if options else 0)


def test_a_second_signal_ends_the_broker_at_once() -> None:
    with start("broker", "--listen", "127.0.0.1:0") as process:
        connection = connected(port_in(until(process, "listening")))  # which does not answer, since it is not polled
        process.send_signal(signal.SIGINT)
        until(process, "closing")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=3)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connection.sleep(1)
    assert process.returncode == INTERRUPTED


def test_the_brokers_data_is_one_process_own(tmp_path: Path) -> None:
    with start("broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path)) as process:
        until(process, "listening")
        done = subprocess.run([*COMMAND, "broker", "export", "--data", str(tmp_path)], capture_output=True, text=True)
        process.terminate()
        process.communicate(timeout=DEADLINE)
    assert (done.returncode, done.stdout) == (FAILED, "")
    assert "is in use by another process" in done.stderr


def test_a_hangup_reads_the_certificates_again(tmp_path: Path) -> None:
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    authority = trustme.CA()

    def renew() -> None:
        made = authority.issue_cert("localhost")
        made.private_key_pem.write_to_path(key)
        certificate.write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))

    def shown() -> bytes:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        with (
            socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            found = secured.getpeercert(binary_form=True)
            assert found is not None
            return found

    renew()
    with start(
        *("broker", "--listen", "127.0.0.1:0", "--tls-cert", str(certificate), "--tls-key", str(key))
    ) as process:
        port = port_in(until(process, "listening"))
        first = shown()
        assert shown() == first
        renew()
        process.send_signal(signal.SIGHUP)
        until(process, "certificates reloaded")
        second = shown()
        assert second != first
        certificate.write_text("no certificate")
        process.send_signal(signal.SIGHUP)
        assert str(certificate) in until(process, "certificate not reloaded")
        assert shown() == second
        process.terminate()
        process.communicate(timeout=DEADLINE)
    assert process.returncode == 0


def test_a_hangup_ends_no_broker(tmp_path: Path) -> None:
    """Neither while it starts, nor later."""
    file = tmp_path / "definitions.json"
    os.mkfifo(file)
    with start("broker", "--listen", "127.0.0.1:0", "--definitions", str(file)) as process:
        with file.open("w") as definitions:  # which it reads
            process.send_signal(signal.SIGHUP)
            definitions.write("{}")
        port = port_in(until(process, "listening"))
        until(process, "reloading")
        connected(port).close()
        process.send_signal(signal.SIGHUP)
        until(process, "reloading")
        connected(port).close()
        process.terminate()
        process.communicate(timeout=DEADLINE)
    assert process.returncode == 0


def test_it_is_asked_and_followed_through_its_control_socket(tmp_path: Path) -> None:
    """Connections that were there before they are followed, too."""
    (tmp_path / "c.yaml").write_text("control: {path: c.sock}\nmetrics: {address: '127.0.0.1:0'}")
    with start("broker", "--listen", "127.0.0.1:0", "--config", str(tmp_path / "c.yaml")) as process:
        metrics = port_in(until(process, "metrics"))
        with connected(port_in(until(process, "listening"))) as connection:
            channel = connection.channel()
            channel.queue_declare("q")
            with ControlClient(tmp_path / "c.sock") as proxy, ControlClient(tmp_path / "c.sock") as follower:
                follower.ask("subscribe", messages=True)
                channel.basic_publish("", "q", b"body")
                assert channel.basic_get("q", auto_ack=True)[2] == b"body"
                shown = (event["record"]["type"] for event in follower.events() if "record" in event)
                assert "publish" in shown
                assert [each["vhost"] for each in proxy.ask("connections")["connections"]] == ["/"]
                with pytest.raises(RequestError, match="only a proxy has rules"):
                    proxy.ask("rules")
                proxy.ask("record-start", settings={"directory": str(tmp_path / "kept"), "compress": False})
                channel.basic_publish("", "q", b"recorded")
                assert proxy.ask("record-stop")["recording"]["packets"] > 0
        with urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=DEADLINE) as page:
            lines = page.read().decode().splitlines()
        assert "amqproxy_messages_published_total 2.0" in lines
        assert urlopen(f"http://127.0.0.1:{metrics}/readyz", timeout=DEADLINE).read() == b"ok\n"
        process.terminate()
        process.communicate(timeout=DEADLINE)
    [file] = (tmp_path / "kept").glob("*.pcapng")
    assert b"recorded" in file.read_bytes()


def test_its_dashboard(tmp_path: Path) -> None:
    """The URL is what is logged first. It shows what passed before it was there."""
    with start("broker", "--listen", "127.0.0.1:0", "--dashboard", "127.0.0.1:0") as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        url = first.split("address=")[1].strip()
        with connected(port_in(until(process, "listening"))) as connection:
            connection.channel().queue_declare("seen", exclusive=True)

            def get(path: str) -> Any:
                with urlopen(f"{url}api/v1/{path}", timeout=DEADLINE) as answer:
                    return msgspec.json.decode(answer.read())

            def methods() -> list[str | None]:
                return [row.get("method") for row in get("sources/0/frames")["rows"]]

            wait_until(lambda: "queue.declare" in methods(), "the frames")
            assert [each["name"] for each in get("sources/0/broker/queues")["queues"]] == ["seen"]
            [one] = get("sources/0/connections")["connections"]
            assert (one["is_open"], one["user"], one["seen"]["handshake"]["user"]) == (True, "guest", "guest")
            with pytest.raises(HTTPError) as refused:
                get("sources/0/rules")
            assert "it is a broker by itself" in refused.value.read().decode()
        process.terminate()
        process.communicate(timeout=DEADLINE)
    assert process.returncode == 0


def test_its_management_api(tmp_path: Path) -> None:
    """It is started again when it is killed, and refuses a long body before that is sent."""
    with start("broker", "--listen", "127.0.0.1:0", "--management", "127.0.0.1:0") as process:
        port = int(until(process, "management").split("address=")[1].strip().rstrip("/").rpartition(":")[2])
        until(process, "listening")

        def get(path: str, *header: str) -> tuple[int, Any]:
            client = HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
            client.putrequest("GET", f"/api/{path}")
            client.putheader("authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
            for each in header:
                client.putheader(*each.split(": "))
            client.endheaders()
            with closing(client), client.getresponse() as answer:
                return answer.status, msgspec.json.decode(answer.read())

        assert get("whoami")[1]["name"] == "guest"
        assert get("overview", "content-length: 10485761")[0] == 413
        [child] = psutil.Process(process.pid).children()
        child.kill()
        assert get("queues") == (200, [])
        process.terminate()
        process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert not child.is_running()


def test_what_the_management_api_has_answered_survives_a_kill(tmp_path: Path) -> None:
    options = ("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), "--management", "127.0.0.1:0")

    def ask(process: subprocess.Popen[str], method: str, path: str, body: bytes = b"") -> int:
        client = HTTPConnection("127.0.0.1", ports[process.pid], timeout=DEADLINE)
        with closing(client):
            client.request(method, f"/api/{path}", body, {"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
            return client.getresponse().status

    ports: dict[int, int] = {}
    for is_first in (True, False):
        with start("broker", *options) as process:
            line = until(process, "management")
            ports[process.pid] = int(line.split("address=")[1].strip().rstrip("/").rpartition(":")[2])
            until(process, "listening")
            if is_first:
                assert ask(process, "PUT", "vhosts/kept") == 201
                assert ask(process, "PUT", "queues/kept/q", b"{}") == 201
                assert ask(process, "PUT", "users/ann", b'{"password": "ann", "tags": "management"}') == 201
                process.kill()
            else:
                assert ask(process, "GET", "queues/kept/q") == 200
                assert ask(process, "GET", "users/ann") == 200
                process.terminate()
            process.communicate(timeout=DEADLINE)


def test_what_a_broker_by_itself_cannot_record(amqproxy: Amqproxy, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("record: {directory: kept, when_full: wait}")
    code, _, err = amqproxy("broker", "--listen", "127.0.0.1:0", "--config", str(tmp_path / "c.yaml"))
    assert code == MISUSED
    assert "record.when_full: a broker without a proxy does not wait for the disk" in err
