"""The last errors of a source: closed channels and connections, and messages returned, refused or rejected."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import msgspec

from amqproxy.dashboard.flows import shown
from amqproxy.dashboard.party import Party
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.message_recorder import NORMAL_CODES
from amqproxy.taps.trace.equivalents import equivalent
from amqproxy.taps.trace.events import ChannelClosed, ConnectionClosed, TraceEvent, closer

MAX_ERRORS = 1_000
"""Maximum number of errors; of more, the newest are kept."""

MAX_TEXT = 500

_CLOSES = frozenset((ChannelClosed, ConnectionClosed))

REFUSALS = frozenset({"nacked", "rejected"})


class SeenError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error, and how often it occurred on its connection; `by` is who closed. `frame` is the row of the newest."""

    ts_ns: int
    stream: int
    channel: int | None
    client: str
    user: str
    vhost: str
    what: str
    by: str | None = None
    code: int = 0
    text: str = ""
    method: str | None = None
    exchange: str | None = None
    queue: str | None = None
    routing_key: str | None = None
    count: int = 1
    frame: int = 0


class ErrorLog:
    """Errors of all connections; those that are alike are counted as one."""

    def __init__(self) -> None:
        self._errors: OrderedDict[tuple[object, ...], SeenError] = OrderedDict()

    def newest_first(self) -> Iterator[SeenError]:
        """Return all errors that are kept."""
        return iter(list(reversed(self._errors.values())))

    def take(self, stream: int, party: Party, events: Iterable[TraceEvent], frame: int) -> None:
        """Keep the closes among the events of one connection."""
        for event in events:
            if type(event) not in _CLOSES:
                continue
            assert isinstance(event, ChannelClosed | ConnectionClosed)
            if event.code in NORMAL_CODES or not event.code:
                continue
            cause = event.cause
            plain = equivalent(cause) or cause
            self._add(
                SeenError(
                    ts_ns=event.ts_ns,
                    stream=stream,
                    channel=event.on_channel,
                    client=party.name,
                    user=party.user,
                    vhost=party.vhost,
                    what="channel closed" if isinstance(event, ChannelClosed) else "connection closed",
                    by=closer(event),
                    code=event.code,
                    text=event.text[:MAX_TEXT],
                    method=event.method,
                    exchange=_name(plain, "exchange") or _name(cause, "destination"),
                    queue=_name(plain, "queue"),
                    routing_key=_name(plain, "routing_key"),
                    frame=frame,
                )
            )

    def take_record(self, party: Party, record: MessageRecord, frame: int) -> None:
        """Keep a message that was returned, refused or rejected."""
        is_returned = record.type == "publish" and record.code is not None and record.outcome != "nacked"
        if not is_returned and record.outcome not in REFUSALS:
            return
        self._add(
            SeenError(
                ts_ns=record.ts_ns,
                stream=record.stream,
                channel=record.channel,
                client=party.name,
                user=party.user,
                vhost=party.vhost,
                what="returned" if is_returned else str(record.outcome),
                code=record.code or 0,
                text=(record.reason or "")[:MAX_TEXT],
                exchange=None if record.exchange is None else shown(record.exchange),
                queue=None if record.queue is None else shown(record.queue),
                routing_key=None if record.routing_key is None else shown(record.routing_key),
                frame=frame,
            )
        )

    def _add(self, error: SeenError) -> None:
        key = (error.stream, error.what, error.code, error.method, error.exchange, error.queue)
        before = self._errors.pop(key, None)
        if before is not None:
            error = msgspec.structs.replace(error, count=before.count + 1)
        self._errors[key] = error
        if len(self._errors) > MAX_ERRORS:
            self._errors.popitem(last=False)


def _name(method: object, field: str) -> str | None:
    name = getattr(method, field, None)
    return None if name is None else shown(name)
