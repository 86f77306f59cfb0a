"""Who may change what by the API."""

from __future__ import annotations

import pytest

from amqproxy.broker.access.permissions import Permission
from amqproxy.broker.access.users import User
from amqproxy.control import RequestError
from amqproxy.control.client_lines import request_line
from amqproxy.rabbitmq.profile import PROFILES
from tests.management.local_api import LocalApi


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> LocalApi:
    """The API with users of each tag, who have no permissions."""
    api = LocalApi(monkeypatch)
    for name, tag in (("ada", "administrator"), ("mona", "monitoring"), ("mary", "management")):
        api.broker.add_user(User.with_password(name, name, [tag]))
    return api


@pytest.mark.parametrize(
    ("user", "status", "closed"), [("mona", 401, []), ("mary", 204, [1]), ("ada", 204, [1]), ("guest", 204, [1])]
)
def test_only_its_user_and_administrators_close_a_connection(
    api: LocalApi, user: str, status: int, closed: list[int]
) -> None:
    api.source.connections = [{"connection": "c", "user": "mary", "session": 1}]
    for path in ("connections/c", "connections/username/mary"):
        assert api.ask("DELETE", path, user=user).status == status
        assert api.source.closed == closed
        api.source.closed.clear()


def test_administrators_see_and_manage_virtual_hosts_without_permissions(api: LocalApi) -> None:
    api.broker.add_vhost("v")
    for path in ("queues/v", "exchanges/v/amq.topic", "policies/v", "parameters/vhost-limits/v"):
        assert api.ask("GET", path, user="ada").status == 200, path
        assert api.ask("GET", path, user="mary").status in (401, 404), path
    assert {each["vhost"] for each in api.ask("GET", "exchanges", user="ada").json} == {"/", "v"}
    assert api.ask("GET", "exchanges", user="mary").json == []
    policy = {"pattern": "x", "definition": {"max-length": 1}}
    assert api.ask("PUT", "policies/v/p", policy, user="ada").status == 201
    assert api.ask("PUT", "queues/v/q", {}, user="ada").status == 401


def test_an_import_into_a_virtual_host_stays_in_it(api: LocalApi) -> None:
    for name in ("v", "other"):
        api.ask("PUT", f"vhosts/{name}", {})
    sections = {
        "users": [{"name": "intruder", "password_hash": "", "tags": ["administrator"]}],
        "vhosts": [{"name": "made"}],
        "permissions": [{"user": "mary", "vhost": "other", "configure": "", "write": "", "read": ""}],
        "topic_permissions": [{"user": "mary", "vhost": "v", "exchange": "amq.topic", "write": "", "read": ""}],
        "global_parameters": [{"name": "g", "value": 1}],
        "queues": [{"name": "q", "vhost": "other", "durable": True}, {"name": "own", "durable": True}],
        "policies": [{"name": "p", "vhost": "other", "pattern": "x", "definition": {"max-length": 1}}],
    }
    assert api.ask("POST", "definitions/v", sections).status == 204
    v, other = api.broker.vhosts["v"], api.broker.vhosts["other"]
    assert (list(v.queues), list(v.policies)) == (["q", "own"], ["p"])
    assert not other.queues
    assert not other.policies
    assert not {"intruder"} & set(api.broker.users)
    assert "made" not in api.broker.vhosts
    assert not api.broker.users["mary"].permissions
    assert not api.broker.users["mary"].topic_permissions
    assert not api.broker.global_parameters


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"sec-fetch-site": "none"}, 201),
        ({"sec-fetch-site": "same-origin", "origin": "http://localhost:15672"}, 201),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_pages_of_other_sites_change_nothing(api: LocalApi, headers: dict[str, str], status: int) -> None:
    sent = {"host": "localhost:15672", **headers}
    assert api.ask("PUT", "vhosts/v", {}, headers=sent).status == status
    assert ("v" in api.broker.vhosts) is (status == 201)
    assert api.ask("GET", "overview", headers=sent).status == 200


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:15672", "[::1]:15672", "evil.example:15672"])
def test_guest_logs_in_by_names_of_this_machine_only(api: LocalApi, host: str) -> None:
    """DNS rebinding lets a page of any name reach this machine."""
    assert api.ask("GET", "whoami", headers={"host": host}).status == (401 if "evil" in host else 200)
    assert api.ask("GET", "whoami", user="mary", headers={"host": host}).status == 200


@pytest.mark.parametrize("users", [5, "guest", [5], {"guest": 1}, None])
def test_bulk_deletion_takes_a_list_of_names_only(api: LocalApi, users: object) -> None:
    api.broker.add_user(User("g", ""))
    assert api.ask("POST", "users/bulk-delete", {"users": users}).status == 400
    assert {"g", "guest"} <= set(api.broker.users)


def test_a_protected_virtual_host_is_not_deleted(api: LocalApi) -> None:
    api.ask("POST", "definitions", {"vhosts": [{"name": "v", "metadata": {"protected_from_deletion": True}}]})
    refused = api.ask("DELETE", "vhosts/v")
    text = "Refusing to delete virtual host 'v' because it is protected from deletion"
    assert (refused.status, refused.json) == (412, {"error": "precondition_failed", "reason": text})
    assert "v" in api.broker.vhosts


