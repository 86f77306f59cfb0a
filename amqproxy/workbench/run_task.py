"""A run as a task for `run_program`, and what the program reports: JSON lines between processes."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from amqproxy.moving.move_job import MoveEnd

Command = Literal["facts", "peek", "move", "requeue", "edit", "drain"]


class OneMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is edited by itself: by its digest, so that no other one in its place is changed.

    `properties` are all that it has afterwards; without a `body` it keeps its own.
    """

    position: int
    digest: str
    properties: dict[str, Any]
    body: str | None = None


class EveryMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of all chosen messages, as `amqproxy.workbench.edit.Edit` has them."""

    properties: dict[str, Any] = {}
    headers: dict[str, Any] = {}
    without: tuple[str, ...] = ()
    body: str | None = None


class RunTask(msgspec.Struct, frozen=True, kw_only=True):
    """A run over a queue; `facts` only finds out what a run would do to the queue.

    `type`, `delivery_limit` and `api` are what is known about the queue, and the URL of a RabbitMQ's management API.
    Messages go `to` a queue, or to an `exchange`, perhaps with another `routing_key`, or back to their origin; `file`
    is that of a drain. `audit` is the file of the audit, `facts` are noted there, and `body` is the number of
    characters of a body that are reported.
    """

    command: Command
    end: MoveEnd
    vhost: str
    queue: str
    type: Literal["", "classic", "quorum", "stream"] = ""
    delivery_limit: int | None = None
    api: str = ""
    where: str | None = None
    limit: int | None = None
    window: int = 10_000
    is_dry_run: bool = False
    to: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    by: Literal["exchange", "queue"] = "exchange"
    goes_back: bool = False
    """Whether edited messages go back to their origin, and not to the end of the queue."""
    one: OneMessage | None = None
    every: EveryMessage | None = None
    file: str = ""
    audit: str = ""
    facts: dict[str, Any] = {}
    body: int = 64 * 1024
