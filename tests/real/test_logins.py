"""Real clients that log in at the proxy, and the proxy at real brokers."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pika
import pika.credentials
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from amqproxy.proxy.logins.password_hash import hash_password
from tests.real.clients import Broker
from tests.real.clients.scenarios import CLIENTS, SCENARIOS
from tests.real.own import OwnBroker
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy
from tests.real.rabbitmq import RabbitMQ, running
from tests.real.rabbitmq_installation import installation
from tests.tokens.issuer import Issuer

pytestmark = [pytest.mark.real, pytest.mark.once]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a users file, and the broker's password."""
    found = tmp_path_factory.mktemp("logins")
    users = {
        "guest": {"password": hash_password("guest")},
        "orders": {"password": hash_password("of orders"), "vhosts": ["/"]},
        "sensor": {"certificate": "sensor-7"},
    }
    found.joinpath("users.yaml").write_bytes(msgspec.json.encode({"users": users}))
    found.joinpath("password").write_text("guest\n")
    return found


def config_of(directory: Path, **login: Any) -> dict[str, Any]:
    """A config in which clients log in by the users file, and the proxy as guest."""
    return {
        "listen": [{"login": "staff"}],
        "logins": {"staff": {"users_file": str(directory / "users.yaml"), "failure_delay": 0.1, **login}},
        "upstream": {"login": {"user": "guest", "password_file": str(directory / "password")}},
    }


@pytest.fixture(scope="module")
def logging_in(rabbitmq: RabbitMQ, directory: Path) -> Iterator[Proxy]:
    """A proxy before RabbitMQ, where clients log in by the users file."""
    proxy = Proxy(directory, rabbitmq.port, **config_of(directory))
    yield proxy
    proxy.terminate()
    assert proxy.wait() == 0


def connect(port: int, user: str, password: str, **options: Any) -> BlockingConnection:
    login = pika.PlainCredentials(user, password)
    return BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, credentials=login, **options))


def passes_message(connection: BlockingConnection) -> bool:
    """Whether a message that is published and confirmed can be fetched."""
    channel = connection.channel()
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, b"hello", mandatory=True)
    _, _, body = channel.basic_get(queue, auto_ack=True)
    return bool(body == b"hello")


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_clients_behave_as_if_they_had_logged_in_at_the_broker(
    client: ModuleType, scenario: str, logging_in: Proxy, rabbitmq: RabbitMQ
) -> None:
    getattr(client, scenario)(Broker(logging_in.port, rabbitmq.ctl))
    assert "Traceback" not in logging_in.log


def test_a_user_that_the_broker_does_not_know(logging_in: Proxy, rabbitmq: RabbitMQ) -> None:
    with connect(logging_in.port, "orders", "of orders") as connection:
        assert passes_message(connection)
        assert "guest" in rabbitmq.ctl("list_connections", "user")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="ACCESS_REFUSED - Login was refused using"):
        connect(logging_in.port, "orders", "guessed")
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="access to vhost 'other' refused"):
        connect(logging_in.port, "orders", "of orders", virtual_host="other")
    log = until(lambda: "guessed" not in logging_in.log and "login refused" in logging_in.log, "the refusal in the log")
    assert log
    assert "of orders" not in logging_in.log


def test_the_virtual_host_is_the_brokers_to_refuse(logging_in: Proxy) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost nowhere not found"):
        connect(logging_in.port, "guest", "guest", virtual_host="nowhere")


def test_a_client_renews_its_secret(logging_in: Proxy) -> None:
    """RabbitMQ, where the proxy has logged in as guest, is not asked."""
    connection = connect(logging_in.port, "orders", "of orders")
    for _ in range(2):
        connection.update_secret("of orders", "renewed")
        assert passes_message(connection)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="New secret was refused by one of the backends"):
        connection.update_secret("of stock", "renewed")


@pytest.mark.parametrize("naming", ["common_name", "dns"])
def test_a_certificate_stands_for_a_user_of_the_broker(
    naming: str, start_proxy: StartProxy, rabbitmq: RabbitMQ, directory: Path, tmp_path: Path
) -> None:
    authority = rabbitmq.authority
    files = {name: tmp_path / f"{name}.pem" for name in ("authority", "server", "sensor", "other")}
    authority.cert_pem.write_to_path(files["authority"])
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(files["server"])
    for name, user in (("sensor", "sensor-7"), ("other", "sensor-8")):
        names = (f"{name}@example.com", user) if naming == "common_name" else (user, name)
        issued = authority.issue_cert(names[0], common_name=names[1])
        issued.private_key_and_cert_chain_pem.write_to_path(files[name])
    config = config_of(directory, mechanisms=["EXTERNAL"], certificate_login=naming)
    server = str(files["server"])
    config["listen"][0]["tls"] = {"certificate": server, "key": server, "client_ca": str(files["authority"])}
    proxy = start_proxy(rabbitmq.port, **config)

    def connect_as(name: str) -> BlockingConnection:
        context = ssl.create_default_context(cafile=str(files["authority"]))
        context.load_cert_chain(files[name])
        options = pika.SSLOptions(context, "localhost")
        login = pika.credentials.ExternalCredentials()
        return BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", proxy.port, credentials=login, ssl_options=options)
        )

    with connect_as("sensor") as connection:
        assert passes_message(connection)
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="mechanism EXTERNAL"):
        connect_as("other")


