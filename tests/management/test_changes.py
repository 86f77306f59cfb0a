"""Who may change what by the API."""

from __future__ import annotations

import pytest

from amqproxy.broker.access.users import User
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
