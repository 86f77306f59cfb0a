"""`amqproxy rules`: rules checked, explained and rehearsed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from amqproxy.amqp091.frame import METHOD, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicDeliver, ConnectionTune
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.cli.failure import FAILED
from amqproxy.export import access_evidence
from amqproxy.testing.local_broker import LocalBroker
from amqproxy.testing.local_proxy import LocalProxy
from tests.amqp010.recorded import FOLDER
from tests.capture import building
from tests.cli.outcome import Amqproxy, Outcome

CAPTURE = str(Path(__file__).parents[2] / "captures" / "confirms.pcapng")
AMQP010_CAPTURE = str(FOLDER / "brokerj9.2__jms-010-tx.pcapng.gz")


def test_rules_are_checked_and_explained(tmp_path: Path, amqproxy: Amqproxy) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("rules:\n  - {name: ours, action: allow, match: {exchange: 'orders.*'}}\n")
    assert amqproxy("rules", "check", str(path)) == Outcome(0, "", f"{path}: 1 rule, fine\n")
    outcome = amqproxy("rules", "explain", str(path), "--method", "basic.publish", "--exchange", "orders.eu")
    assert outcome.code == 0
    assert "1. allow `ours`\n" in outcome.out
    assert "   here:  holds\n" in outcome.out
    path.write_text("rules:\n  - {name: odd, action: allow, when: 'exchnge == 1'}\n")
    refused = amqproxy("rules", "check", str(path))
    assert refused.code == 2
    assert refused.err == (
        f"amqproxy: {path}:2: rule 'odd', rules[0].when: there is no `exchnge`: did you mean `exchange`? "
        "(line 1, column 1)\n    exchnge == 1\n    ^\n"
    )


def test_rules_that_could_be_walked_around_are_warned_of(tmp_path: Path, amqproxy: Amqproxy) -> None:
    path = tmp_path / "a.toml"
    path.write_text('[[rules]]\nname = "who"\naction = "acl"\nlines = "otherwise deny"\n')
    warned = (
        f"{path}: warning: rule 'who': line 1 locks all clients out: no line before it allows any to connect\n"
        f"{path}: 1 rule, 1 to look at\n"
    )
    assert amqproxy("rules", "check", str(path)) == Outcome(0, "", warned)
    strict = amqproxy("rules", "check", "--strict", str(path))
    assert strict == Outcome(FAILED, "", f"{warned}amqproxy: rules check: 1 warning\n")
    path.write_text('[[rules]]\nname = "who"\naction = "acl"\nlines = "allow anyone to connect; otherwise deny"\n')
    assert amqproxy("rules", "check", "--strict", str(path)) == Outcome(0, "", f"{path}: 1 rule, fine\n")


CLOSED = (
    "refused: execution.exception 403 ACCESS_REFUSED - message.transfer to exchange '' in vhost 'test' "
    "refused for user 'guest' by rule 'none'"
)


@pytest.mark.parametrize(
    ("capture", "method", "what"),
    [
        (CAPTURE, "basic.publish", "refused with basic.nack"),
        (AMQP010_CAPTURE, "message.transfer", CLOSED),  # it need not be accepted
    ],
)
def test_rules_are_rehearsed_on_a_capture(
    tmp_path: Path, amqproxy: Amqproxy, capture: str, method: str, what: str
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("rules: [{name: none, action: refuse, with: nack, match: {method: basic.publish}}]")
    code, out, err = amqproxy("rules", "test", str(path), "--capture", capture, "--json")
    assert code == 0
    lines = [msgspec.json.decode(line) for line in out.splitlines()]
    assert {(line["method"], *line["what"]) for line in lines} == {(method, what)}
    commands, counted = err.splitlines()
    assert int(commands.removesuffix(" commands")) > len(lines) > 0
    assert counted == f"  none: {len(lines)}"
    plain = amqproxy("rules", "test", str(path), "--capture", capture).out.splitlines()
    assert len(plain) == len(lines)
    assert all(line.endswith(f"{method}: {what}  [none]") for line in plain)


def test_a_rehearsal_without_its_capture(tmp_path: Path, amqproxy: Amqproxy) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("{}")
    code, out, err = amqproxy("rules", "test", str(path), "--capture", str(tmp_path / "missing.pcap"))
    assert (code, out) == (FAILED, "")
    assert "missing.pcap" in err


def test_a_method_that_is_cut_off_is_not_evaluated(tmp_path: Path, amqproxy: Amqproxy) -> None:
    path, capture = tmp_path / "a.yaml", tmp_path / "capture"
    path.write_text("rules: [{name: none, action: refuse, mode: shadow, match: {method: 'basic.*'}}]")
    deliver = encode_method(1, BasicDeliver("tag", 7, False, "e", "k"))[7:-1]
    whole = encode_method(1, BasicDeliver("tag", 7, False, "e", "k"))
    damaged = b"".join([encode_frame(METHOD, 1, deliver[:size]) for size in range(4, len(deliver))])
    segments = [
        building.tcp(flags=building.SYN, seq=99),
        building.tcp(HEADER, seq=100),
        building.tcp(encode_method(0, ConnectionTune(0, 0, 0)) + damaged + whole, source=5672, target=40000, seq=500),
    ]
    ends = [(building.CLIENT, building.SERVER)] * 2 + [(building.SERVER, building.CLIENT)]
    packets = [
        (number, building.ethernet(building.ipv4(segment, source=source, target=target)))
        for number, (segment, (source, target)) in enumerate(zip(segments, ends, strict=True))
    ]
    capture.write_bytes(building.pcapng(packets))
    code, out, err = amqproxy("rules", "test", str(path), "--capture", str(capture))
    assert (code, out) == (0, "")
    assert "Traceback" not in err
    code, out, err = amqproxy("decode", str(capture))
    assert code == 0
    assert out.count("ERROR 501") + out.count("ERROR 502") == len(deliver) - 4


def test_the_least_access_list_is_suggested(
    tmp_path: Path, amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = amqproxy("rules", "suggest", CAPTURE)
    assert (outcome.code, outcome.err) == (0, "4 lines; 23 commands checked, 0 refused\n")
    assert 'allow user "guest" vhost "/" to publish queue "amq.gen-*"\n' in outcome.out
    path = tmp_path / "suggested.toml"
    path.write_text(outcome.out)
    assert amqproxy("config", "check", str(path)).code == 0
    assert amqproxy("rules", "check", "--strict", str(path)) == Outcome(0, "", f"{path}: 1 rule, fine\n")
    tested = amqproxy("rules", "test", str(path), "--capture", CAPTURE)
    assert "refused" not in tested.out
    in_yaml = amqproxy("rules", "suggest", "--format", "yaml", CAPTURE)
    path = tmp_path / "suggested.yaml"
    path.write_text(in_yaml.out)
    assert amqproxy("config", "check", str(path)).code == 0
    with Path(CAPTURE).open("rb") as piped:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=piped))
        assert amqproxy("rules", "suggest", "-").out == outcome.out.replace(CAPTURE, "standard input")


def test_the_least_access_list_of_0_10(tmp_path: Path, amqproxy: Amqproxy) -> None:
    outcome = amqproxy("rules", "suggest", AMQP010_CAPTURE)
    assert (outcome.code, outcome.err) == (0, "3 lines; 50 commands checked, 0 refused\n")
    assert 'vhost "test" to publish, consume, declare queue "jms.tx"\n' in outcome.out
    path = tmp_path / "suggested.toml"
    path.write_text(outcome.out)
    assert amqproxy("rules", "check", "--strict", str(path)) == Outcome(0, "", f"{path}: 1 rule, fine\n")
    assert "refused" not in amqproxy("rules", "test", str(path), "--capture", AMQP010_CAPTURE).out


def test_what_no_list_can_be_suggested_for_is_an_error(tmp_path: Path, amqproxy: Amqproxy) -> None:
    assert amqproxy("rules", "suggest").code == 2
    refused = amqproxy("rules", "suggest", str(Path(CAPTURE).with_name("login-refused.pcapng")))
    assert refused.code == FAILED
    assert "these captures contain no command" in refused.err
    missing = amqproxy("rules", "suggest", str(tmp_path / "none.pcapng"))
    assert missing.code == FAILED
    assert "cannot be opened" in missing.err


def test_a_suggestion_that_refuses_something_is_an_error(amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the reason, the check is by other code than what made the list."""
    monkeypatch.setattr(access_evidence, "named", lambda operation: {"queue": "other"} if operation.queue else {})
    outcome = amqproxy("rules", "suggest", CAPTURE)
    assert outcome.code == FAILED
    assert "basic.publish: refused: channel.close 403" in outcome.err
    assert outcome.err.endswith("some commands in these captures would not have passed under this list\n")


REPLAYED = ("confirms", "publish-get-ack", "transactions", "consume-large", "kombu-table", "channel-error")


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalProxy]:
    with LocalBroker("3.10") as broker, LocalProxy(broker.address) as proxy:  # as when these were recorded
        yield proxy


@pytest.mark.parametrize("name", REPLAYED)
def test_a_proxy_with_the_suggested_list_lets_the_same_pass_and_nothing_else(
    name: str, amqproxy: Amqproxy, guarded: LocalProxy
) -> None:
    """The recordings of real clients, played once more through the proxy."""
    capture = str(Path(CAPTURE).with_name(f"{name}.pcapng"))
    suggested = amqproxy("rules", "suggest", capture).out
    with guarded.rules(suggested):
        played = amqproxy("replay", capture, "--to", guarded.url, "--speed", "max")
        assert (played.code, played.err) == (0, "")
    with guarded.rules(amqproxy("rules", "suggest", str(Path(CAPTURE).with_name("heartbeats.pcapng"))).out):
        refused = amqproxy("replay", capture, "--to", guarded.url, "--speed", "max", "--timeout", "0.5")
    assert refused.code == FAILED
    assert "ACCESS_REFUSED" in refused.out
