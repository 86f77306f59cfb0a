"""The control socket itself: who is served, for how long, and what is left of it."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.control import service
from amqproxy.control.hub import Hub
from amqproxy.control.request import ListBrokerObjects, ListHeld, ListSessions, Reload, WatchHeld
from amqproxy.control.request_handler import ListResponse, StreamedList
from amqproxy.control.service import ControlService
from amqproxy.control.unix_socket import opened
from amqproxy.control.work_share import WorkShare
from amqproxy.taps.metrics import Metrics
from tests.taps.sessions import Session
from tests.taps.trace.traced import frames_of


class Desk:
    """Says what it was asked, as long as that; what is held is its number."""

    def __init__(self) -> None:
        self.entries: Iterable[Any] = []
        self.more: dict[str, Any] = {}

    async def answered(self, request: Any) -> dict[str, Any] | ListResponse | StreamedList:
        match request:
            case Reload():
                raise AssertionError("a fault of ours")
            case ListSessions():
                return {"sessions": "x" * 5_000_000}
            case ListBrokerObjects():
                return StreamedList("objects", iter(self.entries))
            case WatchHeld() | ListHeld():
                return ListResponse("held", iter(self.entries), self.more)
            case _:
                return {"rules": []}

    def held(self, session: Any, number: int, excerpt: int) -> Any:
        return None if number < 0 else {"number": number, "excerpt": excerpt}


class Asker:
    """One at the other end."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.unread = b""

    async def send(self, line: bytes) -> None:
        await self.stream.send_all(line)

    async def receive(self) -> Any:
        """The next answer; None at the end."""
        with trio.fail_after(20):
            while b"\n" not in self.unread:
                data = await self.stream.receive_some()
                if not data:
                    assert not self.unread
                    return None
                self.unread += data
        line, _, self.unread = self.unread.partition(b"\n")
        return msgspec.json.decode(line)


class Served:
    def __init__(
        self,
        path: Path,
        service: ControlService,
        desk: Desk,
        stack: AsyncExitStack,
        hub: Hub,
        metrics: Metrics,
    ) -> None:
        self.path = path
        self.metrics = metrics
        self.hub = hub
        self.service = service
        self.desk = desk
        self._stack = stack

    async def asker(self) -> Asker:
        stream = await trio.open_unix_socket(self.path)
        return Asker(await self._stack.enter_async_context(stream))


@asynccontextmanager
async def served(directory: Path, ring: int = 0) -> AsyncIterator[Served]:
    path = directory / "control"
    with opened(path) as listening:
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            desk = Desk()
            hub = Hub(None, lambda tap: None)
            metrics = Metrics()
            one = ControlService(desk, hub, metrics, ring)  # type: ignore[arg-type]
            nursery.start_soon(one.run, listening)
            yield Served(path, one, desk, stack, hub, metrics)
            nursery.cancel_scope.cancel()


# --- those who ask


async def test_requests_are_answered_in_turn_each_with_its_id(tmp_path: Path) -> None:
    async with served(tmp_path) as place:
        asker = await place.asker()
        await asker.send(b'{"request": "rules", "id": 1}\n\n{"request": "ru')
        assert await asker.receive() == {"id": 1, "ok": True, "rules": []}
        await asker.send(b'les"}\n')
        assert await asker.receive() == {"ok": True, "rules": []}
        await asker.send(b'{"request": "no", "id": "b"}\n')
        answer = await asker.receive()
        assert (answer["id"], answer["ok"], answer["error"]) == ("b", False, "malformed")
        await asker.stream.send_eof()
        assert await asker.receive() is None


async def test_many_ask_at_a_time_and_one_too_many_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_CONTROL_CLIENTS", 3)
    async with served(tmp_path) as place:
        askers = [await place.asker() for _ in range(3)]
        for _ in range(2):
            for asker in askers:
                await asker.send(b'{"request": "rules"}\n')
            for asker in askers:
                assert (await asker.receive())["ok"]
        another = await place.asker()
        assert (await another.receive())["error"] == "busy"
        assert await another.receive() is None
        await askers[0].stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        another = await place.asker()
        await another.send(b'{"request": "rules"}\n')
        assert (await another.receive())["ok"]