def test_a_default_queue_type_is_a_change_to_record(api: LocalApi) -> None:
    api.ask("PUT", "vhosts/v", {"description": "d", "tags": "t"})
    events: list[str] = []
    api.broker.events.observers.append(lambda event: events.append(event.name))
    assert api.ask("PUT", "vhosts/v", {"default_queue_type": "quorum"}).status == 204
    assert events == ["vhost.metadata.set"]
    v = api.broker.vhosts["v"]
    assert (v.description, v.tags, v.metadata) == ("d", ["t"], {"default_queue_type": "quorum"})


@pytest.mark.parametrize("name", ["no-session", "not-open", "no-user", "no-vhost"])
def test_what_is_gone_meanwhile_is_not_found(api: LocalApi, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    api.source.connections = [{"connection": "c", "user": "mary", "session": each} for each in (1, 2)]
    asked: list[int] = []
    ask = api.source.ask

    async def gone(request: str, **keys: object) -> dict[str, object]:
        if request != "broker-close":
            return await ask(request, **keys)
        asked.append(int(str(keys["session"])))
        raise RequestError(name, "gone")

    monkeypatch.setattr(api.source, "ask", gone)
    assert api.ask("DELETE", "connections/c").status == 404
    asked.clear()
    if name.endswith(("session", "open")):
        assert api.ask("DELETE", "connections/username/mary").status == 204
        assert asked == [1, 2]


def test_a_long_reason_is_cut(api: LocalApi) -> None:
    api.source.connections = [{"connection": "c", "user": "mary", "session": 1}]
    assert api.ask("DELETE", "connections/c", headers={"x-reason": "x" * 300}).status == 204
    assert api.source.texts == ["x" * 200]


def test_a_request_too_long_for_the_broker_is_answered_413(api: LocalApi, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = api.source.ask

    async def encoded(request: str, **keys: object) -> dict[str, object]:
        request_line(request, keys)
        return await ask(request, **keys)

    monkeypatch.setattr(api.source, "ask", encoded)
    payload = {"payload_encoding": "string", "routing_key": "q", "properties": {}}
    for size, status in ((6_200_000, 200), (6_400_000, 413)):
        body = {"payload": "x" * size, **payload}
        assert api.ask("POST", "exchanges/%2F/amq.default/publish", body).status == status


def test_faults_of_an_import_are_numbered_within_their_section(api: LocalApi) -> None:
    queues = [{"name": f"q{number}", "vhost": "/", "durable": True} for number in range(60)]
    refused = api.ask("POST", "definitions", {"queues": [*queues, {"name": 5, "vhost": "/"}]})
    assert (refused.status, refused.json["reason"]) == (400, "queues[60]: 'name' is not a string")


def test_an_import_leaves_nothing_out_silently(api: LocalApi) -> None:
    exchange = {"name": "x", "vhost": "/", "type": "nope", "durable": True}
    refused = api.ask("POST", "definitions", {"exchanges": [exchange]})
    assert (refused.status, refused.json["reason"]) == (400, "exchanges[0]: unknown exchange type 'nope'")
    binding = {"source": "none", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": "k"}
    assert api.ask("POST", "definitions", {"bindings": [binding], "unknown": [1]}).status == 204


SHOVEL = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}


def test_monitoring_users_see_and_delete_shovels_only_where_they_have_permissions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RabbitMQ 3.10 was asked: it lets monitoring users delete shovels, and 4.3 policymakers only."""
    api = LocalApi(monkeypatch, profile=PROFILES["3.10"])
    api.broker.add_user(User.with_password("mona", "mona", ["monitoring"]))
    assert api.ask("PUT", "parameters/shovel/%2F/s", {"value": SHOVEL}).status == 201
    assert api.ask("GET", "shovels", user="mona").json == []
    assert api.ask("DELETE", "shovels/vhost/%2F/s", user="mona").status == 404
    assert [each["name"] for each in api.ask("GET", "shovels").json] == ["s"]
    api.broker.users["mona"].permit("/", Permission("^$", "^$", "^$"))
    assert [each["name"] for each in api.ask("GET", "shovels", user="mona").json] == ["s"]
    assert api.ask("DELETE", "shovels/vhost/%2F/s", user="mona").status == 204


def test_the_overview_counts_what_was_published_in_deleted_virtual_hosts(api: LocalApi) -> None:
    message = {"routing_key": "none", "payload": "x", "payload_encoding": "string", "properties": {}}
    api.ask("POST", "exchanges/%2F/amq.default/publish", message)
    assert api.ask("GET", "overview").json["message_stats"]["publish"] == 1
    api.broker.work.quantum.left = 0
    api.broker.delete_vhost("/", 0.0)
    assert api.broker.work, "the deletion is not over"
    assert api.ask("GET", "overview").json["message_stats"]["publish"] == 1
    while api.broker.work:
        api.broker.work.quantum.begin()
        api.broker.work.go_on(0.0)
    assert api.ask("GET", "overview").json["message_stats"]["publish"] == 1
