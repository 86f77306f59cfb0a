"""Upstreams of the monitored proxy, with which all happens that is counted of members, logins and switches."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pika
import trustme
from pika.exceptions import AMQPError

from amqproxy.control import ControlClient
from amqproxy.proxy.logins.password_hash import hash_password
from tests.monitoring.prometheus import Prometheus
from tests.real import raw
from tests.real.own import OwnBroker
from tests.real.poll import until
from tests.real.ports import free_port

QUEUES = ["moves", "stays"]
"""Queues of a switch; the second one is not there at its target."""


class Fleet:
    """Further listeners and upstreams of a proxy in front of `broker`.

    `blue` is that broker, by way of a listener of the proxy itself with TLS, and a member that is not there; `green`
    is another broker. `slow` lets nearly no client log in, `gray` passes its checks until the socket `checked` is
    closed, and for `red` there are no tokens.
    """

    def __init__(self, directory: Path, broker: OwnBroker) -> None:
        self.broker = broker
        self.directory = directory / "fleet"
        self.directory.mkdir()
        self.green = OwnBroker(self.directory)
        self.checked = socket.create_server(("127.0.0.1", 0))
        self.secured, self.logins, self.queue = (free_port() for _ in range(3))
        self.control = self.directory / "control"

    def close(self) -> None:
        self.checked.close()
        self.green.kill()

    def config(self) -> dict[str, Any]:
        """The proxy's config, without its first listener's address and its own upstream."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self._file("ca.pem")))
        issued = authority.issue_cert("localhost")
        issued.private_key_and_cert_chain_pem.write_to_path(str(self._file("proxy.pem")))
        password, users = self._file("password"), self._file("users.yaml")
        password.write_text("guest")
        password.chmod(0o600)
        users.write_text(json.dumps({"users": {"app": {"password": hash_password("secret")}}}))
        users.chmod(0o600)
        login = {"user": "guest", "password_file": str(password)}
        own = {
            "address": f"127.0.0.1:{self.secured}",
            "tls": {"ca": str(self._file("ca.pem")), "server_name": "localhost"},
        }
        grant = {"url": "http://127.0.0.1:1/token", "client_id": "a", "client_secret_env": "HOME"}
        return {
            "listen": [
                {},
                {
                    "address": f"127.0.0.1:{self.secured}",
                    "tls": {"certificate": str(self._file("proxy.pem")), "key": str(self._file("proxy.pem"))},
                },
                {"address": f"127.0.0.1:{self.logins}", "upstream": "blue", "login": "apps"},
                {"address": f"127.0.0.1:{self.queue}", "upstream": "slow"},
            ],
            "routes": [{"upstream": "gray", "when": 'client.address == "192.0.2.1"'}],  # which is not a client's
            "logins": {"apps": {"users_file": str(users)}},
            "upstreams": {
                "blue": {
                    "members": [own, {"address": "127.0.0.1:1"}],
                    "ejection": {"time": 600, "most": 600},
                    "login": login,
                    **login,
                },
                "green": {"address": f"127.0.0.1:{self.green.port}", "login": login, **login},
                "slow": {"address": f"127.0.0.1:{self.broker.port}", "logins_per_second": 0.001, "login_queue": 1},
                "gray": {
                    "members": [{"address": f"127.0.0.1:{self.checked.getsockname()[1]}"}],
                    "check": {"interval": 0.2, "fall": 1},
                },
                "red": {"address": "127.0.0.1:1", "login": {"user": "a", "grant": grant}},
            },
            "switching": {"state": str(self._file("switches.json"))},
            "control": {"path": str(self.control)},
        }

    def _file(self, name: str) -> Path:
        return self.directory / name

    def everything(self, prometheus: Prometheus) -> None:
        """Let each count rise, with a scrape before and after."""
        prometheus.scrape()
        self._fail_over(prometheus)
        self._wait_to_log_in(prometheus)
        self._switch(prometheus)
        self.checked.close()
        until(lambda: prometheus.value("sum(amqproxy_upstream_member_downs_total)"), "the member to be down")
        failures = 'amqproxy_token_renewals_total{upstream="red", outcome="failed"}'
        before = prometheus.value(failures)
        until(lambda: prometheus.value(failures) > before, "a further request for a token")

    def _connected(self) -> pika.BlockingConnection:
        credentials = pika.PlainCredentials("app", "secret")
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.logins, credentials=credentials, heartbeat=0)
        )

    def _fail_over(self, prometheus: Prometheus) -> None:
        """Clients come until the member that is not there is ejected."""
        with ExitStack() as stack:
            while not prometheus.value("sum(amqproxy_upstream_member_ejections_total)"):
                connection = self._connected()
                stack.callback(connection.close)
                prometheus.scrape()

    def _wait_to_log_in(self, prometheus: Prometheus) -> None:
        """The first client passes, the second one waits, the third one is refused."""
        with ExitStack() as stack:
            peers = [stack.enter_context(raw.Peer.connect(self.queue)) for _ in range(3)]
            for peer in peers:
                peer.send(b"AMQP\0\0\x09\1")
            until(lambda: prometheus.value('amqproxy_upstream_login_queue{upstream="slow"}'), "a client to wait")
            refused = 'amqproxy_upstream_logins_refused_total{upstream="slow"}'
            until(lambda: prometheus.value(refused), "a client to be refused")

    def _switch(self, prometheus: Prometheus) -> None:
        """A client that does not hear is told to go to green, and messages follow as far as there is a queue."""
        for port, names in ((self.broker.port, QUEUES), (self.green.port, QUEUES[:1])):
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
                channel = connection.channel()
                for name in names:
                    channel.queue_declare(name, durable=True)
                    channel.basic_publish("", name, b"1")
        client = self._connected()
        with ControlClient(self.control) as control:
            queues = [{"vhost": "/", "name": name} for name in QUEUES]
            control.ask("switches-begin", source="blue", target="green", queues=queues, finds_queues=False)
            until(lambda: prometheus.value("amqproxy_switch_clients"), "a client to be on its way")
            until(lambda: prometheus.value("amqproxy_switch_clients_told_total"), "the client to be told")
            with suppress(AMQPError):
                client.close()
            for name in ("messages_moved_total", "messages_left", "waits"):
                until(lambda name=name: prometheus.value(f"amqproxy_switch_{name}"), name)
            control.ask("switches-settle", switch="blue-green")
