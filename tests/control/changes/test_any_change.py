"""Changes of a broker on behalf of a user."""

from __future__ import annotations

from typing import get_args

import pytest

from amqproxy.broker.access.users import LoginRefused
from amqproxy.control.changes.any_change import AnyChange
from amqproxy.control.changes.message_changes import MOST_GOT, MOST_GOT_BYTES
from tests.control.changes.changing import Changing


def test_virtual_hosts_users_and_permissions() -> None:
    broker = Changing()
    assert broker.change("put-vhost", name="v", description="d", tags=["t"]) == {"new": True}
    assert broker.broker.users["guest"].may("v", "configure", "x")
    assert broker.change("put-vhost", name="v", tracing=True) == {"new": False}
    assert (broker.broker.vhosts["v"].description, broker.broker.vhosts["v"].is_traced) == ("d", True)
    assert broker.change("put-user", name="bob", tags=["management"], password="b") == {"new": True}
    assert broker.broker.users["bob"].accepts("b")
    assert broker.change("put-permission", vhost="v", user="bob", configure="", write="", read="") == {"new": True}
    hashed = broker.broker.users["bob"].password_hash
    assert broker.change("put-user", name="bob", tags=["monitoring"]) == {"new": False}
    assert (broker.broker.users["bob"].password_hash, broker.broker.users["bob"].tags) == (hashed, ("monitoring",))
    assert broker.change("put-user", name="bob", tags=[], password_hash="") == {"new": False}
    assert (broker.broker.users["bob"].accepts("b"), list(broker.broker.users["bob"].permissions)) == (False, ["v"])
    assert broker.refusal("put-permission", vhost="v", user="bob", configure="[", write="", read="") == "invalid"
    assert broker.refusal("put-permission", vhost="v", user="no", configure="", write="", read="") == "no-user"
    assert broker.refusal("put-permission", vhost="no", user="bob", configure="", write="", read="") == "no-vhost"
    keys = {"vhost": "v", "user": "bob"}
    assert broker.change("put-topic-permission", exchange="amq.topic", write="", read="", **keys) == {"new": True}
    assert broker.change("delete-topic-permissions", **keys) == {"found": True}
    assert broker.change("delete-topic-permissions", **keys) == {"found": False}
    assert broker.change("delete-permission", **keys) == {"found": True}
    assert broker.change("delete-permission", **keys) == {"found": False}
    assert broker.change("put-user-limit", user="bob", name="max-channels", value=3) == {}
    assert broker.broker.users["bob"].limits == {"max-channels": 3}
    assert broker.change("put-user-limit", user="bob", name="max-channels") == {}
    assert broker.change("put-vhost-limit", vhost="v", name="max-queues", value=3) == {}
    assert broker.broker.vhosts["v"].limits == {"max-queues": 3}
    assert broker.refusal("put-vhost-limit", vhost="v", name="max-nothing", value=3) == "invalid"
    assert broker.change("delete-user", name="bob") == {"found": True}
    assert broker.change("delete-user", name="bob") == {"found": False}
    assert broker.change("delete-vhost", name="v") == {"found": True}
    assert broker.change("delete-vhost", name="v") == {"found": False}


@pytest.mark.parametrize("by_definitions", [False, True])
def test_changes_of_a_user_reach_its_open_connections(by_definitions: bool) -> None:
    broker = Changing()
    held = broker.broker.users["ann"]
    held.channels = 3
    assert held.may("/", "write", "a")
    if by_definitions:
        entry = {"name": "ann", "tags": ["monitoring"], "password_hash": ""}
        broker.change("import", definitions={"users": [entry]})
    else:
        assert broker.change("put-user", name="ann", tags=["monitoring"], password="new") == {"new": False}
    assert broker.broker.users["ann"] is held
    assert (held.tags, held.accepts("ann"), held.accepts("new")) == (("monitoring",), False, not by_definitions)
    broker.change("delete-permission", user="ann", vhost="/")
    assert not held.may("/", "write", "a")


def test_a_refused_change_of_a_user_changes_nothing() -> None:
    broker = Changing()
    keys = {"name": "ann", "tags": ["monitoring"], "password_hash": "", "hashing_algorithm": "rot13"}
    assert broker.refusal("put-user", **keys) == "invalid"
    wrong = {"name": "ann", "tags": ["monitoring"], "limits": {"max-channels": "x"}}
    assert broker.refusal("import", definitions={"users": [wrong]}) == "invalid"
    assert (broker.broker.users["ann"].tags, broker.broker.users["ann"].accepts("ann")) == ((), True)


def test_a_new_guest_logs_in_from_this_machine_only() -> None:
    broker = Changing()
    guest = {"name": "guest", "tags": [], "password": "x"}
    for keys in ({"change": "put-user", **guest}, {"change": "import", "definitions": {"users": [guest]}}):
        broker.change("delete-user", "ann", name="guest")
        broker.change(by="ann", **keys)
        with pytest.raises(LoginRefused, match="only connect via localhost"):
            broker.broker.log_in("guest", "x", is_loopback=False)
        broker.broker.log_in("guest", "x", is_loopback=True)


