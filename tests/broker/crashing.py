"""A process for `test_crash` to kill: it writes numbered messages to two queues, and prints what the disk has.

`python -m tests.broker.crashing DIRECTORY`. A line on standard output is `enqueued settled`: all up to these numbers
was committed.
"""

import os
import queue
import random
import sys
from pathlib import Path
from zlib import crc32

from amqproxy.broker.message import Message
from amqproxy.broker.storage.batch import JournalBatch, LogOwner
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.message_log import EMBEDDED
from amqproxy.broker.storage.store import Store

OWNERS = (LogOwner("queue", "/", "a"), LogOwner("queue", "/", "b"))
UNIT = 10
"""Messages that are always in one batch."""


def body(number: int) -> bytes:
    """What message `number` holds; each 50th is long, and so shared by both queues."""
    data = b"%d:" % number + bytes(EMBEDDED + number % 5000 if number % 50 == 0 else number % 300)
    return data + crc32(data).to_bytes(4, "big")


def main(directory: Path) -> None:
    written: queue.SimpleQueue[JournalBatch] = queue.SimpleQueue()
    store = Store(directory, committed=written.put)
    contents = store.load()
    journal = Journal()
    journal.recover(contents.message_logs, contents.shared)
    message_logs = [journal.message_log(owner) for owner in OWNERS]
    enqueued = message_logs[0].last
    settled = enqueued - message_logs[0].messages
    on_the_way: list[tuple[JournalBatch, int, int]] = []
    while True:
        for _ in range(random.randint(1, 40)):
            for number in range(enqueued + 1, enqueued + UNIT + 1):
                message = Message("x", "k", b"header", body(number))
                for message_log in message_logs:
                    message_log.enqueued(number, message)
            enqueued += UNIT
        for number in range(settled + 1, max(settled, enqueued - random.randint(1, 200) * UNIT) // UNIT * UNIT + 1):
            for message_log in message_logs:
                message_log.delivered(number)
                message_log.settled(number, len(body(number)))
            settled = number
        batch = journal.take_batch()
        on_the_way.append((batch, enqueued, settled))
        store.submit(batch)
        while len(on_the_way) > 1:
            journal.committed(written.get())
            _, *numbers = on_the_way.pop(0)
            os.write(sys.stdout.fileno(), b"%d %d\n" % tuple(numbers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
