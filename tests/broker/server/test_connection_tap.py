"""What a tap is shown of the broker's connections, in the order in which it passes; and what it does if that fails."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from amqproxy.amqp010.protocol_header import HEADER as AMQP010_HEADER
from amqproxy.amqp091.frame import encode_frame, encode_method
from amqproxy.amqp091.methods import BasicGet, QueueDeclare
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.amqp010.connection_meter import Amqp010ConnectionMeter
from amqproxy.broker.server.amqp010.reading import Amqp010Reading
from amqproxy.broker.server.connection_tap import ConnectionTap
from amqproxy.broker.server.server import BrokerServer
from amqproxy.taps.metrics import Metrics
from tests.broker.server.handshake import OPENING
from tests.broker.server.running import running, send_and_get
from tests.proxy.amqp010_script import ATTACH, LOGIN, MESSAGES
from tests.proxy.recording_tap import Audience

NAME = "1.2.3.4:5 -> 6.7.8.9:5672"


class EndingAudience(Audience):
    def saw_end(self, session: Any, reason: str) -> None:
        self.seen.append(f"{session.number} {session.name} {session.is_tls} {reason}")


def tapped() -> tuple[EndingAudience, ConnectionTap]:
    audience = EndingAudience()
    return audience, ConnectionTap(audience, 7, NAME, is_tls=True)


def test_frames_are_shown_however_the_bytes_come() -> None:
    declare = encode_method(1, QueueDeclare(queue="q")) + encode_frame(3, 1, b"body")
    sent = HEADER + declare
    for size in (1, 3, 9, 100):
        audience, tap = tapped()
        tap.sent([b"before the client has said anything"])
        for start in range(0, len(sent), size):
            tap.received(sent[start : start + size])
        tap.sent([declare[:5], declare[5:]])
        tap.ended("over")
        tap.ended("over")
        tap.received(declare)
        assert audience.seen == [
            f"1.2.3.4:5-6.7.8.9:5672 {HEADER!r}",
            "client queue.declare",
            "client 3",
            "server queue.declare",
            "server 3",
            "7 1.2.3.4:5-6.7.8.9:5672 True over",
        ]


def test_another_protocol_is_not_read() -> None:
    audience, tap = tapped()
    tap.received(b"AMQP\0\1\0\0 and so on")
    tap.received(encode_method(1, BasicGet()))
    tap.sent([HEADER])
    assert audience.seen[1:] == ["7 1.2.3.4:5-6.7.8.9:5672 True the client speaks another protocol: 1.0"]


def test_what_is_no_frame_ends_its_direction() -> None:
    audience, tap = tapped()
    good = encode_method(1, BasicGet())
    tap.received(HEADER + good + good[:-1] + b"\0")
    tap.received(good)
    tap.sent([good])
    assert audience.seen[1:] == ["client basic.get", "client 501", "server basic.get"]


def test_a_tap_that_fails_is_shown_no_more_of_the_connection() -> None:
    class Failing(EndingAudience):
        def saw_frames(self, *_: Any) -> None:
            self.seen.append("failed")
            raise RuntimeError("a fault of the tap")

    audience = Failing()
    tap = ConnectionTap(audience, 7, NAME, is_tls=False)
    with capture_logs() as logs:
        for _ in range(3):
            tap.received((b"" if len(audience.seen) else HEADER) + encode_method(1, BasicGet()))
        tap.sent([encode_method(1, BasicGet())])
        tap.ended("over")
    assert audience.seen[1:] == ["failed"]
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["tap failed"]


async def test_each_answer_comes_after_what_it_answers() -> None:
    """With a real client, and with more than a socket takes at once."""
    audience = EndingAudience()
    server = BrokerServer(Broker(), tap=audience)
    async with running(server):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        server.listen(listener)
        await trio.to_thread.run_sync(partial(send_and_get, port, [b"", bytes(20_000_000)]))
        with trio.fail_after(5):
            while not audience.seen[-1].endswith("client closed without connection.close"):  # noqa: ASYNC110
                await trio.sleep(0.01)
    seen = [each for each in audience.seen if not each.endswith(" 3")]
    assert seen[0].endswith(f"-127.0.0.1:{port} {HEADER!r}")
    assert seen[1:-1] == [
        "server connection.start",
        "client connection.start-ok",
        "server connection.tune",
        "client connection.tune-ok",
        "client connection.open",
        "server connection.open-ok",
        "client channel.open",
        "server channel.open-ok",
        "client queue.declare",
        "server queue.declare-ok",
        "client confirm.select",
        "server confirm.select-ok",
        "client basic.publish",
        "client 2",
        "server basic.ack",
        "client basic.publish",
        "client 2",
        "server basic.ack",
        "client basic.get",
        "server basic.get-ok",
        "server 2",
        "client basic.get",
        "server basic.get-ok",
        "server 2",
        "client channel.close",
        "server channel.close-ok",
        "client connection.close",
        "server connection.close-ok",
    ]


@pytest.mark.parametrize("sender", [CLIENT, SERVER])
async def test_a_failing_tap_is_no_trouble_to_the_client(sender: str) -> None:
    class Failing(Audience):
        def saw_frames(self, session: Any, by: Any, *_: Any) -> None:
            assert by is not sender

    server = BrokerServer(Broker(), tap=Failing())
    async with running(server):
        with closing(server.open()) as end, capture_logs() as logs:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(end))
            await stream.send_all(OPENING)
            received = b""
            with trio.fail_after(5):
                while b"\x00\x14\x00\x0b" not in received:  # channel.open-ok
                    received += await stream.receive_some(4096)
            assert [each["event"] for each in logs if each["log_level"] == "error"] == ["tap failed"]


AMQP010_SENT = [
    f"1.2.3.4:5-6.7.8.9:5672 {AMQP010_HEADER!r}",
    f"server {AMQP010_HEADER!r}",
    "server connection.start",
    "client connection.start-ok",
]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_frames_of_0_10_are_shown_and_counted(size: int) -> None:
    audience, metrics = EndingAudience(), Metrics()
    tap = ConnectionTap(audience, 7, NAME, is_tls=False, metrics=metrics)
    for sender, data in [*LOGIN, *ATTACH, *MESSAGES]:
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            if sender is CLIENT:
                tap.received(piece)
            else:
                tap.sent([piece[:3], piece[3:]])
    assert audience.seen[:4] == AMQP010_SENT
    assert "client queue.declare #0" in audience.seen
    value = metrics.registry.get_sample_value
    assert value("amqproxy_messages_published_total") == 3
    assert isinstance(tap.meter, Amqp010ConnectionMeter)
    tap.ended("over")
    assert audience.seen[-1] == "7 1.2.3.4:5-6.7.8.9:5672 False over"
    assert value("amqproxy_messages_unacked") == 0
    assert value("amqproxy_connection_closes_total", {"by": "client", "code": "none"}) == 1


def test_what_is_no_frame_of_0_10_ends_its_direction() -> None:
    audience, metrics = EndingAudience(), Metrics()
    tap = ConnectionTap(audience, 7, NAME, is_tls=False, metrics=metrics)
    tap.received(AMQP010_HEADER + b"\xff" * 20)
    tap.received(b"\xff" * 20)
    tap.sent([LOGIN[1][1]])
    assert audience.seen[1:] == ["client 501", *AMQP010_SENT[1:3]]
    labels = {"sender": "client", "code": "501"}
    assert metrics.registry.get_sample_value("amqproxy_protocol_errors_total", labels) == 1


def test_a_fault_of_ours_in_reading_0_10_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    audience = EndingAudience()
    tap = ConnectionTap(audience, 7, NAME, is_tls=False)
    tap.received(AMQP010_HEADER)
    with capture_logs() as logs:
        monkeypatch.setattr(Amqp010Reading, "read", None)
        tap.received(LOGIN[2][1])
        tap.sent([LOGIN[1][1]])
        tap.ended("over")
    assert audience.seen[1:] == ["7 1.2.3.4:5-6.7.8.9:5672 False internal error"]
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["connection not shown any further"]