async def test_a_request_that_is_too_long_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_LINE", 1000)
    async with served(tmp_path) as place:
        asker = await place.asker()
        await asker.send(b"x" * 1001)
        assert (await asker.receive())["error"] == "too-long"
        assert await asker.receive() is None


async def test_a_fault_of_ours_ends_it_and_nothing_else(tmp_path: Path) -> None:
    async with served(tmp_path) as place:
        asker, other = await place.asker(), await place.asker()
        with capture_logs() as log:
            await asker.send(b'{"request": "reload"}\n')
            assert await asker.receive() is None
        (line,) = [each for each in log if each["log_level"] == "error"]
        assert (line["event"], line["reason"][:32]) == ("control request failed", "AssertionError: a fault of ours ")
        assert "exc_info" not in line
        await other.send(b'{"request": "rules"}\n')
        assert (await other.receive())["ok"]


@pytest.mark.parametrize("sent", [b"", b'{"request": '])
async def test_a_silent_client_is_disconnected(
    sent: bytes, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with served(tmp_path) as place:
        asker = await place.asker()
        if sent:
            await asker.send(sent)
        began = trio.current_time()
        with trio.fail_after(1000):
            assert await asker.stream.receive_some() == b""
        assert trio.current_time() - began == pytest.approx(service.LINE_TIMEOUT if sent else service.IDLE_TIMEOUT)


async def test_who_does_not_read_is_let_go(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with served(tmp_path) as place:
        asker = await place.asker()
        await asker.send(b'{"request": "sessions"}\n')
        await trio.sleep(service.SEND_TIMEOUT + 1)
        with pytest.raises(trio.BrokenResourceError):
            await asker.send(b"\n")


async def test_an_answer_holds_no_more_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_LISTED", 5)
    monkeypatch.setattr(service, "MOST_LISTED_BYTES", 100)
    async with served(tmp_path) as place:
        asker = await place.asker()
        for entries, shown in ([1] * 7, 5), (["x" * 48] * 3, 2), (["x" * 98, "x"], 1), (["x" * 99, "x"], 0):
            place.desk.entries = entries
            await asker.send(b'{"request": "held"}\n')
            answer = await asker.receive()
            assert (answer["held"], answer["left_out"]) == (entries[:shown], len(entries) - shown)


async def test_the_proxy_has_its_turn_while_an_answer_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "TURN", -1.0)
    turns: list[int] = []
    seen: list[int] = []

    def entries() -> Iterator[int]:
        for number in range(20):
            seen.append(len(turns))
            yield number

    async def others() -> None:
        while True:
            turns.append(1)
            await trio.lowlevel.checkpoint()

    async with served(tmp_path) as place, trio.open_nursery() as nursery:
        asker = await place.asker()
        place.desk.entries = entries()
        nursery.start_soon(others)
        await asker.send(b'{"request": "held", "id": 3}\n')
        assert await asker.receive() == {"id": 3, "ok": True, "held": list(range(20))}
        assert seen[-1] - seen[0] >= 10
        nursery.cancel_scope.cancel()


async def test_the_proxy_has_its_turn_between_entries_that_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "TURN", -1.0)
    async with served(tmp_path) as place, trio.open_nursery() as nursery:
        asker = await place.asker()
        turns = counted_turns(nursery)
        seen: list[int] = []
        place.desk.entries = (seen.append(len(turns)) for _ in range(20))
        await asker.send(b'{"request": "held"}\n')
        assert await asker.receive() == {"ok": True, "held": []}
        assert seen[-1] - seen[0] >= 10
        nursery.cancel_scope.cancel()


