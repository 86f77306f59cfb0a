"""Types and limits of queues, from the management API, the user and AMQP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import trio

from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.workbench.broker_api import APIFailed, BrokerAPI
from amqproxy.workbench.destination import ToQueue
from amqproxy.workbench.queue_facts import Given, QueueFacts, profile_of, queue_facts
from amqproxy.workbench.runs import BenchQueue, opened
from tests.workbench.bench_queue import BenchAt


class API(HTTPServer):
    """A management API that answers each request with `status` and `answer`."""

    status = 200
    answer: Any = b""
    asked = ""
    login: str | None = ""

    @property
    def access(self) -> BrokerAPI:
        return BrokerAPI(url=f"http://127.0.0.1:{self.server_port}", user="u", password="p")


class Handler(BaseHTTPRequestHandler):
    server: API

    def do_GET(self) -> None:
        self.server.asked, self.server.login = self.path, self.headers["Authorization"]
        body = self.server.answer if isinstance(self.server.answer, bytes) else json.dumps(self.server.answer).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[API]:
    with API(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def facts(bench: BenchAt, queue: str, given: Given) -> QueueFacts:
    async def main() -> QueueFacts:
        async with opened(BenchQueue(end=bench.end, vhost="/", name=queue)) as found:
            return await queue_facts(found.link, "/", queue, given)

    return trio.run(main)


@pytest.mark.parametrize(
    ("answer", "kind", "limit"),
    [
        ({"type": "classic"}, "classic", 20),
        ({"arguments": {"x-queue-type": "quorum"}}, "quorum", 20),
        ({"type": "quorum", "arguments": {"x-delivery-limit": 5}}, "quorum", 5),
        ({"type": "quorum", "arguments": {"x-delivery-limit": -1}}, "quorum", None),
        (
            {
                "type": "quorum",
                "arguments": {"x-delivery-limit": 5},
                "effective_policy_definition": {"delivery-limit": 3},
            },
            "quorum",
            3,
        ),
        ({"type": "quorum", "effective_policy_definition": []}, "quorum", 20),
    ],
)
def test_the_api_knows_type_and_limit(bench: BenchAt, api: API, answer: Any, kind: str, limit: int | None) -> None:
    api.answer = answer
    found = facts(bench, bench.numbered(2), Given(api=api.access))
    assert (found.type, found.delivery_limit, found.is_limit_known, found.messages) == (kind, limit, True, 2)


def test_the_api_is_asked_for_the_queue(api: API) -> None:
    api.answer = {}
    trio.run(api.access.queue, "a/b", "q ü")
    assert api.asked == "/api/queues/a%2Fb/q%20%C3%BC"
    assert api.login == "Basic dTpw"


@pytest.mark.parametrize(("status", "answer"), [(401, {}), (200, b"<html>"), (200, b"[]")])
def test_an_api_that_does_not_answer_so_is_named(api: API, status: int, answer: Any) -> None:
    api.status, api.answer = status, answer
    with pytest.raises(APIFailed, match=f"http://127.0.0.1:{api.server_port}"):
        trio.run(api.access.queue, "/", "q")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "127.0.0.1:15672", "ftp://a"])
def test_a_wrong_address_is_named(url: str) -> None:
    with pytest.raises(APIFailed, match=url):
        trio.run(BrokerAPI(url=url, user="u", password="p").queue, "/", "q")


def test_amqp_knows_streams_only(bench: BenchAt) -> None:
    stream, queue = bench.declare(x_queue_type="stream"), bench.declare()
    assert facts(bench, stream, Given()).type == "stream"
    assert facts(bench, queue, Given()).type == ""
    assert facts(bench, queue, Given(type="quorum", delivery_limit=-1)).delivery_limit is None


@pytest.mark.parametrize(
    ("version", "profile"),
    [
        ("3.10.8", "3.10"),
        ("3.13.7", "3.10"),
        ("4.0.5", "4.0"),
        ("4.2.1", "4.0"),
        ("4.3.6", "4.3"),
        ("4.10.0", "4.3"),
        ("2.8.7", "3.10"),
        ("x", "3.10"),
        (None, "3.10"),
    ],
)
def test_an_unknown_version_behaves_as_the_last_known_one_before(version: str | None, profile: str) -> None:
    assert profile_of({"version": version}) is PROFILES[profile]


def test_a_header_cc_leads_nowhere_else(bench: BenchAt) -> None:
    source, target, copy = bench.declare(), bench.declare(), bench.declare()
    bench.publish(source, [b"1"], headers={"CC": [copy]})
    bench.taken(copy)
    assert bench.moved(source, ToQueue(target)).done == 1
    assert bench.bodies(target) == [b"1"]
    assert bench.bodies(copy) == []
