"""A broker that users change by the management API."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
import pytest

from amqproxy.broker.access.permissions import Permission
from amqproxy.broker.access.users import User
from amqproxy.broker.queues.queue import Queue
from amqproxy.control.changes.actor import Actor
from amqproxy.control.changes.any_change import AnyChange, applied
from amqproxy.control.management.objects import KINDS, Selection
from amqproxy.control.request_error import RequestError
from tests.control.served import Serving

NOW = 1000.0


class Changing(Serving):
    """A broker that guest changes, who may do everything, or ann, whose permissions are for names with an a."""

    def __init__(self) -> None:
        super().__init__()
        ann = User.with_password("ann", "ann")
        ann.permit("/", Permission("^a", "^a", "^a"))
        self.broker.add_user(ann)

    def change(self, change: str, by: str = "guest", **keys: Any) -> dict[str, Any]:
        made = msgspec.convert({"change": change, **keys}, AnyChange)
        return applied(made, Actor(self.broker, self.broker.users[by], NOW))

    def refusal(self, change: str, by: str = "guest", **keys: Any) -> str:
        with pytest.raises(RequestError) as refused:
            self.change(change, by, **keys)
        return refused.value.name

    def names(self, kind: str) -> list[str]:
        found = KINDS[kind](Selection(self.broker, self.served))
        return [each["name"] for each in found if each is not None]

    @property
    def queue(self) -> Queue:
        return self.broker.vhosts["/"].queues["q"]

    def publish(self, *bodies: bytes, queue: str = "q") -> None:
        for body in bodies:
            keys = {"exchange": "", "routing_key": queue, "body": b64encode(body).decode()}
            assert self.change("publish", vhost="/", **keys) == {"routed": True}

    def get(self, count: int, outcome: str, **keys: Any) -> list[Any]:
        found = self.change("get", vhost="/", queue="q", count=count, outcome=outcome, **keys)
        return list(found["messages"])