def test_queues_exchanges_and_bindings() -> None:
    broker = Changing()
    keys = {"vhost": "/", "name": "made"}
    assert broker.change("declare-queue", arguments={"x-max-length": 3}, **keys) == {"new": True}
    assert broker.change("declare-queue", arguments={"x-max-length": 3}, **keys) == {"new": False}
    assert broker.refusal("declare-queue", arguments={"x-max-length": 4}, **keys) == "invalid"
    assert broker.refusal("declare-queue", vhost="no", name="made") == "no-vhost"
    assert broker.refusal("declare-queue", vhost="/", name="amq.made") == "denied"
    assert broker.change("declare-exchange", vhost="/", name="x", type="topic") == {"new": True}
    assert broker.refusal("declare-exchange", vhost="/", name="x", type="fanout") == "invalid"
    ends = {"vhost": "/", "source": "x", "destination_type": "queue", "destination": "made"}
    key = broker.change("bind", routing_key="a.*", arguments={"k": 1}, **ends)["properties_key"]
    assert broker.change("bind", routing_key="b", **ends) == {"properties_key": "b"}
    assert broker.refusal("bind", **{**ends, "source": "no"}) == "not-found"
    assert broker.refusal("bind", **{**ends, "source": ""}) == "denied"
    assert broker.refusal("delete-exchange", vhost="/", name="x", if_unused=True) == "invalid"
    assert broker.change("unbind", properties_key=key, **ends) == {"found": True}
    assert broker.change("unbind", properties_key=key, **ends) == {"found": False}
    assert broker.change("unbind", properties_key=key, **{**ends, "destination": "no"}) == {"found": False}
    assert broker.change("delete-exchange", vhost="/", name="x") == {"found": True}
    assert broker.refusal("delete-exchange", vhost="/", name="amq.topic") == "denied"
    assert broker.change("delete-queue", **keys) == {"found": True}
    assert broker.change("delete-queue", **keys) == {"found": False}


def test_a_user_needs_the_permissions_of_an_amqp_client() -> None:
    broker = Changing()
    assert broker.change("declare-queue", "ann", vhost="/", name="a") == {"new": True}
    assert broker.refusal("declare-queue", "ann", vhost="/", name="b") == "denied"
    letters = {"x-dead-letter-exchange": "other"}
    assert broker.refusal("declare-queue", "ann", vhost="/", name="a2", arguments=letters) == "denied"
    assert broker.refusal("delete-queue", "ann", vhost="/", name="q") == "denied"
    assert broker.refusal("purge-queue", "ann", vhost="/", name="q") == "denied"
    assert broker.refusal("get", "ann", vhost="/", queue="q", count=1, outcome="ack") == "denied"
    assert broker.refusal("declare-exchange", "ann", vhost="/", name="x") == "denied"
    ends = {"vhost": "/", "source": "amq.topic", "destination_type": "queue", "destination": "q"}
    assert broker.refusal("bind", "ann", **ends) == "denied"
    message = {"vhost": "/", "routing_key": "a", "body": ""}
    assert broker.change("publish", "ann", exchange="amq.topic", **message) == {"routed": False}
    assert broker.refusal("publish", exchange="amq.rabbitmq.trace", **message) == "denied"


def test_messages_are_got_and_settled() -> None:
    broker = Changing()
    broker.publish(b"one", b"\xff")
    first, second = broker.get(5, "requeue", truncate=2)
    assert (first["body"], first["payload_bytes"], first["message_count"]) == ("b24=", 3, 1)
    assert (second["redelivered"], second["message_count"]) == (False, 0)
    [again] = broker.get(1, "requeue")
    assert (again["body"], again["redelivered"]) == ("b25l", True)
    assert len(broker.get(1, "ack")) == 1
    assert len(broker.get(5, "reject")) == 1
    assert broker.get(5, "ack") == []
    assert broker.broker.vhosts["/"].queues["q"].unacked == 0
    assert broker.refusal("get", vhost="/", queue="no", count=1, outcome="ack") == "not-found"
    broker.publish(b"purged")
    assert broker.change("purge-queue", vhost="/", name="q") == {"found": True}
    assert broker.change("purge-queue", vhost="/", name="no") == {"found": False}
    assert broker.get(1, "ack") == []


