"""Members of quorum queues, which have one each: the only node of this broker."""

from __future__ import annotations

from amqproxy.management.call import Call, Done, Entry
from amqproxy.management.failure import Failure, bad_request, not_found

STRATEGIES = ("all", "even")
"""Choices of the queues that grow: all of them, or those with an even number of members."""

INDEXES = ("Last Log Index", "Last Written", "Last Applied", "Commit Index", "Snapshot Index", "Term")


async def quorum_status(call: Call) -> list[Entry]:
    """Return the only member of a quorum queue; there is no Raft, so that all indexes are 0."""
    queue = await call.one("queues", call.values["name"], call.values["vhost"])
    fault = _fault(queue)
    if fault is not None:
        failure = Failure(503, "failed", "")
        failure.body = {"status": "failed", "reason": fault}
        raise failure
    return [
        {
            "Node Name": call.facts.node,
            "Raft State": "leader",
            "Membership": "voter",
            **dict.fromkeys(INDEXES, 0),
            "Machine Version": 0,
        }
    ]


async def add_member(call: Call) -> Done:
    """Accept the only node, which is a member already."""
    _check_node_of_body(call)
    _check_quorum(await call.broker.object("queues", call.values["vhost"], call.values["name"]))
    return Done()


async def delete_member(call: Call) -> Done:
    """Refuse to delete the only member."""
    _check_node_of_body(call)
    queue = await call.one("queues", call.values["name"], call.values["vhost"])
    _check_quorum(queue)
    raise Failure(503, "service_unavailable", "last_node")


async def grow(call: Call) -> Done:
    """Accept the only node as a member of queues, all of which have it."""
    strategy = call.required("vhost_pattern", "queue_pattern", "strategy")["strategy"]
    if strategy not in STRATEGIES:
        raise bad_request("Invalid strategy value")
    _check_is_node(call)
    return Done()


async def shrink(call: Call) -> Done:
    """Accept the request; as in RabbitMQ, the last member of a queue stays."""
    _check_is_node(call)
    return Done(202)


def _check_node_of_body(call: Call) -> None:
    if call.required("node")["node"] != call.facts.node:
        raise bad_request("Node is not a cluster member")


def _check_is_node(call: Call) -> None:
    if call.values["node"] != call.facts.node:
        raise not_found()


def _check_quorum(queue: Entry | None) -> None:
    fault = "not_found" if queue is None else _fault(queue)
    if fault is not None:
        raise Failure(503, "service_unavailable", fault)


def _fault(queue: Entry) -> str | None:
    """Return RabbitMQ's name for why a queue has no members; None for a quorum queue."""
    if queue["type"] == "quorum":
        return None
    return "classic_queue_not_supported" if queue["type"] == "classic" else "not_quorum_queue"
