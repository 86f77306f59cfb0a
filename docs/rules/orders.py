"""An example of a script for rules: see script.md."""

from amqproxy.rules.scripting import Command, Context, Verdict, change, drop, refuse

LARGEST_ORDER = 10_000


def load(context: Context) -> None:
    """Called once, when the config is loaded."""
    context.shared["published"] = 0


def publish(command: Command, context: Context) -> Verdict | None:
    """Number what is published, drop what is empty, and refuse what is too large."""
    if command.body_size == 0:
        return drop(command)
    if command.body_size > LARGEST_ORDER:
        return refuse(f"an order has at most {LARGEST_ORDER} bytes, and this one {command.body_size}", code=406)
    context.shared["published"] += 1
    headers = dict(command.properties.headers or {})
    return change(command, headers=headers | {"number": context.shared["published"], "from": context.client.address})


def queue_declare(command: Command, context: Context) -> Verdict | None:
    """Let every session declare no more than ten queues."""
    declared = context.store.setdefault("queues", set())
    declared.add(command.method.queue)
    return refuse("no more than ten queues") if len(declared) > 10 else None


def shout(body: bytes, context: Context) -> bytes:
    """For a rewrite's `body.call`."""
    return body.upper()
