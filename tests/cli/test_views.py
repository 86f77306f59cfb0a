"""Which view of a capture `amqproxy decode` shows, by its options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amqproxy.capture import decode
from amqproxy.capture.decoded import Decoded
from amqproxy.capture.warnings import CaptureError
from amqproxy.cli.failure import FAILED, INTERRUPTED, MISUSED
from tests.cli.outcome import Amqproxy

CAPTURES = Path(__file__).parent.parent.parent / "captures"
CONFIRMS, TRANSACTIONS = str(CAPTURES / "confirms.pcapng"), str(CAPTURES / "transactions.pcapng")


def test_fields_of_frames(amqproxy: Amqproxy) -> None:
    fields = "stream,from,method,arguments.routing_key,body"
    code, out, err = amqproxy("decode", CONFIRMS, "--fields", fields, "--header")
    assert (code, err) == (0, "")
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0] == fields.split(",")
    assert lines[0] not in lines[1:]
    assert lines.count(["0", "client", "basic.publish", "nowhere", ""]) == 1
    assert lines.count(["0", "client", "", "", "taken"]) == 1


def test_fields_of_messages_and_findings_as_objects(amqproxy: Amqproxy) -> None:
    fields = "outcome,code,kind"
    out = amqproxy("decode", CONFIRMS, "--messages", "--findings", "--fields", fields, "--json").out
    objects = [json.loads(line) for line in out.splitlines()]
    assert {"outcome": "confirmed", "code": 312} in objects
    assert {"kind": "nacked-publish"} in objects
    assert {"outcome": "nacked"} in objects


def test_a_filter_and_a_window_apply_to_fields(amqproxy: Amqproxy) -> None:
    options = ["--fields", "method", "--filter", "method == 'basic.ack'"]
    assert amqproxy("decode", CONFIRMS, *options).out == "basic.ack\nbasic.ack\n"
    assert amqproxy("decode", CONFIRMS, *options, "--start", "04:08:07.6493").out == "basic.ack\n"
    assert amqproxy("decode", CONFIRMS, *options, "--end", "+0.000001").out == ""


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--fields", "metod"], "--fields: there is no field metod: did you mean `method`?"),
        (["--fields", ","], "--fields: name fields"),
        (["--fields", "outcome"], "--fields: there is no field outcome"),
        (["--fields", "method", "--separator", "||"], "--separator ||: it must be one character"),
        (["--header"], "they need --fields"),
        (["--start", "noon"], "--start: 'noon' is not a time"),
        (["--end", "25:00"], "--end: '25:00' is not a time"),
    ],
)
def test_wrong_options(options: list[str], error: str, amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("decode", CONFIRMS, *options)
    assert (code, out) == (MISUSED, "")
    assert error in err


def test_to_follow_what_there_is_not_lists_what_there_is(amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("decode", CONFIRMS, "--follow", "orders")
    assert (code, out) == (FAILED, "")
    assert "no connection is orders: there are" in err
    assert "#0 127.0.0.1:" in err
    code, out, err = amqproxy("decode", CONFIRMS, "--follow", "0/9", "--json")
    assert (code, out) == (FAILED, "")
    assert "no channel is 0/9: there are 0, 1" in err


def test_messages_of_one_channel_are_as_those_of_all(amqproxy: Amqproxy) -> None:
    capture = str(CAPTURES / "consume-large.pcapng")
    messages = amqproxy("decode", capture, "--messages", "--json").out.splitlines()
    followed = amqproxy("decode", capture, "--messages", "--json", "--follow", "0/2").out.splitlines()
    assert followed == [line for line in messages if json.loads(line).get("channel") == 2]
    assert any(json.loads(line).get("outcome") == "acked" for line in followed)


def test_figures_of_all_captures_are_one_object(amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("decode", CONFIRMS, TRANSACTIONS, "--stats", "--json", "--top", "1")
    assert (code, err) == (0, "")
    (found,) = [json.loads(line) for line in out.splitlines()]
    assert found["connections"] == 2
    assert found["messages"]["confirmed"] == 2
    assert found["messages"]["committed"] > 0
    assert len(found["top"]["routing_keys"]["top"]) == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--stats", "--messages"], "--stats and --messages exclude each other"),
        (["--stats", "--findings"], "and --findings exclude each other"),
        (["--stats", "--fields", "method"], "and --fields exclude each other"),
        (["--stats", "--top", "0"], "--top 0: it must be at least 1"),
        (["--top", "3"], "--top needs --stats"),
        (["--sequence", "--json"], "--sequence and --json exclude each other"),
        (["--sequence", "--body=9"], "and --body exclude each other"),
        (["--sequence", "--stats"], "and --stats exclude each other"),
        (["--svg", "x.svg", "--messages"], "--svg and --messages exclude each other"),
        (["--sequence", "--limit", "0"], "--limit 0: it must be at least 1"),
        (["--limit", "9"], "it needs --sequence"),
        (["--stats", "--leg", "both"], "choose --leg client or upstream"),
    ],
)
def test_what_does_not_go_together(options: list[str], error: str, amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("decode", CONFIRMS, *options)
    assert (code, out) == (MISUSED, "")
    assert error in err


def test_a_ladder_is_drawn_into_a_file(amqproxy: Amqproxy, tmp_path: Path) -> None:
    file = tmp_path / "ladder.svg"
    code, out, err = amqproxy("decode", CONFIRMS, TRANSACTIONS, "--svg", str(file), "--limit", "12")
    assert (code, out, err) == (0, "", "")
    assert file.read_text() == amqproxy("decode", CONFIRMS, TRANSACTIONS, "--svg", "-", "--limit", "12").out
    assert "more commands are not shown, among them all of 1 connection:" in file.read_text()
    capture = tmp_path / "capture.pcapng"
    capture.write_bytes(Path(CONFIRMS).read_bytes())
    mistaken = amqproxy("decode", "--svg", str(capture), CONFIRMS)
    assert mistaken.code == FAILED
    assert "exists, and is not a picture" in mistaken.err
    assert capture.read_bytes() == Path(CONFIRMS).read_bytes()
    assert amqproxy("decode", "--svg", str(file), CONFIRMS).code == 0
    code, out, err = amqproxy("decode", CONFIRMS, "--svg", str(tmp_path / "no" / "ladder.svg"))
    assert (code, out) == (FAILED, "")
    assert "No such file or directory" in err
    file.unlink()
    assert amqproxy("decode", CONFIRMS, "--svg", str(file), "--follow", "nobody").code == FAILED
    assert not file.exists()


@pytest.mark.parametrize("option", ["--stats", "--sequence"])
@pytest.mark.parametrize(
    ("ended", "expected"),
    [(KeyboardInterrupt(), INTERRUPTED), (CaptureError("x.pcapng", 9, "is broken", "mend it"), FAILED)],
)
def test_what_was_read_until_then_is_shown(
    option: str, ended: BaseException, expected: int, amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Ctrl-C, which also ends a tcpdump that it reads from, or since the rest cannot be read."""
    whole = list(decode.read_decoded(CONFIRMS))

    def broken(count: int) -> Callable[..., Iterator[Decoded]]:
        def read(*_: object, **__: object) -> Iterator[Decoded]:
            yield from whole[:count]
            raise ended

        return read

    monkeypatch.setattr(decode, "read_decoded", broken(len(whole) - 2))
    code, out, err = amqproxy("decode", "x.pcapng", option)
    assert code == expected
    assert "basic.publish" in out or "published" in out
    assert "127.0.0.1:" in out
    assert err == ("" if expected == INTERRUPTED else "amqproxy: x.pcapng: is broken (at offset 9): mend it\n")
    monkeypatch.setattr(decode, "read_decoded", broken(0))
    assert amqproxy("decode", "x.pcapng", option).out == ""
