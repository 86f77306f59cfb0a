"""Ladders have each command once, with repetition folded, and drawn as text or as SVG."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.methods import BasicAck, BasicPublish, ChannelOpen, ChannelOpenOk, Method, QueueDeclare
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.selection.conversation import Conversation
from amqproxy.capture.selection.selection import Selection
from amqproxy.capture.selection.session_legs import SessionLegs
from amqproxy.views.ladder import BROKER_LANE, CLIENT_LANE, MAX_PERIOD, PROXY_LANE, Ladder, LadderGroup, LadderRow
from amqproxy.views.ladder_svg import ladder_svg
from amqproxy.views.ladder_text import LEAST_WIDTH, PLAIN, ladder_lines, row_text
from amqproxy.views.ladder_view import LadderView
from amqproxy.views.passed_command import PassedCommand, PassedKind
from amqproxy.views.passed_commands import commands_of
from tests.amqp010 import recorded as amqp010
from tests.capture import golden
from tests.example_count import example_count
from tests.views.followed import decoded
from tests.views.recorded import recording

TIMES = "\N{MULTIPLICATION SIGN}"
SVG = "{http://www.w3.org/2000/svg}"


def ladder_of(commands: Iterable[PassedCommand], most: int = 500) -> Ladder:
    ladder = Ladder(most)
    for command in commands:
        ladder.add(command)
    return ladder


def rows(ladder: Ladder) -> Iterator[LadderRow]:
    for section in ladder.sections:
        for number in sorted(section.items):
            item = section.items[number]
            yield from [item] if isinstance(item, LadderRow) else item.rows


def passed(method: Method, number: int = 0, channel: int = 1, size: int | None = None) -> PassedCommand:
    sender = "server" if isinstance(method, BasicAck | ChannelOpenOk) else "client"
    return PassedCommand(
        kind=PassedKind.COMMAND,
        ts_ns=number * 1_000_000,
        stream=0,
        connection="10.0.0.1:4000-10.0.0.2:5672",
        sender=sender,
        channel=channel,
        method=method,
        size=size,
    )


def publish(number: int, size: int = 5, channel: int = 1) -> PassedCommand:
    return passed(BasicPublish(exchange="orders", routing_key=f"key.{number % 7}"), number, channel, size)


def ack(number: int, tag: int, channel: int = 1) -> PassedCommand:
    return passed(BasicAck(delivery_tag=tag), number, channel)


@pytest.mark.parametrize("name", [path.name.partition(".pcap")[0] for path in golden.captures()])
@pytest.mark.parametrize("most", [500, 7])
def test_each_command_is_there_once(name: str, most: int) -> None:
    commands = [each for each in commands_of(decoded(name)) if each.kind is not PassedKind.END]
    ladder = ladder_of(commands, most)
    assert sum(row.count for row in rows(ladder)) + ladder.left_out == len(commands)
    assert bool(ladder.left_out) == (len(commands) > sum(row.count for row in rows(ladder)))
    text = list(ladder_lines(ladder))
    assert all(len(line) <= 122 for line in text if "connection #" not in line and "not shown" not in line)
    picture = ElementTree.fromstring("\n".join(ladder_svg(ladder)))
    assert len(list(picture.iter(f"{SVG}line"))) == sum(1 for _ in rows(ladder)) + sum(
        3 if section.has_proxy else 2 for section in ladder.sections
    )


@settings(max_examples=example_count(200), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2)), max_size=120),
    st.integers(1, 30),
    st.integers(1, 4),
)
def test_folding_loses_nothing_and_keeps_within_its_bound(
    drawn: list[tuple[int, int]], most: int, repeated: int
) -> None:
    """Whatever comes, of however many channels: all is counted, once, on its channel."""
    makers = [publish, lambda number, channel: ack(number, number, channel), _declare, _open]
    commands = [makers[kind](number, channel=channel) for number, (kind, channel) in enumerate(drawn * repeated)]  # type: ignore[operator]
    ladder = ladder_of(commands, most)
    found = list(rows(ladder))
    assert sum(row.count for row in found) + ladder.left_out == len(commands)
    assert len(found) <= most + 2 * MAX_PERIOD
    for channel in (1, 2):
        mine = [each for each in commands if each.channel == channel]
        titles = {each.method.name for each in mine if each.method}
        assert {row.title for row in found if row.channel == channel} <= titles
        if not ladder.left_out:
            for title in titles:
                counted = sum(row.count for row in found if (row.channel, row.title) == (channel, title))
                assert counted == sum(each.method is not None and each.method.name == title for each in mine)
    numbers = [number for section in ladder.sections for number in section.items]
    assert len(numbers) == len(set(numbers))


def _declare(number: int, channel: int) -> PassedCommand:
    return passed(QueueDeclare(queue=f"q{number % 2}"), number, channel)


def _open(number: int, channel: int) -> PassedCommand:
    return passed(ChannelOpen(), number, channel)


def test_repetition_is_folded_into_a_group() -> None:
    """However many publishes there are to each ack, and whatever passes on another channel."""
    commands = [passed(ChannelOpen()), passed(ChannelOpenOk())]
    for number in range(1000):
        commands += [publish(number, size=number % 3)] * (1 + number % 4)
        commands += [passed(QueueDeclare(queue="other"), number, channel=2)] if number % 5 == 0 else []
        commands += [ack(number, number + 1)]
    ladder = ladder_of([*commands, passed(QueueDeclare(queue="last"), 1000)])
    (section,) = ladder.sections
    items = [section.items[number] for number in sorted(section.items)]
    (group,) = [item for item in items if isinstance(item, LadderGroup)]
    assert group.times == 1000
    assert [(row.title, row.count) for row in group.rows] == [("basic.publish", 2500), ("basic.ack", 1000)]
    assert row_text(group.rows[0]) == f"{TIMES}2,500 basic.publish 0…2 bytes exchange=orders (differing routing_key)"
    assert row_text(group.rows[1]) == f"{TIMES}1,000 basic.ack delivery_tag=1…1000"
    singles = [(item.title, item.count) for item in items if isinstance(item, LadderRow)]
    assert singles == [("channel.open", 1), ("channel.open-ok", 1), ("queue.declare", 200), ("queue.declare", 1)]


def test_requests_for_different_things_are_not_folded() -> None:
    ladder = ladder_of([passed(QueueDeclare(queue=f"q{number}"), number) for number in range(5)])
    assert [row_text(row) for row in rows(ladder)] == [f"queue.declare queue=q{number}" for number in range(5)]


def test_what_does_not_fit_is_said() -> None:
    commands = [
        PassedCommand(
            kind=PassedKind.COMMAND, ts_ns=0, stream=stream, connection=f"a:{stream}-b:2", sender="client", channel=1,
            method=QueueDeclare(queue=f"q{number}"),
        )
        for stream in range(4)
        for number in range(3)
    ]  # fmt: skip
    ladder = ladder_of(commands, most=4)
    assert (ladder.left_out, ladder.left_out_connections) == (8, 2)
    text = "\n".join(ladder_lines(ladder))
    assert "8 more commands are not shown, among them all of 2 connections: choose with --follow" in text
    assert "8 more commands are not shown" in "\n".join(ladder_svg(ladder))


def test_peers_texts_cannot_break_the_picture_or_a_terminal() -> None:
    evil = '</text><script>alert("1")</script>&\x1b[31m\x00\udcff\ufffe'
    ladder = ladder_of([passed(QueueDeclare(queue=evil))])
    document = "\n".join(ladder_svg(ladder))
    document.encode()
    picture = ElementTree.fromstring(document)
    assert not [each for each in picture.iter() if each.tag.endswith("script")]
    for line in ladder_lines(ladder):
        assert "\x1b" not in line


def test_plain_characters_and_narrow_terminals() -> None:
    ladder = ladder_of(commands_of(decoded("confirms")))
    lines = list(ladder_lines(ladder, width=20, style=PLAIN))
    assert all(line.isascii() for line in lines)
    assert all(len(line) <= LEAST_WIDTH for line in lines[2:])


# --- both legs


def test_both_legs_of_a_session_are_one_ladder_with_the_proxy_between() -> None:
    drawn: list[Ladder] = []

    def draw(ladder: Ladder) -> Iterator[str]:
        drawn.append(ladder)
        return ladder_lines(ladder)

    view = LadderView(Selection(None, None, SessionLegs()), None, draw)
    assert not list(view.lines(read_decoded(io.BytesIO(recording(2)), leg="both")))
    text = "\n".join(view.finish())
    (ladder,) = drawn
    assert [(section.has_proxy, section.name, section.end) for section in ladder.sections] == [
        (True, "orders-1", "client closed"),
        (True, "orders-2", "client closed"),
    ]
    shown = [(row.title, row.source, row.target) for row in rows(ladder)]
    assert shown == 2 * [
        ("protocol header", CLIENT_LANE, BROKER_LANE),
        ("connection.start", BROKER_LANE, CLIENT_LANE),
        ("connection.start-ok", CLIENT_LANE, BROKER_LANE),
        ("channel.open", CLIENT_LANE, BROKER_LANE),
        ("channel.open-ok", BROKER_LANE, CLIENT_LANE),
        ("basic.publish", CLIENT_LANE, PROXY_LANE),
        ("basic.publish", PROXY_LANE, BROKER_LANE),
        ("queue.declare", CLIENT_LANE, PROXY_LANE),
        ("channel.close", PROXY_LANE, CLIENT_LANE),
        ("channel.close-ok", CLIENT_LANE, PROXY_LANE),
    ]
    assert "basic.publish [changed by eu-only] 5 bytes exchange=eu.orders" in text
    assert "queue.declare [refused by no-declares]" in text
    assert "proxy" in "\n".join(ladder_svg(ladder))


@pytest.mark.parametrize("name", ["orders-2", "4002", "10.0.0.1:4002", "9002-"])
def test_both_legs_of_a_session_are_followed(name: str) -> None:
    """By what its client, or its connection to the upstream, is called."""
    conversation = Conversation(name)
    view = LadderView(Selection(conversation, None, SessionLegs()), None, ladder_lines)
    list(view.lines(read_decoded(io.BytesIO(recording(2)), leg="both")))
    text = "\n".join(view.finish())
    assert conversation.why_nothing() is None
    assert text.count("connection #") == 1
    assert "orders-2" in text
    assert "exchange=eu.orders" in text


def test_a_ladder_of_0_10_has_sets_of_commands_and_folds_transfers() -> None:
    (path,) = amqp010.FOLDER.glob("brokerj9.2__jms-010-tx.pcap*")
    ladder = ladder_of(commands_of(read_decoded(path)))
    (section,) = ladder.sections
    assert section.name == "cid1"
    found = [row for row in rows(ladder) if row.title in ("message.transfer", "message.accept", "message.release")]
    assert [(row.count, row.shown.get("command_id"), row.last.get("command_id")) for row in found][:2] == [
        (1, 1, 1),
        (3, 3, 5),
    ]
    assert [row.shown.get("routing_key") for row in found][:2] == ["$virtualhostProperties", "jms.tx"]
    assert [row.shown["transfers"] for row in found if row.title != "message.transfer"] == [
        "2",
        "3-5",
    ]  # two releases in one row
    assert not any(row.is_error for row in rows(ladder))


def test_what_goes_wrong_in_0_10_is_an_error() -> None:
    (path,) = amqp010.FOLDER.glob("brokerj9.2__jms-010-errors.pcap*")
    ladder = ladder_of(commands_of(read_decoded(path)))
    titles = [row.title for row in rows(ladder) if row.is_error]
    assert titles.count("execution.exception") == 8
    assert titles.count("connection.close") == 3


def test_a_reset_ends_a_connection_and_is_named() -> None:
    (section,) = ladder_of(commands_of(decoded("server-reset"))).sections
    assert section.end == "server reset the connection"
