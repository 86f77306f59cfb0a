"""What rules would have made of the golden captures."""

from pathlib import Path

import pytest

from amqproxy.amqp010.controls import ConnectionOpen, ConnectionSecureOk, ConnectionStartOk
from amqproxy.amqp010.frame import Frame, encode_method
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.capture.dry_run import DryRun
from amqproxy.configuration.config_file import parse
from tests.amqp010.recorded import FOLDER

CAPTURES = Path(__file__).parents[2] / "captures"


def rehearsed(rules: str, capture: str) -> tuple[list[str], DryRun]:
    rehearsal = DryRun(parse(rules, Path("rules.toml")).rules)
    passed = read_decoded(CAPTURES / capture)
    lines = [
        f"{each.sender} {each.channel} {each.method}: {'; '.join(each.what)} {list(each.rules)}"
        for frames in passed
        if isinstance(frames, DecodedFrames)
        for each in rehearsal.play(frames)
    ]
    return lines, rehearsal


def test_what_would_have_been_refused():
    rules = """
    [[rules]]
    name = "none to the default exchange"
    action = "refuse"
    with = "nack"
    match = {method = "basic.publish", exchange = ""}
    """
    lines, rehearsal = rehearsed(rules, "confirms.pcapng")
    assert lines
    assert set(lines) == {"client 1 basic.publish: refused with basic.nack ['none to the default exchange']"}
    assert rehearsal.rules.counts()["none to the default exchange"].hits == len(lines)
    assert rehearsal.commands > len(lines)


def test_what_would_have_been_changed_or_only_counted():
    rules = """
    [[rules]]
    name = "shorter"
    action = "rewrite"
    match = {method = "queue.declare"}
    fields = {set = {durable = true}}

    [[rules]]
    name = "see"
    action = "tag"
    tags = ["seen"]
    mode = "shadow"
    match = {method = "confirm.select"}
    """
    lines, rehearsal = rehearsed(rules, "confirms.pcapng")
    assert any("durable: False → True" in line for line in lines)
    assert rehearsal.rules.counts()["see"].shadow_hits > 0


def test_a_client_is_known_by_its_login():
    rules = """
    [[rules]]
    name = "not guest"
    action = "refuse"
    match = {method = "channel.open", user = "guest"}
    """
    lines, _ = rehearsed(rules, "confirms.pcapng")
    assert lines
    assert all("refused: " in line for line in lines)


@pytest.mark.parametrize("capture", sorted(path.name for path in CAPTURES.glob("*.pcapng*")))
def test_captures_with_holes_are_no_trouble(capture: str) -> None:
    """What is left of a message whose method is not there is not evaluated."""
    rules = """
    [[rules]]
    name = "all"
    action = "refuse"
    mode = "shadow"
    when = "size > 10 && body.contains('x')"
    """
    lines, rehearsal = rehearsed(rules, capture)
    assert rehearsal.commands
    assert isinstance(lines, list)


AMQP010 = FOLDER / "brokerj9.2__jms-010-tx.pcapng.gz"


def test_commands_of_0_10_are_judged_as_those_of_0_9_1() -> None:
    rules = """
    [[rules]]
    name = "no transactions"
    action = "refuse"
    match = {method = "tx.*", vhost = "test", user = "guest"}

    [[rules]]
    name = "marked"
    action = "rewrite"
    match = {method = "basic.publish", body = "*"}
    headers = {set = {seen = true}}
    when = "channel.is_transactional"

    [[rules]]
    name = "deliveries"
    action = "tag"
    tags = ["seen"]
    mode = "shadow"
    match = {method = "basic.deliver", routing_key = "jms.tx"}
    """
    lines, rehearsal = rehearsed(rules, str(AMQP010))
    counts = {name: each.hits + each.shadow_hits for name, each in rehearsal.rules.counts().items()}
    assert counts["marked"] == 5
    assert counts["no transactions"] >= 4
    assert counts["deliveries"] == 6
    assert any(line.startswith("client 0 tx.commit: refused") for line in lines)
    assert any("message.transfer" in line and "seen" in line for line in lines)


def test_a_session_that_is_over_is_forgotten() -> None:
    """Transactions are a session's: the next one on its channel has none."""
    rules = """
    [[rules]]
    name = "within"
    action = "tag"
    tags = ["within"]
    when = "channel.is_transactional"
    match = {method = "basic.consume"}
    """
    _, rehearsal = rehearsed(rules, str(AMQP010))
    _, whole = rehearsed(rules.replace("channel.is_transactional", "true"), str(AMQP010))
    assert rehearsal.rules.counts()["within"].hits < whole.rules.counts()["within"].hits


def test_a_user_of_0_10_that_is_named_in_answer_to_a_challenge() -> None:
    text = '[[rules]]\nname = "r"\naction = "refuse"\nmatch = {method = "connection.open", user = "me"}\n'
    login = (ConnectionStartOk(mechanism="PLAIN"), ConnectionSecureOk(b"\0me\0secret"), ConnectionOpen("v"))
    frames = tuple(Frame(encode_method(0, control)) for control in login)
    passed = Amqp010DecodedFrames(1, 0, "a:1-b:2", "client", frames, command_ids=(None, None, None))
    (result,) = DryRun(parse(text, Path("rules.toml")).rules).play(passed)
    assert result.method == "connection.open"
