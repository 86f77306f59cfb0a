"""`amqproxy decode`: where it reads from, and what it cannot read."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import BasicPublish, ChannelOpen, ConnectionTuneOk
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.cli.failure import FAILED, MISUSED
from tests.capture import building
from tests.cli.outcome import Amqproxy
from tests.cli.process import COMMAND

CAPTURES = Path(__file__).parent.parent.parent / "captures"


def test_a_capture_that_cannot_be_read(amqproxy: Amqproxy, tmp_path: Path) -> None:
    code, out, err = amqproxy("decode", str(tmp_path / "missing.pcap"))
    assert (code, out) == (FAILED, "")
    assert "missing.pcap" in err


@pytest.mark.parametrize(
    "data", [b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0", b"\x0a\x0d\x0d\x0a\x6c\0\0\0\x4d\x3c\x2b\x1a"]
)
def test_a_capture_whose_header_is_not_whole(data: bytes, amqproxy: Amqproxy, tmp_path: Path) -> None:
    file = tmp_path / "cut"
    file.write_bytes(data)
    code, out, err = amqproxy("decode", str(file))
    assert (code, out) == (FAILED, "")
    assert "cut short" in err


def test_decode_reads_standard_input() -> None:
    capture = CAPTURES / "confirms.pcapng"
    named = subprocess.run([*COMMAND, "decode", "--json", str(capture)], capture_output=True, check=True)
    piped = subprocess.run(
        [*COMMAND, "decode", "--json", "-"], input=capture.read_bytes(), capture_output=True, check=True
    )
    assert piped.stdout == named.stdout != b""


@pytest.mark.parametrize("name", ["confirms", "channel-error", "kombu-table", "login-refused"])
def test_evidence_names_records(name: str, amqproxy: Amqproxy) -> None:
    file = next(CAPTURES.glob(f"{name}.pcapng*"))
    records = [json.loads(line) for line in amqproxy("decode", "--json", str(file)).out.splitlines()]
    findings = [json.loads(line) for line in amqproxy("decode", "--findings", "--json", str(file)).out.splitlines()]
    assert findings
    for finding in findings:
        ((sender, number),) = [(each["from"], each["number"]) for each in finding["evidence"]]
        sent = [
            each
            for each in records
            if (each["stream"], each["from"]) == (finding["stream"], sender)
            and each["type"] not in ("heartbeat", "protocol-header", "error")
        ]
        shown = sent[number - 1]
        assert (shown["ts_ns"], shown["channel"]) == (finding["ts_ns"], finding.get("channel", 0))
        expected = {"channel-error": "channel.close", "nacked-publish": "basic.nack"}.get(finding["kind"])
        assert expected in (None, shown.get("method"))


def test_decode_takes_no_unknown_flag_for_a_file(amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("decode", "--jsno", "x.pcap")
    assert (code, out) == (MISUSED, "")
    assert "unknown option --jsno" in err


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii:strict"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
    ids=str,
)
@pytest.mark.parametrize("command", [["decode"], ["decode", "--json"], ["rules", "test", "RULES", "--capture"]])
def test_a_terminal_with_another_encoding(command: list[str], environment: dict[str, str], tmp_path: Path) -> None:
    """What it cannot show is escaped, so that JSON has the same value."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rules]]\nname = "é → \U0001f600"\naction = "refuse"\nmode = "shadow"\n', encoding="utf-8")
    capture = tmp_path / "capture"
    capture.write_bytes(capture_of("é → \U0001f600"))
    arguments = [*COMMAND, *command, str(capture)]
    arguments = [str(rules) if each == "RULES" else each for each in arguments]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    clean["AMQPROXY_PURE"] = os.environ.get("AMQPROXY_PURE", "")
    usual = subprocess.run(arguments, capture_output=True, env=clean | {"PYTHONIOENCODING": "utf-8"}, check=True)
    done = subprocess.run(arguments, capture_output=True, env=clean | environment)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    text, escaped = usual.stdout.decode(), done.stdout.decode("latin-1")
    assert not text.isascii()
    if "--json" in command:
        assert [json.loads(line) for line in escaped.splitlines()] == [json.loads(line) for line in text.splitlines()]
    else:
        assert len(escaped.splitlines()) == len(text.splitlines())
        assert "\\u" in escaped


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_times_that_no_calendar_has(options: list[str], amqproxy: Amqproxy, tmp_path: Path) -> None:
    """A filter that asks for them fails, and lets by what it cannot decide about."""
    file = tmp_path / "far.pcapng"
    file.write_bytes(capture_of("k", at=2**62))
    for expression in ("time.getHours() == 3", "time.getFullYear() > 1"):
        code, out, err = amqproxy("decode", str(file), "--filter", expression, *options)
        assert code == 0
        assert err.startswith(
            f"amqproxy: --filter: {expression!r} fails on some records, which are shown (reported once): "
        )
        assert len(err.splitlines()) == 1
        assert "basic.publish" in out


def capture_of(routing_key: str, *, at: int = 0, body: bytes = b"x") -> bytes:
    """A client that publishes, some microseconds after 1970."""
    methods = (ConnectionTuneOk(2047, 131072, 60), ChannelOpen())
    sent = HEADER + b"".join([encode_method(channel, method) for channel, method in enumerate(methods)])
    sent += Command(1, BasicPublish(routing_key=routing_key), body=body).encode(0)
    segments = [building.tcp(flags=building.SYN, seq=99), building.tcp(sent, seq=100)]
    blocks = [building.section(), building.interface()]
    for number, segment in enumerate(segments):
        blocks.append(building.enhanced(at + number, building.ethernet(building.ipv4(segment))))
    return b"".join(blocks)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ([], None),
        (["--body"], "x" * 1024),
        (["--body=5"], "x" * 5),
        (["--body", "--json"], "x" * 1024),
        (["--body=0"], None),
        (["--body=9999", "--filter", "size > 5"], "x" * 2000),
    ],
)
def test_bodies_on_request(options: list[str], shown: str | None, amqproxy: Amqproxy, tmp_path: Path) -> None:
    file = tmp_path / "capture"
    file.write_bytes(capture_of("k", body=b"x" * 2000))
    for arguments in ([*options, str(file)], [str(file), *options]):
        code, out, err = amqproxy("decode", *arguments)
        assert (code, err) == (0, "")
        last = out.splitlines()[-1]
        if "--json" in options:
            assert json.loads(last)["body"] == shown
        else:
            assert last.endswith("2000 bytes" if shown is None else f"2000 bytes  {shown}")


def test_a_body_of_less_than_nothing(amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("decode", "--body=-1", "x.pcap")
    assert (code, out) == (MISUSED, "")
    assert "--body=-1" in err


def test_the_life_of_a_message(amqproxy: Amqproxy) -> None:
    shown = amqproxy("decode", "captures/publish-get-ack.pcapng", "--life", "m-1")
    assert "⇒ acked" in shown.out
    nothing = amqproxy("decode", "captures/publish-get-ack.pcapng", "--life", "m-2")
    assert (nothing.code, nothing.err) == (FAILED, "amqproxy: decode: --life: no message has the message_id m-2\n")
    refused = amqproxy("decode", "captures/publish-get-ack.pcapng", "--life", "m-1", "--messages")
    assert refused.code == MISUSED
