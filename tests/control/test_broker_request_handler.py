"""Requests that a broker without a proxy answers or refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.methods import BasicConsume
from amqproxy.app.broker_program import recorded_by_broker
from amqproxy.configuration.config import Limits
from amqproxy.control.broker_request_handler import BrokerRequestHandler
from amqproxy.control.management.broker_management import BrokerManagement, ListenerFacts
from amqproxy.control.recording_control import RecordingControl
from amqproxy.control.request import PROXY_REQUESTS, REQUESTS, parse
from amqproxy.control.request_error import RequestError
from amqproxy.control.request_handler import ListResponse, StreamedList
from amqproxy.control.statistics import Statistics
from amqproxy.recording.recorder import Recorder
from amqproxy.taps.metrics import Metrics
from tests.control.served import Serving

NEEDS = {
    "switches-begin": {"source": "blue", "target": "green"},
    **{f"switches-{name}": {"switch": "s"} for name in ("back", "forth", "settle", "forget", "queues", "compare")},
    "rules-check": {"rules": []},
    "rules-set": {"rules": []},
    "rules-add": {"rule": {}},
    "rules-end": {"rule": "a"},
    "rules-remove": {"rule": "a"},
    "rules-shadow": {"rule": "a"},
    "rules-enforce": {"rule": "a"},
    "release": {"session": 1, "number": 1},
    "pause": {"session": 1},
    "resume": {"session": 1},
    "upstreams-drain": {"member": "a:1"},
    "upstreams-eject": {"member": "a:1"},
    "upstreams-restore": {"member": "a:1"},
    "upstreams-weight": {"member": "a:1", "weight": 1},
    "upstreams-rebalance": {"upstream": "a"},
}


class Asked(Serving):
    """A broker that is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.reloaded = 0
        metrics = Metrics()
        recorder = Recorder(Limits(), metrics, lambda *_: None, lambda *_: None)
        self.handler = BrokerRequestHandler(
            self,
            self.reload,
            time=lambda: 100.0,
            statistics=Statistics(metrics.registry, lambda: (0.0, 0.0), started=1.0, time=lambda: 100.0),
            recording=RecordingControl(recorder, None, recorded_by_broker),
            management=BrokerManagement(self.broker, self.served, [ListenerFacts("127.0.0.1", 5672, False)]),
            listen=["127.0.0.1:5672"],
        )

    async def reload(self) -> None:
        self.reloaded += 1

    async def ask(self, request: str, **keys: Any) -> Any:
        """The response; what it lists, without the gaps."""
        answer = await self.handler.answered(parse(msgspec.json.encode({"request": request, **keys})))
        if isinstance(answer, ListResponse):
            return {answer.name: [each for each in answer.entries if each is not None], **answer.more}
        return answer


async def test_hello_names_what_it_answers() -> None:
    hello = await Asked().ask("hello")
    assert (hello["protocol"], hello["listen"]) == (1, ["127.0.0.1:5672"])
    assert set(REQUESTS) - set(hello["requests"]) == PROXY_REQUESTS
    assert {"connections", "subscribe", "record-start", "broker-queues", "close", "stats"} <= set(hello["requests"])


@pytest.mark.parametrize("request_", sorted(PROXY_REQUESTS))
async def test_what_only_a_proxy_can_is_refused(request_: str) -> None:
    with pytest.raises(RequestError, match="this is a broker by itself: only a proxy has rules") as refused:
        await Asked().ask(request_, **NEEDS.get(request_, {}))
    assert refused.value.name == "not-observable"


async def test_lists() -> None:
    asked = Asked()
    asked.client.send(1, BasicConsume(queue="q", consumer_tag="c"))
    asked.client.receive()
    for request, name in [("connections", "connections"), ("sessions", "sessions"), ("channels", "channels")]:
        [one] = (await asked.ask(request))[name]
        assert (one["session"], one["user"]) == (1, "guest")
    assert len((await asked.ask("consumers", session=1))["consumers"]) == 1
    with pytest.raises(RequestError, match="there is no session 2"):
        await asked.ask("channels", session=2)
    [queue] = (await asked.ask("broker-queues"))["queues"]
    assert queue["name"] == "q"
    kinds = [each["kind"] for each in (await asked.ask("topology"))["topology"]]
    assert (kinds.count("queue"), kinds.count("consumer"), kinds[-1]) == (1, 1, "consumer")
    stats = await asked.ask("stats")
    assert stats["stats"]["uptime"] == 99
    assert any(each["name"] == "amqproxy_connections" for each in stats["metrics"])
    assert await asked.ask("reload") == {"rules": 0, "restart": []}
    assert asked.reloaded == 1


async def test_requests_of_the_management_api() -> None:
    asked = Asked()
    assert (await asked.ask("broker"))["listeners"] == [{"host": "127.0.0.1", "port": 5672, "tls": False}]
    assert (await asked.ask("broker-login", user="guest", password="guest", loopback=True))["name"] == "guest"
    objects = await asked.handler.answered(parse(b'{"request": "broker-objects", "kind": "queues"}'))
    assert isinstance(objects, StreamedList)
    assert [each["name"] for each in objects.entries] == ["q"]


async def test_a_client_that_goes_while_it_is_listed_is_left_out() -> None:
    asked = Asked()
    answer = asked.handler.answer(parse(b'{"request": "channels"}'))
    assert isinstance(answer, ListResponse)
    del asked.served[1]
    assert list(answer.entries) == [None]


async def test_a_connection_and_a_channel_are_closed() -> None:
    asked = Asked()
    with pytest.raises(RequestError, match="no open channel 7"):
        await asked.ask("close", session=1, channel=7)
    await asked.ask("close", session=1, channel=1, text="one too many")
    assert asked.client.transcript() == "channel 406 0.0 PRECONDITION_FAILED - one too many"
    await asked.ask("close", session=1, text="please reconnect")
    assert asked.client.transcript() == "connection 320 0.0 CONNECTION_FORCED - please reconnect"
    with pytest.raises(RequestError, match="there is no session 2"):
        await asked.ask("close", session=2)


async def test_who_has_not_logged_in_has_nothing_to_close() -> None:
    asked = Asked()
    asked.client.connection.vhost = None
    with pytest.raises(RequestError, match="session 1 has no open connection"):
        await asked.ask("close", session=1)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"legs": "upstream"}, "settings.legs: a broker without a proxy has no upstream"),
        ({"when_full": "wait"}, "settings.when_full: a broker without a proxy does not wait for the disk"),
    ],
)
async def test_recordings_that_only_a_proxy_can_make(settings: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=text):
        await Asked().ask("record-start", settings={"directory": str(tmp_path), **settings})
    assert (await Asked().ask("record-status"))["recording"]["is_recording"] is False
