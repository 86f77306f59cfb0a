"""`amqproxy decode`: where it reads from, and what it cannot read."""

import subprocess
from pathlib import Path

import pytest

from amqproxy.cli.failure import FAILED, MISUSED
from tests.cli.outcome import Amqproxy
from tests.cli.process import COMMAND


def test_a_capture_that_cannot_be_read(amqproxy: Amqproxy, tmp_path: Path) -> None:
    code, out, err = amqproxy("decode", str(tmp_path / "missing.pcap"))
    assert (code, out) == (FAILED, "")
    assert "missing.pcap" in err


@pytest.mark.parametrize(
    "octets", [b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0", b"\x0a\x0d\x0d\x0a\x6c\0\0\0\x4d\x3c\x2b\x1a"]
)
def test_a_capture_whose_header_is_not_whole(octets: bytes, amqproxy: Amqproxy, tmp_path: Path) -> None:
    file = tmp_path / "cut"
    file.write_bytes(octets)
    code, out, err = amqproxy("decode", str(file))
    assert (code, out) == (FAILED, "")
    assert "cut short" in err


def test_decode_reads_standard_input() -> None:
    capture = Path(__file__).parent.parent.parent / "captures" / "confirms.pcapng"
    named = subprocess.run([*COMMAND, "decode", "--json", str(capture)], capture_output=True, check=True)
    piped = subprocess.run(
        [*COMMAND, "decode", "--json", "-"], input=capture.read_bytes(), capture_output=True, check=True
    )
    assert piped.stdout == named.stdout != b""


def test_decode_takes_no_unknown_flag_for_a_file(amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("decode", "--jsno", "x.pcap")
    assert (code, out) == (MISUSED, "")
    assert "unknown option --jsno" in err
