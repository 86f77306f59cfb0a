"""`amqproxy queue`: looks into the queues of any broker, and moves, edits, brings back and keeps their messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import cyclopts
from cyclopts import Parameter

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Flag
from amqproxy.cli.queue_options import USUAL_WINDOW, Broker, Chosen, Noted, Queue, Reached

app = cyclopts.App(
    name="queue",
    help="Look into the queues of any broker, and move, edit, bring back or keep their messages. "
    "BROKER is amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…; the PASSWORD may be in the variable "
    "AMQPROXY_PASSWORD, which no list of processes shows.",
)


@app.command
def peek(
    broker: Broker,
    queue: Queue,
    /,
    *,
    where: Annotated[str | None, Parameter(help="Show only messages for which this CEL expression holds.")] = None,
    limit: int = 10,
    position: int = 0,
    window: int = USUAL_WINDOW,
    offset: str = "first",
    form: Literal["auto", "text", "json", "msgpack", "gzip", "protobuf", "avro", "hex"] = "auto",
    json: Flag = False,
    reached: Reached = Reached(),  # noqa: B008 - frozen
) -> None:
    """Show messages, which stay in the queue.

    What that does to their order, to `redelivered` and to delivery limits is said before a message is touched. Streams
    are read from an offset, and nothing in them changes.

    Parameters
    ----------
    limit
        Maximum number of messages to show.
    position
        Number of messages at the head of the queue to skip.
    window
        Maximum number of messages that are held, which bounds how deep into the queue it looks.
    offset
        Of a stream, where to begin: first, last, next, a number, or an interval such as 1h.
    form
        The form in which bodies are shown; auto chooses a fitting one.
    json
        Print one JSON object per line for each message, which `queue fill` reads.
    """
    from amqproxy.cli.queue_peek import show_messages

    chosen = Chosen(where=where, limit=limit, window=window)
    show_messages(broker, queue, reached, chosen, position, offset, form, is_json=json)


@app.command
def move(
    broker: Broker,
    queue: Queue,
    destination: Annotated[
        str | None, Parameter(help="The queue to which they go; they keep their routing keys.")
    ] = None,
    /,
    *,
    to: str | None = None,
    exchange: str | None = None,
    routing_key: str | None = None,
    chosen: Chosen = Chosen(),  # noqa: B008 - frozen
    noted: Noted = Noted(),  # noqa: B008 - frozen
    reached: Reached = Reached(),  # noqa: B008 - frozen
) -> None:
    """Move messages to another queue, an exchange, or another broker.

    Each is published with `mandatory`, and acknowledged once its publish is confirmed: whatever fails, none is lost,
    except messages at the delivery limit of a quorum queue after a kill -9 or a lost connection. A message that is
    returned or refused stays.

    Parameters
    ----------
    to
        The broker to which they go, if it is another one: a URL like BROKER.
    exchange
        Instead of a queue: the exchange to which they go; '' is the default exchange.
    routing_key
        With --exchange: the routing key, instead of the one that each message has.
    """
    from amqproxy.cli.queue_runs import move_messages
    from amqproxy.workbench.destination import ToExchange, ToQueue

    if (destination is None) == (exchange is None):
        raise Failure("queue move: name the queue to which they go, or --exchange", MISUSED)
    if routing_key is not None and exchange is None:
        raise Failure("queue move: --routing-key needs --exchange", MISUSED)
    if destination == queue and to is None:
        raise Failure("queue move: the messages are in that queue already", MISUSED)
    place = ToQueue(destination) if destination is not None else ToExchange(exchange or "", routing_key)
    move_messages("move", broker, queue, place, reached, chosen, noted, to=to)


@app.command
def requeue(
    broker: Broker,
    queue: Queue,
    /,
    *,
    by: Literal["exchange", "queue"] = "exchange",
    chosen: Chosen = Chosen(),  # noqa: B008 - frozen
    noted: Noted = Noted(),  # noqa: B008 - frozen
    reached: Reached = Reached(),  # noqa: B008 - frozen
) -> None:
    """Bring dead letters back to where x-death says that they came from.

    Those whose origin no longer exists, and messages that are not dead letters, stay and are listed.

    Parameters
    ----------
    by
        exchange: to the exchange of the first death with its routing keys, so that each queue that is bound there gets
        the message. queue: only to the queue in which it died first, with that queue's name as routing key.
    """
    from amqproxy.cli.queue_runs import move_messages
    from amqproxy.workbench.destination import ToOrigin

    move_messages("requeue", broker, queue, ToOrigin(by), reached, chosen, noted)


@app.command
def edit(
    broker: Broker,
    queue: Queue,
    /,
    *,
    set: Annotated[list[str], Parameter(negative="")] = [],  # noqa: B006 - cyclopts reads it, never changed
    header: Annotated[list[str], Parameter(negative="")] = [],  # noqa: B006 - as above
    remove: Annotated[list[str], Parameter(negative="")] = [],  # noqa: B006 - as above
    body: str | None = None,
    body_file: Path | None = None,
    editor: Flag = False,
    requeue: Flag = False,
    chosen: Chosen = Chosen(),  # noqa: B008 - frozen
    noted: Noted = Noted(),  # noqa: B008 - frozen
    reached: Reached = Reached(),  # noqa: B008 - frozen
) -> None:
    """Change messages, which go to the end of the queue, or back to where they died.

    What each change is stands in the audit.

    Parameters
    ----------
    set
        A property as NAME=VALUE, such as content_type=application/json; NAME= removes it. Repeatable.
    header
        A header as NAME=VALUE; VALUE is JSON, or else a text. Repeatable.
    remove
        The name of a header to remove. Repeatable.
    body
        The new body, as text.
    body_file
        A file with the new body.
    editor
        Open each message as JSON in $VISUAL or $EDITOR; one that is not changed there stays.
    requeue
        Bring the edited messages back to their origin, as `queue requeue` does.
    """
    from amqproxy.cli.queue_edit import edit_messages

    edit_messages(
        broker,
        queue,
        reached,
        chosen,
        noted,
        assignments=set,
        headers=header,
        removed=remove,
        body=body,
        body_file=body_file,
        has_editor=editor,
        is_requeued=requeue,
    )


@app.command
def drain(
    broker: Broker,
    queue: Queue,
    file: Path,
    /,
    *,
    chosen: Chosen = Chosen(),  # noqa: B008 - frozen
    noted: Noted = Noted(),  # noqa: B008 - frozen
    reached: Reached = Reached(),  # noqa: B008 - frozen
) -> None:
    """Take messages out of a queue into a new file, from which `queue fill` publishes them again.

    They are acknowledged once they are on the disk.

    Parameters
    ----------
    file
        A name that ends with .pcapng for a capture, which Wireshark and `amqproxy decode` read; otherwise JSON lines.
    """
    from amqproxy.cli.queue_files import drain_messages

    drain_messages(broker, queue, file, reached, chosen, noted)


@app.command
def fill(
    broker: Broker,
    queue: Queue,
    file: Path,
    /,
    *,
    exchange: str | None = None,
    routing_key: str | None = None,
    position: int = 0,
    chosen: Chosen = Chosen(),  # noqa: B008 - frozen
    noted: Noted = Noted(),  # noqa: B008 - frozen
    reached: Reached = Reached(),  # noqa: B008 - frozen
) -> None:
    """Publish the messages of a file to a queue, with confirms.

    Parameters
    ----------
    file
        What `queue drain` or `queue peek --json` wrote; of any capture, its publishes and deliveries are read.
    exchange
        The exchange to which they go instead; QUEUE is then only named in the audit.
    routing_key
        With --exchange: the routing key, instead of the one that each message has.
    position
        Number of messages at the beginning of the file to skip, to go on after a failure.
    """
    from amqproxy.cli.queue_files import fill_queue
    from amqproxy.workbench.destination import ToExchange, ToQueue

    if routing_key is not None and exchange is None:
        raise Failure("queue fill: --routing-key needs --exchange", MISUSED)
    place = ToQueue(queue) if exchange is None else ToExchange(exchange, routing_key)
    fill_queue(broker, queue, file, place, reached, chosen, noted, position)