def test_virtual_hosts_and_users_have_upstreams_of_their_own(
    start_proxy: StartProxy, rabbitmq: RabbitMQ, own_broker: OwnBroker, directory: Path
) -> None:
    login = {"user": "guest", "password_file": str(directory / "password")}
    rabbitmq.ctl("add_vhost", "billing")
    rabbitmq.ctl("set_permissions", "-p", "billing", "guest", ".*", ".*", ".*")
    config = config_of(directory) | {
        "upstreams": {"rabbit": {"address": f"127.0.0.1:{rabbitmq.port}", "login": login}},
        "routes": [
            {"upstream": "rabbit", "vhost": "billing"},
            {"upstream": "rabbit", "when": "client.properties.product == 'billing'"},
        ],
    }
    proxy = start_proxy(own_broker.port, **config)

    def connections(user: str, **options: Any) -> str:
        with connect(proxy.port, user, {"guest": "guest", "orders": "of orders"}[user], **options) as connection:
            assert passes_message(connection)
            return rabbitmq.ctl("list_connections", "vhost", "client_properties")

    assert "billing" in connections("guest", virtual_host="billing")
    assert "billing" in connections("orders", client_properties={"product": "billing"})
    assert "PIKA" not in connections("orders").upper()
    rabbitmq.ctl("delete_vhost", "billing")


LIFE = 6
"""Seconds of a token's life, of which two thirds pass before it is renewed."""


class Made(NamedTuple):
    """An issuer of tokens for RabbitMQ: the URL of its endpoint, its key, and the times at which it has made tokens."""

    url: str
    key: bytes
    at: list[float]


@pytest.fixture
def issuer() -> Iterator[Made]:
    keys, made = Issuer(), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.append(time.time())
            scope = "amqproxy.read:*/* amqproxy.write:*/* amqproxy.configure:*/*"
            token = keys.token(aud="amqproxy", scope=scope, exp=int(time.time()) + LIFE)
            body = msgspec.json.encode({"access_token": token, "token_type": "Bearer", "expires_in": LIFE})
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield Made(f"http://127.0.0.1:{server.server_port}/token", keys.keys["rsa"].as_pem(private=False), made)
    server.shutdown()
    serving.join()
    server.server_close()


def test_clients_outlive_the_tokens_of_the_proxy(
    start_proxy: StartProxy, issuer: Made, tmp_path: Path, directory: Path, monkeypatch: Any
) -> None:
    """RabbitMQ closes connections whose token has expired."""
    key = tmp_path / "key.pem"
    key.write_bytes(issuer.key)
    settings = {
        "auth_backends.1": "internal",
        "auth_backends.2": "rabbit_auth_backend_oauth2",
        "auth_oauth2.resource_server_id": "amqproxy",
        "auth_oauth2.default_key": "rsa",
        "auth_oauth2.signing_keys.rsa": key,
    }
    monkeypatch.setenv("CLIENT_SECRET", "of the proxy")
    node_directory = tmp_path / "node"
    node_directory.mkdir()
    with running(node_directory, installation("4.3"), settings, plugins=("rabbitmq_auth_backend_oauth2",)) as node:
        config = config_of(directory)
        config["upstream"]["login"] = {
            "grant": {"url": issuer.url, "client_id": "amqproxy", "client_secret_env": "CLIENT_SECRET"}
        }
        proxy = start_proxy(node.port, **config)
        idle, busy = (connect(proxy.port, "orders", "of orders", heartbeat=2) for _ in range(2))
        count = len(issuer.at)
        while len(issuer.at) < count + 3:
            assert passes_message(busy)
            idle.process_data_events(0.1)
            busy.process_data_events(0.1)
        assert passes_message(idle)
        assert "expired" not in node.log.lower()
        for each in (idle, busy):
            each.close()
    assert "Traceback" not in proxy.log
