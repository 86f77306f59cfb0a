"""The control socket of a proxy that runs, with a real client whose commands wait."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from amqproxy.control.control_client import ControlClient
from tests.real.pika_connection import connected
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy, command
from tests.real.rabbitmq import RabbitMQ
from tests.real.require import require

pytestmark = [pytest.mark.real, pytest.mark.once]

HOLD = {"name": "look", "action": "hold", "match": {"method": "basic.publish", "routing_key": "held*"}}


class Controlled:
    """A proxy with a control socket."""

    def __init__(self, proxy: Proxy, path: Path) -> None:
        self.proxy = proxy
        self.path = path

    def command(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """`amqproxy control …`."""
        words = [*command(), "control", *arguments, "--socket", str(self.path)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stderr
        return done

    def held(self) -> list[dict[str, Any]]:
        with ControlClient(self.path) as asked:
            return asked.ask("held")["held"]  # type: ignore[no-any-return]

    def sessions(self) -> list[dict[str, Any]]:
        with ControlClient(self.path) as asked:
            return asked.ask("sessions")["sessions"]  # type: ignore[no-any-return]

    def one_held(self) -> dict[str, Any]:
        [one] = until(self.held, "something to be held")
        return one

    def release(self, **keys: Any) -> None:
        """Let go on the one that waits."""
        one = self.one_held()
        with ControlClient(self.path) as asked:
            asked.ask("release", session=one["session"], number=one["number"], **keys)


@pytest.fixture
def controlled(start_proxy: StartProxy, rabbitmq: RabbitMQ, tmp_path: Path) -> Callable[..., Controlled]:
    def start(*rules: dict[str, Any]) -> Controlled:
        proxy = start_proxy(rabbitmq.port, rules=list(rules), control={"path": "control"})
        return Controlled(proxy, tmp_path / "control")

    return start


@contextmanager
def publishing(proxy: Proxy, *, key: str = "held", body: bytes = b"old", **properties: Any) -> Iterator[Any]:
    """A client that publishes to its own queue, in a thread: what comes of that, and what the queue has then."""

    def publish() -> Any:
        with connected(proxy) as connection:
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.queue_bind(queue, "amq.topic", "#")
            channel.confirm_delivery()
            try:
                channel.basic_publish("amq.topic", key, body, pika.BasicProperties(**properties), mandatory=True)
            except pika.exceptions.AMQPError as error:
                return error
            return channel.basic_get(queue, auto_ack=True)

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(publish)


def test_a_held_publish_is_edited_and_released(controlled: Callable[..., Controlled]) -> None:
    house = controlled(HOLD)
    with publishing(house.proxy, headers={"a": 1, "secret": "x"}, priority=1) as done:
        one = house.one_held()
        shown = house.command("held").stdout
        assert shown.startswith(f"{one['session']} {one['number']}  look, goes on in ")
        assert "routing_key=held" in shown
        assert "3 bytes: old" in shown
        place = str(one["session"]), str(one["number"])
        edits = ["--set", "routing_key=new.key", "--header", "b={}", "--header", "secret=null"]
        house.command("release", *place, *edits, "--property", "priority=7", "--body", "another body")
        method, properties, body = done.result(60)
    assert (method.routing_key, body) == ("new.key", b"another body")
    assert (properties.headers, properties.priority) == ({"a": 1, "b": {}}, 7)
    assert "there is no session" in house.command("release", *place, code=1).stderr
    assert house.held() == []


def test_a_body_from_a_file_of_any_bytes(controlled: Callable[..., Controlled], tmp_path: Path) -> None:
    house = controlled(HOLD)
    body = bytes(range(256)) * 1200  # which takes several frames
    (tmp_path / "body").write_bytes(body)
    with publishing(house.proxy) as done:
        one = house.one_held()
        house.command("release", str(one["session"]), str(one["number"]), "--body-file", str(tmp_path / "body"))
        assert done.result(60)[2] == body


def test_what_waits_passes_as_it_is(controlled: Callable[..., Controlled]) -> None:
    house = controlled(HOLD)
    with publishing(house.proxy, body=bytes(200_000)) as done:
        house.release()
        assert done.result(60)[2] == bytes(200_000)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({}, pika.exceptions.ChannelClosedByBroker, "by rule 'look'"),
        ({"code": 406, "text": "no {more}"}, pika.exceptions.ChannelClosedByBroker, r"406.*no \{more\}"),
        ({"with": "nack"}, pika.exceptions.NackError, None),
        ({"with": "return"}, pika.exceptions.UnroutableError, None),
        ({"code": 320}, pika.exceptions.ConnectionClosedByBroker, "320"),
    ],
)
def test_what_waits_is_refused(
    options: dict[str, Any], kind: type[Exception], text: str | None, controlled: Callable[..., Controlled]
) -> None:
    house = controlled(HOLD)
    with publishing(house.proxy) as done:
        house.release(verdict="refuse", **options)
        with pytest.raises(kind, match=text):
            raise done.result(60)


def test_what_waits_is_dropped(controlled: Callable[..., Controlled]) -> None:
    house = controlled(HOLD)
    with publishing(house.proxy) as done:
        house.release(verdict="drop")
        assert done.result(60) == (None, None, None), "it was confirmed, and is not there"


def test_a_held_command_without_a_decision_is_refused(controlled: Callable[..., Controlled]) -> None:
    house = controlled(HOLD | {"timeout": 0.5, "on_timeout": "refuse"})
    with (
        publishing(house.proxy) as done,
        pytest.raises(pika.exceptions.ChannelClosedByBroker, match="not released in time"),
    ):
        raise done.result(60)


def test_other_channels_and_what_came_before_do_not_wait(controlled: Callable[..., Controlled]) -> None:
    house = controlled(HOLD)
    with connected(house.proxy) as connection:
        one, other = connection.channel(), connection.channel()
        queue = other.queue_declare("", exclusive=True).method.queue
        other.queue_bind(queue, "amq.topic", "#")
        one.basic_publish("amq.topic", "first", b"1")
        one.basic_publish("amq.topic", "held", b"2")
        one.basic_publish("amq.topic", "third", b"3")
        house.one_held()
        other.basic_publish("amq.topic", "other", b"4")

        def bodies(count: int) -> list[bytes]:
            got: list[bytes] = []

            def all_came() -> bool:
                body = other.basic_get(queue, auto_ack=True)[2]
                got.extend([body] if body else [])
                return len(got) == count

            until(all_came, f"{count} messages")
            return got

        assert sorted(bodies(2)) == [b"1", b"4"]
        house.release()
        assert bodies(2) == [b"2", b"3"]


def test_a_delivery_waits_and_is_edited(controlled: Callable[..., Controlled]) -> None:
    house = controlled({"name": "look", "action": "hold", "match": {"method": "basic.get-ok"}})
    with publishing(house.proxy, key="any") as done:
        house.release(edit={"body": "for you", "headers": {"n": 1}})
        _, properties, body = done.result(60)
    assert (properties.headers, body) == ({"n": 1}, b"for you")


def test_a_declare_waits_and_is_edited(controlled: Callable[..., Controlled]) -> None:
    house = controlled({"name": "look", "action": "hold", "match": {"method": "queue.declare"}})
    with connected(house.proxy) as connection, ThreadPoolExecutor(1) as pool:
        channel = connection.channel()
        edit = {"fields": {"arguments": {"x-max-length": 1, "x-expires": None}}}
        released = pool.submit(house.release, edit=edit)
        channel.queue_declare("test_control", exclusive=True, arguments={"x-expires": 1000, "x-max-priority": 2})
        released.result(60)
        released = pool.submit(house.release)
        channel.queue_declare("test_control", exclusive=True, arguments={"x-max-priority": 2, "x-max-length": 1})
        released.result(60)


def test_who_watches_sees_what_begins_to_wait(controlled: Callable[..., Controlled]) -> None:
    house = controlled(HOLD)
    words = [*command(), "control", "held", "--watch", "--json", "--socket", str(house.path)]
    watcher = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        with publishing(house.proxy) as done:
            assert watcher.stdout is not None
            one = json.loads(watcher.stdout.readline())
            assert (one["method"], one["arguments"]["routing_key"]) == ("basic.publish", "held")
            house.release()
            done.result(60)
    finally:
        watcher.terminate()
        watcher.communicate()


def test_rules_and_sessions_and_a_reload(controlled: Callable[..., Controlled], tmp_path: Path) -> None:
    house = controlled(HOLD)
    [config] = tmp_path.glob("proxy-*.yaml")
    with connected(house.proxy, client_properties={"connection_name": "me"}) as connection:
        channel = connection.channel()
        house_before = house.command("sessions").stdout
        assert "open, 1 channels  user=guest vhost=/ product=" in house_before
        assert "name=me" in house_before
        assert house.command("rules").stdout == "look  hold: 0 hits\n"
        settings = json.loads(config.read_text())
        refuse = {"name": "none", "action": "refuse", "match": {"method": "queue.declare"}}
        config.write_text(json.dumps(settings | {"rules": [{"name": "none", "action": "refues"}]}))
        wrong = house.command("reload", code=1).stderr
        assert "rules[0]" in wrong
        assert "refuse" in wrong
        channel.queue_declare("", exclusive=True)
        config.write_text(json.dumps(settings | {"rules": [refuse]}))
        assert house.command("reload").stderr == "1 rule\n"
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("", exclusive=True)
        assert json.loads(house.command("rules", "--json").stdout) == {
            "name": "none",
            "action": "refuse",
            "mode": "enforce",
            "hits": 1,
            "shadow_hits": 0,
            "errors": 0,
            "verdicts": {"refused": 1},
            "last_failure": "",
        }
        assert connection.is_open


def test_many_ask_at_a_time(controlled: Callable[..., Controlled]) -> None:
    house = controlled(HOLD)
    together = threading.Barrier(20)

    def ask(_: int) -> int:
        with ControlClient(house.path) as asked:
            together.wait(60)
            return sum(asked.ask("rules")["ok"] for _ in range(20))

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(ask, range(20))) == 400


def test_a_drain_lets_go_on_what_waits_and_takes_the_socket_away(controlled: Callable[..., Controlled]) -> None:
    house = controlled(HOLD)
    with publishing(house.proxy) as done:
        house.one_held()
        house.proxy.terminate()
        done.exception(60)
    assert house.proxy.wait() == 0
    assert not house.path.exists()


def test_another_proxy_does_not_take_the_socket(
    controlled: Callable[..., Controlled], start_proxy: StartProxy, rabbitmq: RabbitMQ
) -> None:
    house = controlled(HOLD)
    with pytest.raises(RuntimeError, match="another amqproxy listens there"):
        start_proxy(rabbitmq.port, control={"path": str(house.path)})
    house.proxy.kill()
    start_proxy(rabbitmq.port, control={"path": str(house.path)})
    house.command("rules")


def test_rules_without_a_file(controlled: Callable[..., Controlled], tmp_path: Path) -> None:
    house = controlled()
    file = tmp_path / "more.toml"
    file.write_text('[[rules]]\nname = "no"\naction = "refuse"\nmatch.method = "basic.publish"\n')
    assert "1 rule, until the next reload" in house.command("rules-set", str(file)).stderr
    with publishing(house.proxy) as done:
        assert isinstance(done.result(60), pika.exceptions.ChannelClosedByBroker)
    house.command("rules-shadow", "no")
    with publishing(house.proxy) as done:
        assert done.result(60)[2] == b"old"
    file.write_text('[[rules]]\nname = "no"\naction = "refus"\n')
    assert f"{file}:3: rule 'no', rules[0].action" in house.command("rules-set", str(file), code=1).stderr
    assert "name: 'no'" in house.command("rules-get").stdout
    house.command("reload")
    assert house.command("rules-get").stdout == "rules: []\n"


def test_a_channel_is_closed_and_the_connection_stays(controlled: Callable[..., Controlled]) -> None:
    """As pika sees it: the channel raises, another one of the same connection works, and so does one opened anew."""
    house = controlled()
    with connected(house.proxy) as connection:
        one, other = connection.channel(), connection.channel()
        queue = other.queue_declare("", exclusive=True).method.queue
        other.basic_publish("", queue, b"body")
        until(lambda: _got(one, queue, auto_ack=False), "the message")
        [session] = house.sessions()
        house.command("close", str(session["session"]), "--channel", str(one.channel_number), "--text", "enough")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            one.queue_declare("", exclusive=True)
        assert (closed.value.reply_code, closed.value.reply_text) == (406, "PRECONDITION_FAILED - enough")
        method, _, body = until(lambda: _got(other, queue), "the message to be requeued")
        assert (method.redelivered, body) == (True, b"body")
        assert connection.channel().queue_declare("", exclusive=True).method.queue


def _got(channel: Any, queue: str, *, auto_ack: bool = True) -> Any:
    found = channel.basic_get(queue, auto_ack=auto_ack)
    return found if found[0] is not None else None


def test_a_client_is_paused_for_longer_than_its_heartbeats(controlled: Callable[..., Controlled]) -> None:
    """Of one second: RabbitMQ drops a connection that is silent for two or three."""
    house = controlled()
    with connected(house.proxy, heartbeat=1) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        with ThreadPoolExecutor(1) as pool:  # while the client goes on sending heartbeats, however slow this machine is

            def beside(*arguments: str) -> str:
                done = pool.submit(house.command, *arguments)
                while not done.done():
                    connection.process_data_events(0.1)
                return done.result().stdout

            [session] = house.sessions()
            beside("pause", str(session["session"]))
            assert "paused" in beside("sessions")
        channel.basic_publish("", queue, b"body")
        connection.process_data_events(8)
        assert connection.is_open
        house.command("resume", str(session["session"]))
        assert until(lambda: _got(channel, queue), "the message")[2] == b"body"


def test_a_tail_from_before_it_began(start_proxy: StartProxy, rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    proxy = start_proxy(rabbitmq.port, control={"path": "control", "ring": "1 MiB"})
    with publishing(proxy) as done:
        assert done.result(60)[2] == b"old"
    options = ["--messages", "--json", "--body=9", "--since-start", "--socket", str(tmp_path / "control")]
    words = [*command(), "tail", *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        records = []
        while not any(each["type"] == "publish" for each in records):
            records.append(json.loads(tail.stdout.readline()))
        tail.terminate()
    assert records[-1]["body"] == "old"
    assert records[-1]["outcome"] == "confirmed"
    assert records[0]["type"] == "connection"
    assert records[0]["outcome"] == "opened"


def test_no_client_notices_who_follows_and_does_not_read(controlled: Callable[..., Controlled]) -> None:
    """One subscriber never reads, one reads a byte now and then, and others come and go; all is confirmed meanwhile."""
    house = controlled()
    subscribe = b'{"request":"subscribe","messages":true,"body":1024}\n'
    with connected(house.proxy) as connection, ExitStack() as stack:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        subscribers = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        for each in subscribers:
            each.connect(str(house.path))
            each.sendall(subscribe)
        for number in range(200):
            channel.basic_publish("", queue, bytes(50_000), mandatory=True)
            subscribers[1].recv(1)
            if not number % 10:
                with socket.socket(socket.AF_UNIX) as passing:
                    passing.connect(str(house.path))
                    passing.sendall(subscribe)
        for _ in range(200):
            method, _, body = channel.basic_get(queue, auto_ack=True)
            assert (method.redelivered, len(body)) == (False, 50_000)
        with ControlClient(house.path) as asked:
            assert [each["state"] for each in asked.ask("sessions")["sessions"]] == ["open"]


RULES = [
    {"name": "cards", "action": "redact", "match": {"method": "basic.publish"}, "text": [r"\b\d{16}\b"]},
    {"name": "back", "action": "refuse", "match": {"method": "basic.publish", "routing_key": "back"}, "with": "return"},
]


def test_packets_are_what_was_shown_as_frames(controlled: Callable[..., Controlled]) -> None:
    """Of one connection from its beginning and of one that was open before: for our reader, and for tshark."""
    house = controlled(*RULES)
    shown = next((each for _ in range(5) if (each := _shown_twice(house)) is not None), None)
    assert shown is not None
    live, data = shown
    assert b"4111111111111111" not in data
    decoded = subprocess.run([*command(), "decode", "--json", "-"], input=data, capture_output=True, timeout=60)
    assert decoded.returncode == 0, decoded.stderr
    found = [json.loads(line) for line in decoded.stdout.splitlines()]
    wanted = [each for each in live if each.get("leg") != "upstream"]
    for each in (*found, *wanted):
        each.pop("stream")
    assert found[: len(wanted)] == wanted
    look = [require("tshark"), "-r", "-", "-d", f"tcp.port=={house.proxy.port},amqp", "-Y", "amqp.method.method"]
    look += ["-T", "fields", "-e", "frame.protocols"]
    seen = subprocess.run(look, input=data, capture_output=True, timeout=60, check=True)
    assert len(seen.stdout.splitlines()) > 150  # packets, not methods
    assert b"_ws.malformed" not in seen.stdout


class FramesLost(Exception):
    """Frames were not shown: the system took the processor away for longer than the `TapBudget`."""


def _shown_twice(house: Controlled) -> tuple[list[Any], bytes] | None:
    """Return the records of some traffic, and its packets; `None` if frames were lost, as on a starved machine."""
    with ExitStack() as stack:
        early = stack.enter_context(connected(house.proxy))
        early_channel = early.channel()
        asking, frames, packets = (stack.enter_context(ControlClient(house.path)) for _ in range(3))
        until(lambda: [each for each in asking.ask("channels")["channels"] if each["state"] == "open"], "the channel")
        frames.ask("subscribe", frames=True)
        packets.ask("subscribe", packets=True)
        with connected(house.proxy) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            queue = channel.queue_declare("", exclusive=True).method.queue
            for number in range(50):
                channel.basic_publish("", queue, b"%d" % number * 100)
                early_channel.basic_publish("", queue, b"card 4111111111111111", pika.BasicProperties(headers={"a": 1}))
            with pytest.raises(pika.exceptions.UnroutableError):
                channel.basic_publish("", "back", b"x", mandatory=True)
            channel.basic_get(queue, auto_ack=True)
        until(lambda: len(asking.ask("sessions")["sessions"]) == 1, "the end of the session")
        early_channel.basic_publish("", "the last one", b"")
        try:
            return list(_records(frames)), b"".join(_packets(packets))
        except FramesLost:
            return None


def _records(client: ControlClient) -> Iterator[Any]:
    for event in client.events():
        if event["event"] == "lost":
            raise FramesLost
        yield event["record"]
        if event["record"].get("arguments", {}).get("routing_key") == "the last one":
            return


def _packets(client: ControlClient) -> Iterator[bytes]:
    for event in client.events():
        if event["event"] == "lost":
            raise FramesLost
        data = b64decode(event["data"])
        yield data
        if b"the last one" in data:
            return
