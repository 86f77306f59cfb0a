"""Clients of 0-10 log in at the proxy, and the proxy at Broker-J."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from amqproxy.amqp010.commands import ExecutionSync, QueueDeclare, QueueDelete
from amqproxy.proxy.logins.password_hash import hash_password
from tests.qpid.broker_j import BrokerJ
from tests.qpid.raw_client import RawClient
from tests.real.proxy import StartProxy

pytestmark = [pytest.mark.real, pytest.mark.once]


def test_a_client_logs_in_at_the_proxy(broker_j: BrokerJ, start_proxy: StartProxy, tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    users.write_bytes(msgspec.json.encode({"users": {"orders": {"password": hash_password("of orders")}}}))
    password = tmp_path / "password"
    password.write_text("guest\n")
    proxy = start_proxy(
        broker_j.port,
        listen=[{"login": "staff"}],
        logins={"staff": {"users_file": str(users)}},
        upstream={"login": {"user": "guest", "password_file": str(password)}},
    )
    client = RawClient(proxy.port, response=b"\0orders\0of orders")
    client.say(QueueDeclare("of-orders"))
    client.say(QueueDelete("of-orders"))
    client.say(ExecutionSync(sync=True))
    client.wait_for("session.completed")
    client.close()
    with pytest.raises(AssertionError, match=r"closed before connection\.tune"):
        RawClient(proxy.port, response=b"\0orders\0guessed")
    assert "Traceback" not in proxy.log
