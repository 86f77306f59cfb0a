"""A proxy with pumps, for as long as one likes: random traffic, connections that change owner all the time.

    python -m tests.pump.soak --minutes 120

It goes on in rounds. In each, some connections talk at once (`conversation`), while subscribers come and go, rules are
replaced and connections are paused. Then all of them end, in good order, or in every third round in any; and it
checks that

- each end has received, byte for byte, what the other has sent;
- every frame is counted, by its kind, and every message (in rounds where all end in good order);
- the proxy has no more descriptors than before;
- its memory does not grow.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from statistics import linear_regression

import trio

from amqproxy.control import ControlClient, RequestError
from tests.pump.conversation import DIALECTS, PATIENCE, Conversation, broker
from tests.real.proxy import Proxy

MEBIBYTE = 1024 * 1024
MOST_GROWTH = 4 * MEBIBYTE
"""Resident bytes by which the least of the last fifth of a run may be above the least of the second one.

What is free is given back once a minute, so that the least is what is in use: a leak is in it, a peak is not. Where the
peaks of so many connections lie is by chance, and the highest of a longer run is higher.
"""

LEAST_ROUNDS = 15
"""Fewer say nothing about memory."""

RULES = """
[[rules]]
name = "soak"
action = "log"
text = "never"
match.exchange = "nowhere"
match.vhost = "/"
"""
"""For connections of 0-9-1 alone: a rule judges the frames of a command of 0-10 together, and so what comes on other
channels meanwhile goes ahead of them."""


class Soak:
    """Rounds of conversations through one proxy, whose control socket is `control`."""

    def __init__(self, proxy: Proxy, control: Path, options: argparse.Namespace, dice: Random) -> None:
        self.rss: list[tuple[float, int]] = []
        self.descriptors: list[int] = []
        self.returned = 0.0
        self.conversations: dict[int, Conversation] = {}
        self._accepted: dict[int, trio.Event] = {}
        self._proxy = proxy
        self._control = control
        self._options = options
        self._dice = dice
        self._numbers = count(1)

    async def run(self) -> None:
        """All rounds."""
        end = time.monotonic() + 60 * self._options.minutes
        for number in count(1):
            await self._round(number, may_tear=number % 3 == 0)
            if time.monotonic() >= end:
                break

    async def _round(self, number: int, *, may_tear: bool) -> None:
        before = await self._counted()
        bytes_before = before.pop("bytes")
        talking: list[Conversation] = []
        for _ in range(self._options.connections):
            one = next(self._numbers)
            dice = Random(self._dice.random())
            dialect = DIALECTS[one % len(DIALECTS)]
            talking.append(Conversation(one, self._proxy.port, dice, self._accepted, dialect, self._explain))
            self.conversations[one] = talking[-1]
        async with trio.open_nursery() as operating:
            operating.start_soon(self._operate)
            async with trio.open_nursery() as nursery:
                for each in talking:
                    steps = self._dice.randint(1, 2 * self._options.steps)
                    nursery.start_soon(partial(each.run, steps, self._options.pause, may_tear=may_tear))
            operating.cancel_scope.cancel()
        self.conversations.clear()
        self._accepted.clear()
        await self._until(lambda: not self._proxy.sockets(), "connections are left")
        await trio.to_thread.run_sync(self._reload)
        if not may_tear:
            await self._check_counts(talking, before, bytes_before)
        await self._until(lambda: not self.descriptors or self._proxy.descriptors() <= self.descriptors[0], "leaked")
        self.descriptors.append(self._proxy.descriptors())
        self.rss.append((time.monotonic(), self._proxy.rss()))
        self.returned = (await self._stats()).get(("amqproxy_pump_returns_total", ()), 0.0)
        if "Traceback" in self._proxy.log:
            raise AssertionError(self._proxy.log)
        frames = sum(end.counts.total() for each in talking for end in (each.client, each.broker))
        print(
            f"round {number}: {len(talking)} connections, {frames} frames, {self.returned:,.0f} hand-overs,"
            f" {self.descriptors[-1]} descriptors, {self.rss[-1][1] / MEBIBYTE:.1f} MiB",
            flush=True,
        )

    # --- what is counted

    async def _check_counts(self, talking: list[Conversation], before: Counter, bytes_before: float) -> None:
        expected: Counter = Counter()
        size = 0
        for each in talking:
            for end in (each.client, each.broker):
                expected += end.counts
                size += end.sizes
        expected["messages", "published"] = sum(each.client.messages for each in talking)
        expected["messages", "delivered"] = sum(each.broker.messages for each in talking)
        with trio.move_on_after(PATIENCE):
            while True:
                after = await self._counted()
                found_size = after.pop("bytes") - bytes_before
                if after - before == expected and found_size == size:
                    return
                await trio.sleep(0.1)
        found = after - before
        raise AssertionError(
            f"counted are {found - expected} too many, {expected - found} too few; {found_size:.0f} of {size} bytes"
        )

    async def _counted(self) -> Counter:
        found: Counter = Counter()
        for (name, labels), value in (await self._stats()).items():
            if name == "amqproxy_frames_total":
                known = dict(labels)
                found[known["sender"], known["type"], known["method"]] = int(value)
            elif name == "amqproxy_frame_bytes_total":
                found["bytes"] += int(value)
            elif name in ("amqproxy_messages_published_total", "amqproxy_messages_delivered_total"):
                found["messages", name.split("_")[2]] = int(value)
        found.setdefault("bytes", 0)
        return found

    async def _stats(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        def ask() -> list[dict]:
            with ControlClient(self._control) as client:
                return client.ask("stats")["metrics"]

        found: dict = Counter()
        for sample in await trio.to_thread.run_sync(ask):
            labels = tuple(sorted(sample["labels"].items()))
            if sample["name"] == "amqproxy_pump_returns_total":
                labels = ()
            found[sample["name"], labels] += sample["value"]
        return found

    def _explain(self, name: str) -> list[dict]:
        with ControlClient(self._control) as client:
            known = [*client.ask("connections")["connections"], *client.ask("channels")["channels"]]
            return [each for each in known if name in str(each)]

    async def _until(self, condition: Callable[[], bool], failure: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"{failure}: {self._proxy.descriptors()}, at first {self.descriptors[:1]}")
            await trio.sleep(0.05)

    # --- what an operator does meanwhile

    async def _operate(self) -> None:
        acts = [self._subscribe, self._subscribe, self._replace_rules, self._reload, self._pause]
        while True:
            await trio.sleep(self._dice.expovariate(1 / (20 * self._options.pause)))
            await trio.to_thread.run_sync(self._dice.choice(acts))

    def _subscribe(self) -> None:
        with ControlClient(self._control) as client:
            client.ask("subscribe", frames=True)
            time.sleep(self._dice.uniform(0, 0.3))

    def _replace_rules(self) -> None:
        if self._dice.random() < 0.2:  # a session that has had rules stays with the event loop
            with ControlClient(self._control) as client:
                client.ask("rules-set", text=RULES, format="toml")

    def _reload(self) -> None:
        with ControlClient(self._control) as client:
            client.ask("reload")

    def _pause(self) -> None:
        with ControlClient(self._control) as client:
            sessions = client.ask("sessions")["sessions"]
            if sessions:
                number = self._dice.choice(sessions)["session"]
                with suppress(RequestError):  # it has ended meanwhile
                    client.ask("pause", session=number)
                    time.sleep(self._dice.uniform(0, 0.2))
                    client.ask("resume", session=number)

    # --- in the end

    def check_memory(self) -> str:
        """How memory has gone, in words; `AssertionError` when it has grown."""
        rounds = len(self.rss)
        if rounds < LEAST_ROUNDS:
            return f"{rounds} rounds: too few to say anything about memory"
        fifth = rounds // 5
        early, late = (min(size for _, size in part) for part in (self.rss[fifth : 2 * fifth], self.rss[-fifth:]))
        slope, _ = linear_regression(*zip(*self.rss[fifth:], strict=True))
        growth = f"{slope * 3600 / 1024:+.0f} KiB an hour"
        text = f"memory: {early / MEBIBYTE:.2f} MiB early, {late / MEBIBYTE:.2f} late, {growth}"
        assert late - early <= MOST_GROWTH, text
        return text


async def soak(options: argparse.Namespace) -> None:
    """Run it; an exception when something is not as it should be."""
    os.environ["AMQPROXY_TEST_PUMP"] = str(options.frames)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        control = directory / "control.sock"
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        proxy = Proxy(directory, port, threads=options.threads, control={"path": str(control)})
        try:
            one = Soak(proxy, control, options, Random(options.seed))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(broker, listener, one.conversations)
                await one.run()
                nursery.cancel_scope.cancel()
            assert one.returned, "no connection was handed over"
            print(one.check_memory())
            proxy.terminate()
            assert proxy.wait() == 0, proxy.log
        except BaseException:
            print(proxy.log[-5000:], file=sys.stderr)
            raise
        finally:
            proxy.kill()


def main() -> None:
    """What the options say."""
    parser = argparse.ArgumentParser(prog="python -m tests.pump.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--frames", type=int, default=7, help="after which a connection changes owner; 0: never by force"
    )
    parser.add_argument("--connections", type=int, default=20, help="at once")
    parser.add_argument("--steps", type=int, default=30, help="of each connection, on average")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between two steps, on average")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    trio.run(soak, options)
    print(f"passed, in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