def test_properties_of_a_message() -> None:
    broker = Changing()
    given = {"delivery_mode": 2, "headers": {"h": 1}, "message_id": "m", "timestamp": 1, "unknown": 2}
    keys = {"vhost": "/", "exchange": "", "routing_key": "q", "body": ""}
    broker.change("publish", properties=given, **keys)
    [message] = broker.get(1, "ack")
    assert message["properties"] == {"delivery_mode": 2, "headers": {"h": 1}, "message_id": "m", "timestamp": 1}
    broker.change("declare-queue", vhost="/", name="copied")
    broker.change("publish", properties={"headers": {"CC": ["copied"], "BCC": ["copied"]}}, **keys)
    assert broker.get(1, "ack")[0]["properties"] == {"headers": {"CC": ["copied"]}}
    assert broker.broker.vhosts["/"].queues["copied"].message_count == 1
    for wrong in ({"delivery_mode": 3}, {"message_id": "x" * 256}, {"priority": "high"}, {"user_id": "ann"}):
        assert broker.refusal("publish", properties=wrong, **keys) == "invalid"


def test_what_one_request_gets_is_bounded() -> None:
    broker = Changing()
    broker.publish(*([b""] * (MOST_GOT + 1)))
    assert len(broker.get(2 * MOST_GOT, "ack")) == MOST_GOT
    broker.get(1, "ack")
    broker.publish(*([b"x" * (MOST_GOT_BYTES // 2)] * 3))
    assert len(broker.get(3, "requeue")) == 2


def test_policies_parameters_and_definitions() -> None:
    broker = Changing()
    policy = {"vhost": "/", "name": "p", "pattern": "^q", "definition": {"max-length": 3}}
    assert broker.change("put-policy", **policy) == {"new": True}
    assert broker.change("put-policy", **policy, priority=3, apply_to="queues") == {"new": False}
    assert broker.change("put-policy", **policy, is_operator=True) == {"new": True}
    assert broker.refusal("put-policy", **{**policy, "definition": {"no": 1}}) == "invalid"
    assert broker.refusal("put-policy", **policy, priority="high") == "invalid"
    assert (broker.names("policies"), broker.names("operator-policies")) == (["p"], ["p"])
    assert broker.change("delete-policy", vhost="/", name="p") == {"found": True}
    assert broker.change("delete-policy", vhost="/", name="p") == {"found": False}
    assert broker.change("put-global-parameter", name="g", value=[1]) == {"new": True}
    assert broker.change("put-global-parameter", name="g", value=2) == {"new": False}
    assert broker.change("delete-global-parameter", name="g") == {"found": True}
    assert broker.change("delete-global-parameter", name="g") == {"found": False}
    assert broker.change("import", definitions={"queues": [{"name": "i"}]}, vhost="/") == {"warnings": []}
    assert broker.names("queues") == ["q", "i"]
    assert broker.refusal("import", definitions={"queues": [{"name": "i", "vhost": "no"}]}) == "invalid"


def test_parameters_are_kept_and_limits_and_operator_policies_have_their_effect() -> None:
    broker = Changing()
    shovel = {"vhost": "/", "component": "shovel", "name": "s"}
    assert broker.change("put-parameter", **shovel, value={"src-uri": "amqp://"}) == {"new": True}
    assert broker.change("put-parameter", **shovel, value={}) == {"new": False}
    assert broker.broker.parameters == [{**shovel, "value": {}}]
    assert broker.change("delete-parameter", **shovel) == {"found": True}
    assert broker.change("delete-parameter", **shovel) == {"found": False}
    limits = {"vhost": "/", "component": "vhost-limits", "name": "limits"}
    assert broker.change("put-parameter", **limits, value={"max-queues": 3}) == {"new": True}
    assert broker.broker.vhosts["/"].limits == {"max-queues": 3}
    assert broker.change("delete-parameter", **limits) == {"found": True}
    assert (broker.broker.vhosts["/"].limits, broker.change("delete-parameter", **limits)) == ({}, {"found": False})
    policy = {"vhost": "/", "component": "operator_policy", "name": "p"}
    value = {"pattern": "^q", "definition": {"max-length": 3}, "priority": 1}
    assert broker.change("put-parameter", **policy, value=value) == {"new": True}
    assert broker.refusal("put-parameter", **policy, value={**value, "definition": {"no": 1}}) == "invalid"
    assert broker.change("delete-parameter", **policy) == {"found": True}
    assert broker.names("operator-policies") == []
    assert broker.refusal("put-parameter", **{**shovel, "vhost": "no"}, value={}) == "no-vhost"


def test_the_protection_of_a_virtual_host_is_in_its_metadata() -> None:
    broker = Changing()
    assert broker.change("put-vhost", name="v", is_protected=True) == {"new": True}
    assert broker.broker.vhosts["v"].metadata == {"protected_from_deletion": True}
    broker.change("put-vhost", name="v", is_protected=False)
    assert broker.broker.vhosts["v"].metadata == {"protected_from_deletion": False}


def test_each_change_has_a_name_of_its_own() -> None:
    names = [each.__struct_config__.tag for each in get_args(AnyChange)]
    assert len(set(names)) == len(names)
