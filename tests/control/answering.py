"""A control socket that answers with prepared lines."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def answering(path: Path, *lines: bytes) -> Iterator[list[bytes]]:
    """A server that answers each request with one of the lines and then closes; yields the requests."""
    requests: list[bytes] = []

    def answer() -> None:
        with listening.accept()[0] as one, one.makefile("rb") as stream:
            for line in lines:
                requests.append(stream.readline())
                one.sendall(line)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=answer)
        thread.start()
        yield requests
        thread.join(20)
    assert not thread.is_alive()
