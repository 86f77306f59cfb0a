"""The API's application over a broker in the same process: no socket, no process, no wait."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest

from amqproxy.broker.broker import Broker
from amqproxy.control.changes.actor import Actor
from amqproxy.control.changes.any_change import AnyChange, applied
from amqproxy.control.management.broker_management import BrokerManagement
from amqproxy.control.request import ListBrokerObjects, LogInToBroker, QueuePage, SampleBroker
from amqproxy.management import app
from amqproxy.management.broker_source import BrokerFacts, BrokerSource
from amqproxy.management.settings import Settings
from amqproxy.management.statistics.sampler import Sampler
from amqproxy.rabbitmq.profile import NEWEST, PROFILES, Profile
from tests.management.api import Answer, below_api


class LocalSource(BrokerSource):
    """A broker that is asked directly; `closed` and `texts` are of the requests to close connections."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(Path("none"))
        self._broker = broker
        self._management = BrokerManagement(broker, {}, [], started=0.0, time=lambda: 1.0)
        self.closed: list[Any] = []
        self.texts: list[str] = []
        self.connections: list[dict[str, Any]] = []
        self.pages: list[dict[str, Any]] = []
        self.logins: list[str] = []

    async def facts(self) -> BrokerFacts:
        return BrokerFacts(self._management.facts())

    async def ask(self, request: str, **keys: Any) -> dict[str, Any]:
        if request == "broker-login":
            self.logins.append(keys["user"])
            return await self._management.login(LogInToBroker(**keys))
        if request == "broker-close":
            self.closed.append(keys["session"])
            self.texts.append(keys["text"])
            return {}
        actor = Actor(self._broker, self._broker.users[keys["user"]], 0.0)
        return applied(msgspec.convert(keys["change"], AnyChange), actor)

    async def objects(
        self, kind: Any, vhost: str | None = None, name: str | None = None, page: Any = None
    ) -> AsyncGenerator[Any]:
        self.pages += [] if page is None else [page]
        if kind == "connections":
            found: Any = self.connections
        else:
            chosen = None if page is None else msgspec.convert(page, QueuePage)
            found = self._management.objects(ListBrokerObjects(kind=kind, vhost=vhost, name=name, page=chosen))
        for each in found:
            if each is not None:
                yield each

    async def samples(self, since: int) -> AsyncGenerator[Any]:
        for each in self._management.samples(SampleBroker(since=since)):
            if each is not None:
                yield each


class LocalApi:
    """Requests to the application, by users whose passwords are their names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, profile: Profile = PROFILES[NEWEST], **settings: Any) -> None:
        self.broker = Broker(profile=profile)
        self.source = LocalSource(self.broker)
        self._sampler = Sampler(self.source)
        monkeypatch.setattr(app, "BrokerSource", lambda path: self.source)
        monkeypatch.setattr(app, "Sampler", lambda source: self._sampler)
        usual = {"control": Path("none"), "host": "127.0.0.1", "port": 15672}
        self.receives = True
        """Whether the application may read bodies."""
        self._app = app.ManagementApp(Settings(**{**usual, **settings}))

    def sample(self, now: float) -> None:
        """Sample the broker's counts, as at a time in seconds since the epoch."""
        asyncio.run(self._sampler.sample(now))

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        user: str = "guest",
        headers: Mapping[str, str] = {},
        password: str | None = None,
    ) -> Answer:
        """Send a request; a `body` other than bytes is sent as JSON."""
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        login = "Basic " + b64encode(f"{user}:{password or user}".encode()).decode()
        named = {"host": "127.0.0.1:15672", "authorization": login, **headers}
        raw, _, query = below_api(path).partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(raw),
            "raw_path": raw.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
            "client": ("127.0.0.1", 1),
        }
        parts: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            assert self.receives
            return {"type": "http.request", "body": sent, "more_body": False}

        async def send(message: Any) -> None:
            parts.append(message)

        asyncio.run(self._app(scope, receive, send))
        found = {name.decode(): value.decode() for name, value in parts[0]["headers"]}
        return Answer(parts[0]["status"], found, b"".join(each.get("body", b"") for each in parts[1:]))
