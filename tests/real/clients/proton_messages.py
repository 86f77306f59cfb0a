# mypy: ignore-errors
"""Sends messages to a queue with AMQP 1.0, takes them again, and prints how many came: PORT QUEUE COUNT.

Qpid Proton is Debian's, so that this is run by the system's Python.
"""

import sys

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container


class Messages(MessagingHandler):
    """Takes messages as soon as all are accepted."""

    def __init__(self, port: str, queue: str, count: int) -> None:
        super().__init__()
        self.port, self.queue, self.count = port, queue, count
        self.sent = self.accepted = self.received = 0

    def on_start(self, event) -> None:
        url = f"amqp://guest:guest@127.0.0.1:{self.port}"
        self.connection = event.container.connect(url, allowed_mechs="PLAIN", reconnect=False)
        event.container.create_sender(self.connection, self.queue)

    def on_sendable(self, event) -> None:
        while event.sender.credit and self.sent < self.count:
            event.sender.send(Message(body=f"message {self.sent}"))
            self.sent += 1

    def on_accepted(self, event) -> None:
        self.accepted += 1
        if self.accepted == self.count:
            event.container.create_receiver(self.connection, self.queue)

    def on_message(self, event) -> None:
        self.received += 1
        if self.received == self.count:
            sys.stdout.write(f"{self.received}\n")
            self.connection.close()

    def on_transport_error(self, event) -> None:
        sys.stdout.write(f"{event.transport.condition}\n")


port, queue, count = sys.argv[1:]
Container(Messages(port, queue, int(count))).run()
