"""Rebalancing, synchronising and resetting, where a broker of one node has little to do."""

from __future__ import annotations

from amqproxy.management.call import Call, Done
from amqproxy.management.failure import Failure, bad_request, not_found

SYNCHRONISING = ("sync", "cancel_sync")
"""Actions on the mirrors of a queue, which RabbitMQ 4 does not know."""


async def done(call: Call) -> Done:
    """Accept a request that changes nothing on a broker of one node."""
    return Done()


async def reset(call: Call) -> Done:
    """Accept to forget statistics: only those of logins are kept here."""
    if call.values.get("node", call.facts.node) != call.facts.node:
        raise not_found()
    return Done()


async def queue_action(call: Call) -> Done:
    """Refuse an unknown action on a queue; that of mirrors is accepted as RabbitMQ 3.10 does without mirrors."""
    if await call.broker.object("queues", call.values["vhost"], call.values["name"]) is None:
        raise Failure(404, "not_found", "queue_not_found")
    action = call.required("action")["action"]
    if call.facts.is_4 or action not in SYNCHRONISING:
        raise bad_request(["unknown", action])
    return Done()


async def start_vhost(call: Call) -> Done:
    """Accept the start of a virtual host, which always runs."""
    node, vhost = call.values["node"], call.values["vhost"]
    if node != call.facts.node:
        raise bad_request(
            f"Unknown node: {node}" if call.facts.is_4 else f"Request to node {node} failed with nodedown"
        )
    if not [each async for each in call.broker.objects("vhosts", vhost)]:
        text = f"Request to node {node} failed with {{no_such_vhost,"
        raise bad_request(f'{text}\n{" " * (len(text))}<<"{vhost}">>}}')
    return Done()
