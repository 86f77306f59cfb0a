"""Passwords reach the broker, and nothing that the proxy writes."""

import base64
from collections.abc import Iterator

import pytest

from tests.real import raw
from tests.real.proxy import StartProxy
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import Peer

pytestmark = [pytest.mark.real, pytest.mark.once]

PASSWORD, ROTATED = "correct-horse-battery", "staple-horse-rotated"


@pytest.fixture(scope="module")
def user(rabbitmq: RabbitMQ) -> Iterator[str]:
    rabbitmq.ctl("add_user", "secretive", PASSWORD)
    rabbitmq.ctl("set_permissions", "secretive", ".*", ".*", ".*")
    yield "secretive"
    rabbitmq.ctl("delete_user", "secretive")


def amqplain(user: str, password: str) -> bytes:
    """start-ok by RabbitMQ's other mechanism, whose response is a table."""
    response = raw.shortstr("LOGIN") + b"S" + raw.longstr(user.encode())
    response += raw.shortstr("PASSWORD") + b"S" + raw.longstr(password.encode())
    arguments = raw.longstr(b"") + raw.shortstr("AMQPLAIN") + raw.longstr(response) + raw.shortstr("en_US")
    return raw.method(0, 10, 11, arguments)


@pytest.mark.parametrize("options", [["--print"], ["--print", "--json"], []], ids=["text", "json", "log"])
def test_passwords_are_masked(options: list[str], user: str, rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    proxy = start_proxy(rabbitmq.port, *options, "--log-level", "debug")
    for start_ok in (raw.start_ok(user, PASSWORD), amqplain(user, PASSWORD), raw.start_ok(user, PASSWORD + "?")):
        with Peer.connect(proxy.port) as client:
            client.send(raw.PROTOCOL_HEADER)
            client.expect(10, 10)
            client.send(start_ok)
            if (answer := client.read()) is None or answer.method != (10, 30):
                continue
            client.send(raw.tune_ok(heartbeat=0), raw.connection_open())
            client.expect(10, 41)
            client.send(raw.method(0, 10, 70, raw.longstr(ROTATED.encode()) + raw.shortstr("rotation")))
            client.expect(10, 71)
            client.send(raw.connection_close())
            client.expect(10, 51)
    proxy.terminate()
    assert proxy.wait() == 0
    written = proxy.log
    if options:
        assert "update-secret" in written
    for secret in (PASSWORD, ROTATED):
        for form in (secret, base64.b64encode(secret.encode()).decode().rstrip("=")[:-1], secret.encode().hex()):
            assert form not in written
