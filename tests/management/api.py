"""A management API as its clients use it, RabbitMQ's or ours, with a client of the broker behind it."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

import pika

from amqproxy.broker.access.users import hash_password
from tests.real.poll import until

DEADLINE = 60.0

TAGS: Mapping[str, str] = {
    "guest": "administrator",
    "mona": "monitoring",
    "paul": "policymaker",
    "mary": "management",
    "nick": "",
}
"""Users with their tags; each has its name as its password."""


class Answer(NamedTuple):
    """A response; header names are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


def below_api(path: str) -> str:
    """The whole path of one that is below `/api`, unless it begins with `/`."""
    return path if path.startswith("/") else f"/api/{path}"


class Api:
    """An API at a port, and the broker behind it at another, with the estate of `definitions` and one client."""

    def __init__(self, port: int, amqp_port: int) -> None:
        self.port = port
        self.amqp_port = amqp_port

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        user: str | None = "guest",
        password: str | None = None,
        headers: Mapping[str, str] = {},
    ) -> Answer:
        """Send a request; a `body` other than bytes is sent as JSON."""
        sent = dict(headers)
        if user is not None:
            sent["Authorization"] = "Basic " + b64encode(f"{user}:{password or user}".encode()).decode()
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent = {"Content-Type": "application/json"} | sent
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            connection.request(method, below_api(path), body, sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **options: Any) -> Any:
        """Return the JSON of a request that succeeds."""
        answer = self.ask("GET", path, **options)
        assert answer.status == 200, (path, answer)
        return answer.json

    def connected(self) -> pika.BlockingConnection:
        """Open the connection that the API shows, with a channel, a consumer and an exclusive queue."""
        parameters = pika.ConnectionParameters(
            "127.0.0.1", self.amqp_port, heartbeat=0, client_properties={"connection_name": "shown"}
        )
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume("consumed", lambda *_: None, consumer_tag="tag")
        channel.queue_declare("exclusive", exclusive=True)
        channel.basic_publish("", "limited", b"12345", pika.BasicProperties(delivery_mode=2))
        self.await_shown()
        return connection

    def await_shown(self) -> None:
        """Wait until the API shows the connection, its consumer, and the message."""
        until(lambda: len(self.get("connections")) == 1 and len(self.get("channels")) == 1, "the connection")
        until(lambda: self.get("queues/%2F/limited").get("messages") == 1, "the message")
        until(lambda: self.get("queues/%2F/consumed").get("consumers") == 1, "the consumer")
        until(lambda: all("messages" in each for each in self.get("queues")), "statistics of all queues")
        until(lambda: self.get("channels")[0].get("consumer_count") == 1, "the channel")
        until(lambda: self.get("connections")[0].get("channels") == 1, "the connection's channel")
        until(lambda: self.get("vhosts")[0].get("messages") == 1, "the total")
        until(lambda: self.get("overview")["queue_totals"].get("messages") == 1, "the total of all")


def definitions(version: str) -> dict[str, Any]:
    """The estate as definitions: users with each tag, three virtual hosts, and objects of each kind."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    arguments: dict[str, dict[str, Any]] = {
        "limited": {"x-max-length": 100},
        "consumed": {},
        "many": {"x-queue-type": "quorum"},
        "log": {"x-queue-type": "stream"},
    }
    return {
        "rabbit_version": version,
        "rabbitmq_version": version,
        "users": [
            {
                "name": name,
                "password_hash": hash_password(name),
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": [tag] if tag else [],
                "limits": {"max-connections": 5} if name == "mary" else {},
            }
            for name, tag in TAGS.items()
        ],
        "vhosts": [
            {"name": "/", "metadata": {"description": "Default virtual host", "tags": []}},
            {"name": "a/b", "metadata": {"description": "with a slash", "tags": ["x", "y"]}},
            {"name": "other"},
        ],
        "permissions": [
            {"user": "guest", "vhost": "/", **everything},
            {"user": "guest", "vhost": "a/b", **everything},
            {"user": "guest", "vhost": "other", **everything},
            {"user": "paul", "vhost": "/", **everything},
            {"user": "mary", "vhost": "/", **everything},
            {"user": "nick", "vhost": "/", **everything},
        ],
        "topic_permissions": [{"user": "mary", "vhost": "/", "exchange": "amq.topic", "write": "w", "read": "r"}],
        "parameters": [
            {"vhost": "other", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 5}},
            {
                "vhost": "/",
                "component": "operator_policy",
                "name": "ours",
                "value": {"pattern": "^lim", "apply-to": "queues", "definition": {"max-length": 40}, "priority": 1},
            },
        ],
        "global_parameters": [{"name": "cluster_name", "value": "tested"}],
        "policies": [
            {
                "vhost": "/",
                "name": "theirs",
                "pattern": "^lim",
                "apply-to": "queues",
                "definition": {"max-length": 50},
                "priority": 1,
            }
        ],
        "queues": [
            {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": each}
            for name, each in arguments.items()
        ],
        "exchanges": [
            {
                "name": "topical",
                "vhost": "/",
                "type": "topic",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {"alternate-exchange": "amq.fanout"},
            }
        ],
        "bindings": [
            _binding("limited", "queue", "a.*", {"k": 1}),
            _binding("limited", "queue", "b", {}),
            _binding("limited", "queue", "", {}),
            _binding("amq.fanout", "exchange", "c", {}),
        ],
    }


def _binding(destination: str, kind: str, routing_key: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "source": "topical",
        "vhost": "/",
        "destination": destination,
        "destination_type": kind,
        "routing_key": routing_key,
        "arguments": arguments,
    }
