"""Record of one message or one request with its outcome: the JSON contract of `--messages`."""

from __future__ import annotations

from binascii import a2b_base64
from typing import Any

import msgspec

from amqproxy.taps.record import encoded


class MessageRecord(msgspec.Struct, rename={"sender": "from"}, omit_defaults=True, kw_only=True):
    """A message, a request, or an event of a connection or a channel, with what became of it.

    `ts_ns` is when it began, in nanoseconds since 1970; `seconds` is how long it took until its `outcome`. `stream`
    numbers the connection within the file or the run; `connection` names both ends, the client's first; `sender` is
    "client" or "server", or "proxy" for a close of the proxy's own. `type` is one of:

    - "publish": `number` counts the channel's publishes from 1, `confirm_tag` is the tag of its confirm. The outcome is
      "confirmed", "nacked", "committed", "rolled back", or "sent" where nothing becomes of it; `code` and `reason` are
      of basic.return, when it was returned.
    - "deliver", "get": `delivery_tag`, `consumer_tag`, `queue` if it is known. The outcome is "acked", "nacked",
      "rejected", "recovered", "auto-acked" or "browsed"; `requeue` is whether the queue gets it back.
    - "return": a basic.return; `number` is the publish, if only one can be meant.
    - "request": `method`, `arguments`, and of the reply `reply` and `reply_arguments`. The outcome is "answered",
      "unanswered" when the channel ended first, or "sent" where it gets no reply. Of a request that was not seen, or is
      one of several that its reply may answer, the reply tells the `method`, and there are no `arguments`.
    - "connection", "channel": "opened", "joined", "closed", "blocked", "unblocked", "stopped", "resumed". With a close
      come `code`, `reason`, and in `method` and `arguments` what it was closed for, if that is certain.
    - "settle": a confirm or an acknowledgement of a tag that is not open: the outcome is "unknown tag".
    - "error": what could not be read; `reason` says why.

    Where channels have sessions, `channel` may be 0, and "channel" records are about the session; a publish is
    "confirmed" once the server has completed or accepted it, and one that it rejects "nacked", with the `code` and
    `reason` of the reject where no queue takes it. `confirm_tag` and `delivery_tag` are command ids; a delivery is
    "acked" by message.accept, "rejected", or "recovered" by message.release. Properties have their protocol's names.

    Of what was still open at the end of its channel the outcome is "open"; where that could not be observed, "unknown".
    `decoded` is what an addon reads in a complete body: its `form`, and the `value`.

    A message that is open for long is reported as "pending", and again when something becomes of it. What does not
    apply is absent from JSON.
    """

    ts_ns: int
    stream: int
    connection: str
    sender: str | None = None
    channel: int | None = None
    type: str
    outcome: str
    seconds: float | None = None
    number: int | None = None
    confirm_tag: int | None = None
    delivery_tag: int | None = None
    multiple: bool = False
    consumer_tag: str | None = None
    queue: Any = None
    exchange: Any = None
    routing_key: Any = None
    mandatory: bool = False
    redelivered: bool = False
    requeue: bool | None = None
    size: int | None = None
    properties: dict[str, Any] | None = None
    body: Any = None
    decoded: dict[str, Any] | None = None
    method: str | None = None
    arguments: dict[str, Any] | None = None
    reply: str | None = None
    reply_arguments: dict[str, Any] | None = None
    code: int | None = None
    reason: str | None = None
    rules: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    verdict: str | None = None

    def to_json(self) -> bytes:
        """Return one line of JSON, without a newline."""
        return encoded(self)


def whole_body(body: Any, size: int | None) -> bytes | None:
    """Return the bytes of a record's `body`; `None` if they are only the beginning of a body of `size` bytes."""
    if isinstance(body, dict):
        data = a2b_base64(body["base64"])
    else:
        data = b"" if body is None else str(body).encode()
    return data if len(data) == size else None
