"""The session as the command handlers see it; `session` documents its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.structs import Struct
from amqproxy.broker.amqp010.owners import OwningSession
from amqproxy.broker.amqp010.session_deliveries import SessionDeliveries
from amqproxy.broker.amqp010.session_publisher import SessionPublisher
from amqproxy.broker.amqp010.transaction_branch import TransactionBranch
from amqproxy.broker.amqp010.work_unit import WorkUnit
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.work import Job


class CommandSession(OwningSession, Protocol):
    """A session that executes its client's commands. It owns its exclusive queues."""

    transaction: WorkUnit | None
    branch: TransactionBranch | None
    is_distributed: bool

    @property
    def branches(self) -> dict[TransactionBranch, None]: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def deliveries(self) -> SessionDeliveries: ...

    @property
    def publisher(self) -> SessionPublisher: ...

    def sync(self, position: int, /) -> bool: ...

    def finish(self, job: Job, position: int, now: float, /) -> bool: ...

    def finish_kept(self, job: Job, position: int, now: float, /, *durables: bool) -> bool: ...

    def kept(self, position: int, /, *durables: bool) -> bool: ...

    def when_kept(self, ticket: DurabilityTicket, answer: Callable[[], None], /) -> None: ...

    def result(self, position: int, value: Struct, /) -> None: ...

    def ranges(self, commands: SequenceSet, /) -> list[range]: ...


Handler = Callable[[CommandSession, Any, int, float], bool]
"""Handler of the command at a position; returns whether the command is complete later."""
