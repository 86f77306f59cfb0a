"""Changes of the integrated broker by the API: who may make them, and what each does."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from amqproxy.dashboard.source import ACTING
from tests.dashboard.api.api_browser import ApiBrowser
from tests.dashboard.browser.stage import Stage
from tests.dashboard.conftest import Dashboard

pytestmark = [pytest.mark.real, pytest.mark.once]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    running = Stage(tmp_path_factory.mktemp("broker"))
    try:
        yield running
    finally:
        running.kill()


@pytest.fixture
def guest(stage: Stage) -> ApiBrowser:
    browser = ApiBrowser(stage)
    assert browser.log_in()[0] == 200
    return browser


def queues(browser: ApiBrowser) -> list[str]:
    return [each["name"] for each in browser.ask("GET", "sources/0/broker/queues/page")[1]["objects"]]


def test_a_login_is_of_one_browser_and_ends(stage: Stage, guest: ApiBrowser) -> None:
    status, user = guest.ask("GET", "sources/0/broker/login")
    assert (status, user["user"], user["tags"]) == (200, "guest", ["administrator"])
    assert user["address"] == f"127.0.0.1:{stage.port}"
    other = ApiBrowser(stage)
    assert other.ask("GET", "sources/0/broker/login")[1]["user"] is None
    assert other.change("declare-queue", name="no")[0] == 403
    assert guest.ask("DELETE", "sources/0/broker/login")[1]["user"] is None
    assert guest.change("declare-queue", name="no")[0] == 403
    assert "no" not in queues(guest)


def test_a_wrong_password_is_refused(stage: Stage) -> None:
    browser = ApiBrowser(stage)
    status, problem = browser.log_in(password="wrong")
    assert (status, problem["error"]) == (403, "refused")
    assert browser.change("declare-queue", name="no")[0] == 403


def test_a_page_of_another_site_changes_nothing(guest: ApiBrowser) -> None:
    body = {"change": "declare-queue", "name": "no"}
    assert guest.ask("POST", "sources/0/broker/changes", body, origin="http://evil.example")[0] == 403
    assert "no" not in queues(guest)


def test_queues_are_declared_bound_filled_purged_and_deleted(guest: ApiBrowser) -> None:
    assert guest.change("declare-queue", name="new", arguments={"x-max-length": 5}) == (200, {"new": True})
    assert guest.change("declare-exchange", name="news", type="topic") == (200, {"new": True})
    status, bound = guest.change("bind", source="news", destination="new", routing_key="a.#")
    assert status == 200
    message = {"routing_key": "a.b", "body": b64encode(b"text").decode(), "properties": {"type": "t"}}
    assert guest.change("publish", exchange="news", **message) == (200, {"routed": True})
    found = guest.ask("GET", "sources/0/broker/queue?name=new")[1]
    assert (found["queue"]["ready"], found["bindings"]["filtered"]) == (1, 2)
    ends = {"source": "news", "destination": "new", "properties_key": bound["properties_key"]}
    assert guest.change("unbind", **ends)[0] == 200
    assert guest.change("publish", exchange="news", **message) == (200, {"routed": False})
    assert guest.change("purge-queue", name="new")[0] == 200
    assert guest.ask("GET", "sources/0/broker/queue?name=new")[1]["queue"]["ready"] == 0
    assert guest.change("delete-queue", name="new")[0] == 200
    assert guest.change("delete-queue", name="new")[0] == 404
    assert guest.change("delete-exchange", name="news")[0] == 200


def test_refusals_of_the_broker_are_told(guest: ApiBrowser) -> None:
    assert guest.change("declare-queue", name="twice")[0] == 200
    status, problem = guest.change("declare-queue", name="twice", auto_delete=True)
    assert (status, problem["error"]) == (400, "invalid")
    assert "inequivalent arg" in problem["detail"]
    assert guest.change("declare-queue", name="a", vhost="none")[0] == 404
    assert guest.change("put-policy", name="p", pattern="(", definition={"max-length": 1})[0] == 400
    assert guest.change("nothing")[0] == 422
    assert guest.change("delete-queue", name="twice")[0] == 200


def test_users_and_their_permissions_and_tags_decide(stage: Stage, guest: ApiBrowser) -> None:
    assert guest.change("put-user", name="clerk", password="one", tags=["management"])[0] == 200
    pattern = {"configure": "^mine", "write": "^mine", "read": "^mine"}
    assert guest.change("put-permission", user="clerk", **pattern)[0] == 200
    clerk = ApiBrowser(stage)
    assert clerk.log_in(user="clerk", password="one")[1]["tags"] == ["management"]
    assert clerk.change("declare-queue", name="mine")[0] == 200
    assert clerk.change("declare-queue", name="yours")[0] == 403
    policy: dict[str, Any] = {"name": "p", "pattern": "^mine", "definition": {"max-length": 3}}
    assert clerk.change("put-policy", **policy)[0] == 403
    assert clerk.change("put-user", name="clerk", tags=["administrator"])[0] == 403
    assert guest.change("put-user", name="clerk", tags=["policymaker"])[0] == 200  # the password stays
    assert clerk.change("put-policy", **policy)[0] == 200
    assert clerk.change("put-policy", is_operator=True, **policy)[0] == 403
    found = clerk.ask("GET", "sources/0/broker/queue?name=mine")[1]
    assert found["policies"]["policy"]["definition"] == {"max-length": 3}
    assert guest.change("delete-policy", name="p")[0] == 200
    assert guest.change("delete-permission", user="clerk")[0] == 200
    assert clerk.change("delete-queue", name="mine")[0] == 403
    assert guest.change("delete-user", name="clerk")[0] == 200
    assert clerk.change("declare-queue", name="mine")[0] == 403  # the login is checked at each change
    assert guest.change("delete-queue", name="mine")[0] == 200


def test_passwords_are_not_logged(stage: Stage, guest: ApiBrowser) -> None:
    assert guest.change("put-user", name="secretive", password="hush-hush")[0] == 200
    assert guest.change("delete-user", name="secretive")[0] == 200
    assert "broker-put-user" in stage.log
    assert "hush-hush" not in stage.log


def test_refused_changes_are_logged(stage: Stage, guest: ApiBrowser) -> None:
    assert guest.change("put-user", name="trier", password="one", tags=["management"])[0] == 200
    trier = ApiBrowser(stage)
    assert trier.log_in(user="trier", password="one")[0] == 200
    assert trier.change("put-policy", name="mine", pattern=".*", definition={"max-length": 1})[0] == 403
    assert guest.change("delete-user", name="trier")[0] == 200
    assert trier.change("purge-queue", name="gone")[0] == 403
    lines = [line for line in stage.log.splitlines() if "trier" in line and "refused" in line]
    assert [name for line in lines for name in ("broker-put-policy", "broker-purge-queue") if name in line] == [
        "broker-put-policy",
        "broker-purge-queue",
    ]


def test_changes_are_those_of_an_operator(dashboard: Dashboard) -> None:
    assert "broker-change" in ACTING
    client = dashboard("confirms", read_only=True)
    login = {"user": "guest", "password": "guest"}
    assert client.post("/api/v1/sources/0/broker/login", json=login).status_code == 403
    change = {"change": "purge-queue", "name": "a"}
    assert client.post("/api/v1/sources/0/broker/changes", json=change).status_code == 403


def test_a_dashboard_with_a_token_wants_it_first(dashboard: Dashboard) -> None:
    client = dashboard("confirms", token="secret")
    change = {"change": "purge-queue", "name": "a"}
    assert client.post("/api/v1/sources/0/broker/changes", json=change).status_code == 401
    assert client.get("/api/v1/sources/0/broker/login").status_code == 401
