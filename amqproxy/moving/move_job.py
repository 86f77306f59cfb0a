"""A job for a move program, and what the program reports: JSON lines between processes."""

from __future__ import annotations

from typing import Literal

import msgspec

from amqproxy.configuration.upstream_config import UpstreamConfig


class MovedQueue(msgspec.Struct, frozen=True):
    """A queue whose messages are moved to the queue of the same name; `type` is "" if it is unknown."""

    vhost: str
    name: str
    type: str = ""


class MoveEnd(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two brokers, and the login there; `timeout` is for connecting, in seconds."""

    upstream: UpstreamConfig
    user: str
    password: str
    timeout: float = 10.0


class MoveJob(msgspec.Struct, frozen=True, kw_only=True):
    """A move of all messages of some queues. `lock` is a file that only one process holds at a time, "" for none.

    With `strict`, a queue is moved only while it has no other consumer.
    """

    source: MoveEnd
    target: MoveEnd
    queues: tuple[MovedQueue, ...]
    strict: bool = False
    lock: str = ""


class QueueReport(msgspec.Struct, frozen=True, tag="queue"):
    """State of a queue, by its place in the job; counts are of the present process.

    It is "empty" if a look has found no message, "left" if its messages are not moved, for the reason in `text`, and
    "waits" if the move is tried again.
    """

    place: int
    state: Literal["moving", "empty", "left", "waits"]
    moved: int = 0
    left: int = 0
    text: str = ""


class JobReport(msgspec.Struct, frozen=True, tag="job"):
    """State of the whole job: it is done, or waits for the reason in `text`."""

    is_done: bool = False
    text: str = ""


Report = QueueReport | JobReport