async def test_the_proxy_has_its_turn_between_empty_lines(tmp_path: Path) -> None:
    async with served(tmp_path) as place, trio.open_nursery() as nursery:
        asker = await place.asker()
        turns = counted_turns(nursery)
        await asker.send(b"\n" * 10_000 + b'{"request": "rules"}\n')
        assert (await asker.receive())["ok"]
        assert len(turns) >= 5_000
        nursery.cancel_scope.cancel()


def counted_turns(nursery: trio.Nursery) -> list[int]:
    """A list that gets longer with each turn of another task."""
    turns: list[int] = []

    async def others() -> None:
        while True:
            turns.append(1)
            await trio.lowlevel.checkpoint()

    nursery.start_soon(others)
    return turns


async def test_what_no_text_can_hold_is_escaped(tmp_path: Path) -> None:
    async with served(tmp_path) as place:
        asker = await place.asker()
        place.desk.entries = [{"user": "a\udcff"}]
        await asker.send(b'{"request": "held"}\n')
        assert await asker.receive() == {"ok": True, "held": [{"user": "a\\udcff"}]}


async def test_requests_without_an_end_share_what_memory_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_UNREAD", 3000)
    async with served(tmp_path) as place:
        askers = [await place.asker() for _ in range(4)]
        for asker in askers[:3]:
            await asker.send(b"x" * 1000)
            await trio.testing.wait_all_tasks_blocked()
        await askers[3].send(b"x" * 1000)
        assert (await askers[3].receive())["error"] == "busy"
        assert await askers[3].receive() is None
        await askers[0].send(b"\n")
        assert (await askers[0].receive())["error"] == "malformed"
        another = await place.asker()
        await another.send(b'{"request": "rules"}\n')
        assert (await another.receive())["ok"]


async def test_who_goes_in_the_middle_of_an_answer_is_no_trouble(tmp_path: Path) -> None:
    async with served(tmp_path) as place:
        asker, other = await place.asker(), await place.asker()
        with capture_logs() as log:
            await asker.send(b'{"request": "sessions"}\n' * 3)
            await asker.stream.receive_some(1)
            await asker.stream.aclose()
            await other.send(b'{"request": "rules"}\n')
            assert (await other.receive())["ok"]
        assert log == []


# --- those who watch


async def test_events_that_wait_are_bounded_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(service, "MAX_EVENT_BYTES", 1000)
    session: Any = SimpleNamespace()
    monkeypatch.setattr(Desk, "held", lambda desk, session, number, excerpt: {"number": number, "body": "x" * 400})
    async with served(tmp_path) as place:
        watcher = await place.asker()
        await watcher.send(b'{"request": "watch"}\n')
        await watcher.receive()
        for number in range(5):
            place.service.note_hold(session, number)
        assert [(await watcher.receive()).get("held", {}).get("number") for _ in range(1)] == [0]
        assert await watcher.receive() == {"event": "lost", "count": 3}
        assert (await watcher.receive())["held"]["number"] == 1
        place.service.note_hold(session, 9)
        assert (await watcher.receive())["held"]["number"] == 9


async def test_a_watcher_receives_as_much_of_bodies_as_it_asks_for(tmp_path: Path) -> None:
    session: Any = SimpleNamespace()
    async with served(tmp_path) as place:
        watcher, other = await place.asker(), await place.asker()
        await watcher.send(b'{"request": "watch", "body": 5, "id": 1}\n')
        assert await watcher.receive() == {"id": 1, "ok": True, "held": []}
        place.service.note_hold(session, 7)
        place.service.note_hold(session, -1)
        assert await watcher.receive() == {"event": "held", "held": {"number": 7, "excerpt": 5}}
        await watcher.send(b'{"request": "rules"}\n')
        await other.send(b'{"request": "rules"}\n')
        assert await watcher.receive() == await other.receive() == {"ok": True, "rules": []}


