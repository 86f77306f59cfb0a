"""Members of quorum queues: the answers of RabbitMQ 4.3 with one node."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.management.local_api import LocalApi


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> LocalApi:
    made = LocalApi(monkeypatch)
    for kind in ("quorum", "classic", "stream"):
        body = {"durable": True, "arguments": {"x-queue-type": kind}}
        assert made.ask("PUT", f"queues/%2F/{kind}", body).status == 201
    return made


@pytest.mark.parametrize(
    ("queue", "added", "deleted"),
    [
        ("quorum", (204, None), (503, "last_node")),
        ("classic", (503, "classic_queue_not_supported"), (503, "classic_queue_not_supported")),
        ("stream", (503, "not_quorum_queue"), (503, "not_quorum_queue")),
        ("none", (503, "not_found"), (404, "Not Found")),
    ],
)
def test_the_only_node_is_added_and_not_deleted(
    api: LocalApi, queue: str, added: tuple[int, str | None], deleted: tuple[int, str | None]
) -> None:
    for method, what, expected in (("POST", "add", added), ("DELETE", "delete", deleted)):
        answer = api.ask(method, f"queues/quorum/%2F/{queue}/replicas/{what}", {"node": api.broker.node})
        reason = answer.json["reason"] if answer.body else None
        assert (answer.status, reason) == expected


@pytest.mark.parametrize(("strategy", "status"), [("all", 204), ("even", 204), ("odd", 400), (5, 400)])
def test_queues_grow_by_a_known_strategy(api: LocalApi, strategy: Any, status: int) -> None:
    node = quote(api.broker.node, safe="")
    body = {"strategy": strategy, "vhost_pattern": ".*", "queue_pattern": ".*"}
    assert api.ask("POST", f"queues/quorum/replicas/on/{node}/grow", body).status == status
    assert api.ask("POST", "queues/quorum/replicas/on/other/grow", body).status == (404 if status == 204 else 400)


def test_queues_do_not_shrink_to_nothing(api: LocalApi) -> None:
    node = quote(api.broker.node, safe="")
    assert api.ask("DELETE", f"queues/quorum/replicas/on/{node}/shrink").status == 202
    assert api.ask("DELETE", "queues/quorum/replicas/on/other/shrink").status == 404
    assert len(api.ask("GET", "queues/quorum/%2F/quorum/status").json) == 1
