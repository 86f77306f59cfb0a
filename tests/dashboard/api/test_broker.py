"""The integrated broker as the API shows it, of a proxy that has one and of one that has none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.dashboard.browser.broker_stage import MARKUP, furnish
from tests.dashboard.browser.stage import Stage
from tests.dashboard.conftest import Dashboard

pytestmark = [pytest.mark.real, pytest.mark.once]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    running = Stage(tmp_path_factory.mktemp("broker"))
    try:
        furnish(running)
        yield running
    finally:
        running.kill()


def ask(stage: Stage, path: str, **parameters: Any) -> Any:
    query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in parameters.items())
    return stage.get(f"sources/0/broker/{path}?{query}")


def names(page: dict[str, Any]) -> list[str]:
    return [each["name"] for each in page["objects"]]


def test_queues_come_in_pages_that_the_broker_sorts(stage: Stage) -> None:
    first = ask(stage, "queues/page", sort="messages", reverse="true", count=2)
    assert (first["total"], first["filtered"], names(first)[0], len(first["objects"])) == (6, 6, "dead", 2)
    assert names(ask(stage, "queues/page", count=2, offset=1)) == ["dead", "log"]
    assert names(ask(stage, "queues/page", name="ORD")) == ["orders"]


def test_a_queue_comes_with_its_bindings_and_policies(stage: Stage) -> None:
    found = ask(stage, "queue", name="orders")
    assert [each["source"] for each in found["bindings"]["objects"]] == ["", "orders"]
    assert found["policies"] == {"policy": None, "operator_policy": None}
    assert found["queue"]["arguments"]["x-max-length"] == 1000
    assert ask(stage, "queue", name=MARKUP)["bindings"]["filtered"] == 2


def test_users_come_without_their_passwords(stage: Stage) -> None:
    [guest] = ask(stage, "objects", kind="users")["objects"]
    assert guest == {"name": "guest", "tags": ["administrator"], "limits": {}}


def test_objects_are_searched_by_words(stage: Stage) -> None:
    page = ask(stage, "objects", kind="exchanges", words="amq headers")
    assert (names(page), page["filtered"]) == (["amq.headers", "amq.match"], 2)
    assert names(ask(stage, "objects", kind="exchanges", words="amq", offset=1, count=1)) == ["amq.fanout"]


def test_the_reach_of_a_policy_is_told(stage: Stage) -> None:
    reach = ask(stage, "policies/reach", name="new", pattern="^(dead|orders)$", apply_to="queues")
    assert sorted(each["name"] for each in reach["gained"]["objects"]) == ["dead", "orders"]
    with pytest.raises(OSError, match="400"):
        ask(stage, "policies/reach", name="new", pattern="(")


def test_a_missing_queue_is_not_found(stage: Stage) -> None:
    with pytest.raises(OSError, match="404"):
        ask(stage, "queue", name="none")


def test_a_capture_has_no_broker(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    for path in ("facts", "queues/page", "queue?name=a", "objects?kind=users", "policies/reach?name=a&pattern=b"):
        assert client.get(f"/api/v1/sources/0/broker/{path}").status_code == 404
