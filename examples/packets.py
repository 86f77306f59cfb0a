"""Writes what a running proxy relays to standard output, as a pcapng file: for `amqproxy decode -`, Wireshark, tshark.

    python examples/packets.py amqproxy.sock | amqproxy decode -
    python examples/packets.py amqproxy.sock | wireshark -k -i -

`amqproxy.sock` is the control socket: see docs/control.md.
"""

import sys
from base64 import b64decode

from amqproxy.control import ControlClient


def main(path: str) -> None:
    with ControlClient(path) as client:
        client.ask("subscribe", packets=True)
        for event in client.events():
            if event["event"] == "packets":
                sys.stdout.buffer.write(b64decode(event["data"]))
                sys.stdout.buffer.flush()
            elif event["event"] == "lost":
                print(f"{event['count']} frames were lost", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
