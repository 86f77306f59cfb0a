"""`amqproxy rules`: rules checked, explained and rehearsed."""

from pathlib import Path

import msgspec

from amqproxy.cli.failure import FAILED
from tests.cli.outcome import Amqproxy, Outcome

CAPTURE = str(Path(__file__).parents[2] / "captures" / "confirms.pcapng")


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


def test_rules_are_rehearsed_on_a_capture(tmp_path: Path, amqproxy: Amqproxy) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("rules: [{name: none, action: refuse, with: nack, match: {method: basic.publish}}]")
    code, out, err = amqproxy("rules", "test", str(path), "--capture", CAPTURE, "--json")
    assert code == 0
    lines = [msgspec.json.decode(line) for line in out.splitlines()]
    assert {(line["method"], *line["what"]) for line in lines} == {("basic.publish", "refused with basic.nack")}
    commands, counted = err.splitlines()
    assert int(commands.removesuffix(" commands")) > len(lines) > 0
    assert counted == f"  none: {len(lines)}"
    plain = amqproxy("rules", "test", str(path), "--capture", CAPTURE).out.splitlines()
    assert len(plain) == len(lines)
    assert all(line.endswith("basic.publish: refused with basic.nack  [none]") for line in plain)


def test_a_rehearsal_without_its_capture(tmp_path: Path, amqproxy: Amqproxy) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("{}")
    code, out, err = amqproxy("rules", "test", str(path), "--capture", str(tmp_path / "missing.pcap"))
    assert (code, out) == (FAILED, "")
    assert "missing.pcap" in err
