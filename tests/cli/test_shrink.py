"""`amqproxy shrink`."""

import json
import signal
from pathlib import Path

from amqproxy.cli.failure import FAILED, INTERRUPTED, MISUSED
from amqproxy.testing.local_broker import LocalBroker
from tests.amqp010.recorded import FOLDER
from tests.cli.outcome import Amqproxy
from tests.cli.process import silent_broker, start

CAPTURES = Path(__file__).parent.parent.parent / "captures"
ERROR = str(CAPTURES / "channel-error.pcapng")
CLOSED = 'method == "channel.close" && sender == "server"'


def test_what_is_left_still_shows_it(amqproxy: Amqproxy, tmp_path: Path) -> None:
    small = tmp_path / "small.pcapng"
    code, out, err = amqproxy("shrink", ERROR, "--until", CLOSED, "--output", str(small))
    assert (code, err) == (0, "")
    assert out.startswith("2 → 1 commands, 1 → 1 connections, in ")
    assert out.endswith(f" replays: {small}\n")
    assert amqproxy("decode", str(small), "--filter", CLOSED).out.count("channel.close") == 1
    again = amqproxy("shrink", str(small), "--until", CLOSED, "-o", str(small), "--json")
    assert json.loads(again.out)["commands_before"] == 1
    assert json.loads(again.out)["is_least"] is True


def test_against_another_broker(amqproxy: Amqproxy, tmp_path: Path) -> None:
    small = tmp_path / "small.pcapng"
    with LocalBroker() as broker:
        code, out, _ = amqproxy("shrink", ERROR, "--until", CLOSED, "-o", str(small), "--to", broker.url)
    assert code == 0
    assert out.startswith("2 → 1 commands")


def test_what_it_cannot_do(amqproxy: Amqproxy, tmp_path: Path) -> None:
    small = str(tmp_path / "small.pcapng")
    for wrong in (
        ("shrink", "--until", CLOSED, "-o", small),
        ("shrink", ERROR, "--until", "no such", "-o", small),
        ("shrink", ERROR, "--until", CLOSED),
        ("shrink", ERROR, "--until", CLOSED, "-o", small, "--seconds", "0"),
        ("shrink", ERROR, "--until", CLOSED, "-o", small, "--to", "localhost"),
    ):
        assert amqproxy(*wrong).code == MISUSED, wrong
    code, _, err = amqproxy("shrink", ERROR, "--until", 'method == "tx.select"', "-o", small)
    assert (code, err) == (
        FAILED,
        'amqproxy: shrink: replaying the whole capture does not make this true: method == "tx.select"\n',
    )
    assert not Path(small).exists()


def test_a_file_that_cannot_be_written_is_found_before_any_replay(amqproxy: Amqproxy, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none" / "small.pcapng")
    for path, reason in ((nowhere, "No such file or directory"), (str(tmp_path), f"{tmp_path} is a directory")):
        code, _, err = amqproxy("shrink", str(tmp_path / "no.pcap"), "--until", CLOSED, "-o", path)
        assert (code, err) == (FAILED, f"amqproxy: shrink: {path} cannot be written: {reason}\n")


def test_a_capture_without_a_connection(amqproxy: Amqproxy, tmp_path: Path) -> None:
    capture = tmp_path / "empty.pcap"
    capture.write_bytes(bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 0000ffff 01000000"))
    code, out, err = amqproxy("shrink", str(capture), "--until", "true", "-o", str(tmp_path / "small.pcapng"))
    assert (code, out) == (FAILED, "")
    assert err == "amqproxy: shrink: the captures contain no connection of a protocol that can be played\n"


def test_ctrl_c_writes_nothing(tmp_path: Path) -> None:
    small = tmp_path / "small.pcapng"
    with silent_broker() as (url, is_greeted):
        flags = ("--until", CLOSED, "-o", str(small), "--timeout", "60")
        process = start("shrink", ERROR, *flags, "--to", url)
        try:
            assert is_greeted.wait(30)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, err) == (INTERRUPTED, "amqproxy: shrink: interrupted; nothing was written\n")
    assert not small.exists()


def test_a_capture_of_0_10(amqproxy: Amqproxy, tmp_path: Path) -> None:
    """Of the sessions that Broker-J has ended with an exception, and those of 0-9-1 beside them."""
    small = tmp_path / "small.pcapng"
    ended = 'method == "execution.exception"'
    both = [str(FOLDER / "brokerj9.2__jms-010-errors.pcapng.gz"), ERROR]
    code, out, err = amqproxy("shrink", *both, "--until", ended, "-o", str(small))
    assert (code, err) == (0, "")
    assert out.startswith("82 → 1 commands, 17 → 1 connections, in ")
    assert amqproxy("decode", str(small), "--filter", ended).out.count("execution.exception") == 1