async def test_a_watcher_that_cannot_be_served_disturbs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[int] = []

    def held(desk: Desk, session: Any, number: int, excerpt: int) -> Any:
        shown.append(number)
        if len(shown) == 1:
            raise AssertionError("a fault of ours")
        return {"number": number}

    monkeypatch.setattr(Desk, "held", held)
    async with served(tmp_path) as place:
        watchers = [await place.asker() for _ in range(2)]
        for watcher in watchers:
            await watcher.send(b'{"request": "watch"}\n')
            await watcher.receive()
        with capture_logs() as log:
            place.service.note_hold(SimpleNamespace(), 7)  # type: ignore[arg-type]
        assert [each["event"] for each in log if each["log_level"] == "error"] == ["control event failed"]
        assert shown == [7, 7]


async def test_who_cannot_be_accepted_is_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accept = trio.SocketListener.accept
    failures = iter([OSError("no descriptor left"), ZeroDivisionError("of ours")])

    async def scarce(self: trio.SocketListener) -> trio.SocketStream:
        for failure in failures:
            raise failure
        return await accept(self)

    monkeypatch.setattr(trio.SocketListener, "accept", scarce)
    monkeypatch.setattr(service, "BREATHER", 0.01)
    async with served(tmp_path) as place:
        asker = await place.asker()
        await asker.send(b'{"request": "rules"}\n')
        assert (await asker.receive())["ok"]


async def test_a_slow_watcher_learns_how_many_events_were_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_EVENTS", 2)
    session: Any = SimpleNamespace()
    async with served(tmp_path) as place:
        watcher = await place.asker()
        await watcher.send(b'{"request": "watch"}\n')
        await watcher.receive()
        await trio.testing.wait_all_tasks_blocked()
        for number in range(6):
            place.service.note_hold(session, number)
        received = [await watcher.receive() for _ in range(3)]
        lost = [each["count"] for each in received if each["event"] == "lost"]
        seen = [each["held"]["number"] for each in received if each["event"] == "held"]
        assert sum(lost) + len(seen) == 6
        assert seen == [0, 1]


