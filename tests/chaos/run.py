"""`python -m tests.chaos.run --rounds N --seed S`: one injected failure a round, and a witness that may notice none.

A round starts the proxy with the integrated broker in it, arms one site, lets the victim use it, drains with
SIGTERM, and asks the witness. Half of the rounds arm a site on behalf of the victim only; the others a site that serves
all (a timer, the accepting loop, the thread that writes to the disk): then, too, the process goes on, the witness loses
nothing, and a new client is served.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from tests.chaos import sites

sites.install()

import trio  # noqa: E402

from amqproxy import app  # noqa: E402
from amqproxy.app.printing import PrintSettings  # noqa: E402
from amqproxy.configuration import config, config_file  # noqa: E402
from amqproxy.process import log  # noqa: E402
from amqproxy.taps.text import line  # noqa: E402
from tests.chaos import tour  # noqa: E402

CONFIG = """
upstream = "broker"

[log]
level = "debug"

[limits]
drain_timeout = 4.0
close_timeout = 1.0

[broker]
data = "data"
log_exchange = true

[[listen]]
address = "127.0.0.1:{port}"

[metrics]
address = "127.0.0.1:0"

[control]
path = "control.sock"

[[rules]]
name = "no secrets"
action = "acl"
lines = '''
deny anyone to publish exchange "victim.secret"
allow anyone to any
'''

[[rules]]
name = "rate"
action = "limit"
match.exchange = "victim*"
of = "messages"
rate = 400

[[rules]]
name = "rewritten"
action = "rewrite"
match.exchange = "victim.topic"
headers.set = {{seen = "yes"}}

[[rules]]
name = "mirrored"
action = "mirror"
match.exchange = "victim.direct"
exchange = "victim.dead"

[[rules]]
name = "slow"
action = "fault"
match.queue = "victim.priority"
match.method = "queue.declare"
fault = {{kind = "latency", delay = 0.01, to = "client"}}

[[rules]]
name = "logged"
action = "log"
match.exchange = "victim.direct"
text = "{{user}} {{method}} {{exchange}}"
"""


class Failure(Exception):
    """What the witness noticed, or what the process did, in a round."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait_until_open(port: int) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.01)
    raise Failure("it does not listen")


class Round(threading.Thread):
    """What the clients do while the proxy runs in the main thread; `failure` is what went wrong."""

    def __init__(self, port: int, trap: sites.Trap | None) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.trap = trap
        self.failure = ""
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            self._play()
        except Exception as error:  # noqa: BLE001 - the main thread reports it
            self.failure = f"{type(error).__name__}: {error}"
        if self.trap is None:
            sites.learn(True, is_draining=True)
        with self._armed(at_drain=True):
            if not self.is_over.is_set():
                os.kill(os.getpid(), signal.SIGTERM)
            self.is_over.wait(30)
        sites.learn(False)

    def _armed(self, *, at_drain: bool) -> AbstractContextManager[None]:
        trap = self.trap
        return nullcontext() if trap is None or trap.at_drain != at_drain else sites.armed(trap)

    def _play(self) -> None:
        wait_until_open(self.port)
        witness = tour.Witness(self.port)
        witness.start()
        witness.is_up.wait(tour.PATIENCE)
        if self.trap is None:
            sites.learn(True)
        with self._armed(at_drain=False), suppress(Exception):
            tour.victim(self.port)
        witness.stop()
        if witness.complaint:
            raise Failure(f"the witness noticed it: {witness.complaint}")
        other = tour.Witness(self.port)
        other.start()
        other.is_up.wait(tour.PATIENCE)
        other.stop()
        if other.complaint:
            raise Failure(f"a client that comes later is not served: {other.complaint}")


def play(trap: sites.Trap | None, directory: Path, *, retries: int = 3) -> None:
    """One round; raises `Failure`."""
    port = free_port()
    file = directory / "proxy.toml"
    file.write_text(CONFIG.format(port=port))
    loaded = config_file.load(file)
    players = Round(port, trap)
    players.start()
    try:
        trio.run(_bounded, loaded)
    except app.AddressUnavailable as error:  # another process has taken the port
        players.is_over.set()
        players.join(60)
        if not retries:
            raise Failure(f"the proxy does not start: {error}") from None
        play(trap, directory, retries=retries - 1)
        return
    except BaseException as error:  # noqa: BLE001 - whatever ends the process is what we look for
        text = "".join(traceback.format_exception(error))
        raise Failure(f"the process ended: {text}") from None
    finally:
        players.is_over.set()
    players.join(30)
    if players.failure:
        raise Failure(players.failure)
    if players.is_alive():
        raise Failure("the clients hang")


async def _bounded(loaded: config.Config) -> None:
    with trio.fail_after(90):
        await app.run(loaded, printed=PrintSettings(render=line))


VICTIM = 3
"""The victim's session: the first connection asked whether there is a listener, the second is the witness's."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how many, at random; 0 for every site once")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--site", help="only sites with this in their name", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - what the proxy prints
    print(f"seed {options.seed}", file=sys.stderr)
    keep = sys.stderr
    sys.stderr = keep if options.verbose else open(os.devnull, "w")  # noqa: PTH123, SIM115 - its log
    failures = 0
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # between two rounds
    sites.mark_sessions(lambda session: session.number == VICTIM)
    # As the command does, which no exception in a line of the log may reach.
    with log.started(config.LogConfig(level="debug")), tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        try:
            play(None, directory)
        except Failure as failure:
            print(f"FAILED without anything injected: {failure}", file=keep)
            return 1
        own, shared = (
            [each for each in sites.seen(whom) if options.site in sites.SITES[each].name] for whom in ("victim", "")
        )
        print(f"{len(sites.SITES)} sites; passed for the victim {len(own)}, for all {len(shared)}", file=keep)
        sprung: set[int] = set()
        places = [(number, True) for number in own] + [(number, False) for number in shared]
        if options.rounds:
            weights = [len(shared) or 1] * len(own) + [len(own) or 1] * len(shared)
            places = chance.choices(places, weights, k=options.rounds)
        for number, (site, for_victim) in enumerate(places):
            trap = sites.trap_at(site, chance, for_victim=for_victim)
            try:
                play(trap, directory)
            except Failure as failure:
                failures += 1
                print(f"FAILED round {number}: {trap}\n    {failure}", file=keep)
            if trap.has_sprung:
                sprung.add(trap.site.number)
    print(f"{len(places)} rounds, {len(sprung)} sites raised, {failures} failures, seed {options.seed}", file=keep)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
