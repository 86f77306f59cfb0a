"""The command as a separate process, and clients of it."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pytest

from tests.proxy.stage import HANDSHAKE
from tests.transcripts.words import octets

COMMAND = [sys.executable, "-m", "amqproxy"]
DEADLINE = 30.0

BROKERS: list[socket.socket] = []
"""What `opened` accepted as a broker, to be closed when the test is over."""


def start(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen([*COMMAND, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True)


def until(process: subprocess.Popen[str], text: str) -> str:
    """The next line of the log that contains the text."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    pytest.fail(f"it ended without {text!r} in its log")


def port_in(line: str) -> int:
    return int(line.split("address=127.0.0.1:")[1].split()[0])


def connected(port: int) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))


def opened(port: int, listener: socket.socket) -> socket.socket:
    """A client with an open connection; its broker sends only the handshake, and is closed after the test."""
    client = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
    broker: socket.socket | None = None
    for line in HANDSHAKE.strip().splitlines():
        arrow, _, frames = line.strip().partition(" ")
        if arrow == ">>":
            client.sendall(octets(frames))
        broker = broker or listener.accept()[0]
        receiver = broker if arrow == ">>" else client
        if arrow == "<<":
            broker.sendall(octets(frames))
        assert receiver.recv(len(octets(frames)), socket.MSG_WAITALL) == octets(frames)
    assert broker is not None
    BROKERS.append(broker)
    return client


@contextmanager
def silent_broker() -> Iterator[tuple[str, threading.Event]]:
    """The URL of a broker that never answers, and what is set once a client has sent its protocol header."""
    is_greeted = threading.Event()
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            held.append(listener.accept()[0])
            held[0].recv(8)
            is_greeted.set()

        threading.Thread(target=accept, daemon=True).start()
        yield f"amqp://127.0.0.1:{listener.getsockname()[1]}", is_greeted
    for each in held:
        each.close()