async def test_who_watches_is_not_let_go(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with served(tmp_path) as place:
        watcher = await place.asker()
        await watcher.send(b'{"request": "watch"}\n')
        await watcher.receive()
        await trio.sleep(10 * service.IDLE_TIMEOUT)
        place.service.note_hold(SimpleNamespace(), 1)  # type: ignore[arg-type]
        assert (await watcher.receive())["held"]["number"] == 1


# --- following what passes


def publish(served: Served, count: int = 1) -> None:
    """Publish through the proxy."""
    for number in range(count):
        served.hub.saw_frames(Session(), CLIENT, frames_of(1, BasicPublish(routing_key=str(number))))


async def test_nothing_comes_of_a_subscription_once_another_has_replaced_it(tmp_path: Path) -> None:
    may_end = trio.Event()
    may_end.set()

    class SlowShare(WorkShare):
        @asynccontextmanager
        async def turn(self) -> AsyncIterator[Callable[[], bool]]:
            yield lambda: False
            await may_end.wait()

    async with served(tmp_path) as house:
        house.service._share = SlowShare()
        asker = await house.asker()
        await asker.send(b'{"request":"subscribe","frames":true,"id":1}\n')
        assert await asker.receive() == {"id": 1, "ok": True}
        await trio.testing.wait_all_tasks_blocked()
        may_end = trio.Event()
        publish(house)
        await trio.testing.wait_all_tasks_blocked()
        await asker.send(b'{"request":"subscribe","findings":true,"id":2}\n')
        assert await asker.receive() == {"id": 2, "ok": True}
        may_end.set()
        await trio.testing.wait_all_tasks_blocked()
        await asker.send(b'{"request":"rules","id":3}\n')
        assert await asker.receive() == {"id": 3, "ok": True, "rules": []}


async def test_frames_are_sent_to_who_subscribes(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        one, other = await house.asker(), await house.asker()
        await one.send(b'{"request":"subscribe","frames":true,"id":1}\n')
        assert await one.receive() == {"id": 1, "ok": True}
        publish(house, 2)
        await other.send(b'{"request":"rules"}\n')
        assert await other.receive() == {"ok": True, "rules": []}
        records = [(await one.receive())["record"] for _ in range(4)]
        assert [each["arguments"].get("routing_key") for each in records] == ["0", None, "1", None]
        await one.send(b'{"request":"subscribe","messages":true,"filter":"routing_key == \'1\'"}\n')
        assert await one.receive() == {"ok": True}
        publish(house, 2)
        assert (await one.receive())["event"] == "message"


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (b'{"request":"subscribe"}', "malformed"),
        (b'{"request":"subscribe","frames":true,"messages":true}', "malformed"),
        (b'{"request":"subscribe","findings":true,"filter":"size > 1"}', "malformed"),
        (b'{"request":"subscribe","frames":true,"filter":"siz > 1"}', "wrong-filter"),
    ],
)
async def test_what_cannot_be_followed(request_: bytes, error: str, tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        asker = await house.asker()
        await asker.send(request_ + b"\n")
        assert (await asker.receive())["error"] == error
        await asker.send(b'{"request":"rules"}\n')
        assert (await asker.receive())["ok"]


async def test_a_refused_subscription_leaves_nothing_running(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        asker = await house.asker()
        await asker.send(b'{"request":"subscribe","messages":true,"findings":true,"filter":"siz > 1"}\n')
        assert (await asker.receive())["error"] == "wrong-filter"
        service = house.service
        assert service._findings is not None
        assert service._findings._evaluation is None
        assert not service._ring._cursors
        assert not house.hub._added


async def test_who_goes_is_shown_no_more(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        asker = await house.asker()
        await asker.send(b'{"request":"subscribe","frames":true}\n')
        await asker.receive()
        assert len(house.hub._added) == 1
        await asker.stream.aclose()
        with trio.fail_after(5):
            while house.hub._added:
                publish(house)
                await trio.sleep(0.01)


async def test_who_never_reads_loses_records_and_then_the_connection(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with served(tmp_path) as house:
        asker, other = await house.asker(), await house.asker()
        await asker.send(b'{"request":"subscribe","frames":true}\n')
        assert (await asker.receive())["ok"]
        for _ in range(30):
            publish(house, 1000)
            await trio.sleep(1)
        assert house.hub._added == []
        await other.send(b'{"request":"rules"}\n')
        assert (await other.receive())["ok"]


async def test_who_reads_a_byte_a_second_loses_records_and_no_other_does(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "SEND_TIMEOUT", 10_000)
    async with served(tmp_path) as house:
        slow, fast = await house.asker(), await house.asker()
        for asker in (slow, fast):
            await asker.send(b'{"request":"subscribe","frames":true}\n')
            assert (await asker.receive())["ok"]
        house.service._ring.memory = 1 << 19
        for _ in range(20):
            publish(house, 200)
            assert [(await fast.receive())["event"] for _ in range(400)] == ["frame"] * 400
            await slow.stream.receive_some(1)
            await trio.sleep(1)
        received = b""
        while b'"lost"' not in received or not received.endswith(b"\n"):
            received += await slow.stream.receive_some(1 << 20)
        [lost] = [msgspec.json.decode(line) for line in received.splitlines() if line.startswith(b'{"event":"lost"')]
        assert lost["count"] > 1000
        value = house.metrics.registry.get_sample_value("amqproxy_records_dropped_total", {"tap": "tail"})
        assert value == lost["count"]


async def test_batches_are_sent_as_there_is_credit(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        asker = await house.asker()
        await asker.send(b'{"request":"subscribe","frames":true,"credit":2}\n')
        assert await asker.receive() == {"ok": True}
        for number in range(5):
            publish(house)
            await trio.testing.wait_all_tasks_blocked()
            if number < 2:
                events = [(await asker.receive())["event"] for _ in range(3)]
                assert events == ["frame", "frame", "batch"]
        await asker.send(b'{"request":"more","credit":1,"id":7}\n')
        assert await asker.receive() == {"id": 7, "ok": True}
        assert [(await asker.receive())["event"] for _ in range(7)] == ["frame"] * 6 + ["batch"]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([b'{"request":"more","credit":1}'], "not-subscribed"),
        ([b'{"request":"subscribe","frames":true}', b'{"request":"more","credit":1}'], "no-credit"),
        ([b'{"request":"more","credit":0}'], "malformed"),
        ([b'{"request":"subscribe","frames":true,"from":"start"}'], "no-ring"),
    ],
)
async def test_what_there_is_no_more_of(lines: list[bytes], error: str, tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        asker = await house.asker()
        answers = []
        for line in lines:
            await asker.send(line + b"\n")
            answers.append(await asker.receive())
        assert answers[-1]["error"] == error


async def test_what_has_passed_before_is_shown_where_there_is_a_ring(tmp_path: Path) -> None:
    async with served(tmp_path, ring=1 << 20) as house:
        publish(house, 2)
        asker = await house.asker()
        await asker.send(b'{"request":"subscribe","frames":true,"from":"start"}\n')
        assert await asker.receive() == {"ok": True}
        records = [(await asker.receive())["record"] for _ in range(4)]
        assert [each["arguments"].get("routing_key") for each in records[::2]] == ["0", "1"]
        await asker.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert len(house.hub._added) == 1
        assert house.service._ring.entries


async def test_without_a_ring_nothing_is_kept_once_nobody_follows(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        publish(house)
        assert not house.service._ring.entries
        askers = [await house.asker() for _ in range(2)]
        for asker in askers:
            await asker.send(b'{"request":"subscribe","frames":true}\n')
            await asker.receive()
        assert len(house.hub._added) == 1
        for left, asker in zip((1, 0), askers, strict=True):
            await asker.stream.aclose()
            await trio.testing.wait_all_tasks_blocked()
            publish(house)
            await trio.testing.wait_all_tasks_blocked()
            assert len(house.hub._added) == left
        assert not house.service._ring.entries


async def test_held_commands_are_announced_while_very_much_passes(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        asker = await house.asker()
        await asker.send(b'{"request":"watch"}\n{"request":"subscribe","frames":true}\n')
        assert (await asker.receive())["ok"]
        assert (await asker.receive())["ok"]
        publish(house, 2000)
        house.service.note_hold(SimpleNamespace(), 1)  # type: ignore[arg-type]
        events = [(await asker.receive())["event"] for _ in range(4001)]
        assert events.index("held") < 4000


# --- lists in pieces


async def test_a_list_comes_in_pieces_made_as_they_are_read(tmp_path: Path) -> None:
    made = 0

    def entries() -> Iterator[Any]:
        nonlocal made
        for number in range(1000):
            made += 1
            yield None
            yield {"number": number, "filling": "x" * 1000}

    async with served(tmp_path) as place:
        place.desk.entries = entries()
        asker = await place.asker()
        await asker.send(b'{"request": "broker-objects", "kind": "queues", "id": 1}\n')
        found: list[Any] = []
        is_more, most = True, 0
        while is_more:
            answer = await asker.receive()
            found += answer["objects"]
            most = max(most, sum(len(each["filling"]) for each in answer["objects"]))
            is_more = answer["more"]
            assert answer["id"] == 1
        assert [each["number"] for each in found] == list(range(1000))
        assert most <= service.BATCH_SIZE + 1000
        await asker.send(b'{"request": "rules", "id": 2}\n')
        assert (await asker.receive())["id"] == 2


async def test_an_empty_list_is_one_piece(tmp_path: Path) -> None:
    async with served(tmp_path) as place:
        place.desk.entries = [None, None]
        asker = await place.asker()
        await asker.send(b'{"request": "broker-objects", "kind": "queues"}\n')
        assert await asker.receive() == {"ok": True, "objects": [], "more": False}
