"""What belongs to a client, a user, an exchange or a queue."""

from __future__ import annotations

import pytest

from amqproxy.dashboard.flows import FlowKey
from amqproxy.dashboard.party import Party
from amqproxy.dashboard.subject import Subject, consumer_party

pytestmark = pytest.mark.once

SHOP = Party("shop", "guest", "/")
PUBLISH = FlowKey("publish", SHOP, "orders", None, "new")
REPLY = FlowKey("publish", SHOP, "", None, "replies")
DELIVER = FlowKey("deliver", SHOP, "orders", "q", "new")


@pytest.mark.parametrize(
    ("subject", "flows"),
    [
        (Subject("client", "shop"), [PUBLISH, REPLY, DELIVER]),
        (Subject("client", "shop", "other"), []),
        (Subject("user", "guest"), [PUBLISH, REPLY, DELIVER]),
        (Subject("exchange", "orders"), [PUBLISH, DELIVER]),
        (Subject("exchange", ""), [REPLY]),
        (Subject("exchange", "orders", vhost="other"), []),
        (Subject("queue", "q", vhost="/"), [DELIVER]),
        (Subject("queue", "replies"), [REPLY]),
        (Subject("queue", "new"), []),
    ],
)
def test_flows(subject: Subject, flows: list[FlowKey]) -> None:
    assert [each for each in (PUBLISH, REPLY, DELIVER) if subject.has_flow(each)] == flows


BINDING = {"kind": "binding", "vhost": "/", "source": "orders", "destination": "q", "destination_type": "queue"}
QUEUE = {"kind": "queue", "vhost": "/", "name": "q"}
CONSUMER = {"kind": "consumer", "vhost": "/", "queue": "q", "name": "", "user": "guest", "connection": "10.0.0.7:1-b:2"}


@pytest.mark.parametrize(
    ("subject", "objects"),
    [
        (Subject("queue", "q"), [BINDING, QUEUE, CONSUMER]),
        (Subject("exchange", "orders"), [BINDING]),
        (Subject("exchange", "q"), []),
        (Subject("queue", "q", vhost="other"), []),
        (Subject("client", "10.0.0.7", "guest"), [CONSUMER]),
        (Subject("user", "guest"), [CONSUMER]),
    ],
)
def test_objects(subject: Subject, objects: list[dict[str, str]]) -> None:
    assert [each for each in (BINDING, QUEUE, CONSUMER) if subject.has_object(each)] == objects


def test_a_consumer_without_a_name_is_its_host() -> None:
    assert consumer_party(CONSUMER) == Party("10.0.0.7", "guest", "/")
