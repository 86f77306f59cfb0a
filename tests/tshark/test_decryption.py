"""TLS sessions of a real client, decoded by what they held."""

import io
import json
import ssl
from pathlib import Path

import pika
import pytest

from amqproxy.capture.files import read_packets
from amqproxy.capture.packets import Dissector
from amqproxy.capture.reassembly import Reassembler
from amqproxy.capture.stream_events import Data
from amqproxy.capture.warnings import CaptureWarning, WarningKind
from amqproxy.taps.record import Record
from amqproxy.testing.local_broker import LocalBroker
from amqproxy.tshark import decryption
from amqproxy.tshark.decryption import TLSDecryption
from amqproxy.tshark.tshark import Tshark
from tests.capture import building, golden
from tests.capture.records import read_records
from tests.cli.outcome import Amqproxy
from tests.cli.process import DEADLINE, connected, port_in, start, until
from tests.real.require import require, require_module
from tests.tshark.tls_session import TLSSession, over_tcp, recorded_session

pytestmark = [pytest.mark.real, pytest.mark.once]

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
LARGE = bytes(range(256)) * 600


def publish_and_get(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"hello")
    channel.basic_publish("", queue, LARGE)
    channel.basic_get(queue)
    channel.basic_ack(0, multiple=True)


METHODS = [
    ("client", "connection.start-ok"),
    ("client", "connection.tune-ok"),
    ("client", "connection.open"),
    ("client", "channel.open"),
    ("client", "queue.declare"),
    ("client", "confirm.select"),
    ("client", "basic.publish"),
    ("client", "basic.publish"),
    ("client", "basic.get"),
    ("client", "basic.ack"),
    ("client", "channel.close"),
    ("client", "connection.close"),
]


@pytest.fixture(scope="module", params=VERSIONS)
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TLSSession:
    require("tshark")
    require_module("pyshark")
    directory = tmp_path_factory.mktemp("tls")
    return recorded_session(directory, VERSIONS[request.param], publish_and_get)


def is_decrypted(records: list[Record]) -> bool:
    sent = [(record.sender, record.method) for record in records if record.type == "method"]
    bodies = [record.size for record in records if record.type == "body" and record.sender == "client"]
    return [each for each in sent if each[0] == "client"] == METHODS and sum(filter(None, bodies)) == 5 + len(LARGE)


def secrets(key_log: str) -> bytes:
    data = key_log.encode()
    return building.block(10, (0x544C534B).to_bytes(4, "little") + len(data).to_bytes(4, "little") + data)


@pytest.mark.parametrize("port", [5671, 5672, 8443, 39999])
def test_with_a_key_log(session: TLSSession, port: int, tmp_path: Path) -> None:
    keylog = tmp_path / "keylog"
    keylog.write_text(session.keylog)
    capture = building.pcapng(session.packets(port))
    with Tshark(keylog=keylog) as engine:
        records = list(read_records(io.BytesIO(capture), engine=engine))
    assert is_decrypted(records)
    assert [record.type for record in records].count("error") == 0
    assert records[0].type == "protocol-header"
    assert records[0].connection == f"10.0.0.1:45678-10.0.0.2:{port}"
    times = [record.ts_ns for record in records]
    assert times == sorted(times)


def test_records_are_in_order_of_time_however_close_both_sides_sent(session: TLSSession, tmp_path: Path) -> None:
    """Where each side sends while the segments of the other are still under way."""
    keylog = tmp_path / "keylog"
    keylog.write_text(session.keylog)
    at_once = [(10**18 + number, is_client, data) for number, (_, is_client, data) in enumerate(session.sent)]
    packets = over_tcp(at_once, 5671)
    assert [ts_ns for ts_ns, _ in packets] == sorted({ts_ns for ts_ns, _ in packets})
    with Tshark(keylog=keylog) as engine:
        times = [record.ts_ns for record in read_records(io.BytesIO(building.pcapng(packets)), engine=engine)]
    assert times == sorted(times)


def test_with_secrets_that_are_in_the_capture(session: TLSSession) -> None:
    capture = building.pcapng(session.packets())
    at = len(building.section())
    with_secrets = capture[:at] + secrets(session.keylog) + capture[at:]
    with Tshark() as engine:
        assert is_decrypted(list(read_records(io.BytesIO(with_secrets), engine=engine)))


def test_without_secrets_it_is_what_it_was(session: TLSSession, tmp_path: Path) -> None:
    """TLS that is not decoded; also where there are secrets, but of another session."""
    capture = building.pcapng(session.packets())
    usual = list(read_records(io.BytesIO(capture)))
    assert [record.protocol for record in usual[:1]] == ["TLS"]
    keylog = tmp_path / "keylog"
    keylog.write_text(f"CLIENT_RANDOM {'00' * 32} {'11' * 48}\n")
    with Tshark(keylog=keylog) as engine:
        found = list(read_records(io.BytesIO(capture), engine=engine))
    key = lambda record: (record.sender, record.type, record.offset or 0)  # noqa: E731
    assert [record.to_json() for record in sorted(found, key=key)] == [
        record.to_json() for record in sorted(usual, key=key)
    ]


def test_other_streams_of_the_capture_stay_as_they_are(session: TLSSession, tmp_path: Path) -> None:
    """And in their places: what is not encrypted waits for what is, and came before it."""
    keylog = tmp_path / "keylog"
    keylog.write_text(session.keylog)
    plain = golden.FOLDER / "confirms.pcapng"
    with Tshark(keylog=keylog) as engine:
        sources = [plain, io.BytesIO(building.pcapng(session.packets()))]
        records = list(read_records(sources, engine=engine))
    assert is_decrypted([record for record in records if record.connection.startswith("10.0.0.1:")])
    expected = [json.loads(line) for line in golden.records_path(plain).read_text().splitlines()]
    found = [json.loads(record.to_json()) for record in records if not record.connection.startswith("10.0.0.1:")]
    assert [{**record, "stream": 0} for record in found] == [{**record, "stream": 0} for record in expected]


def test_what_is_lost_of_a_session_is_said(session: TLSSession, tmp_path: Path) -> None:
    """Nothing behind a hole can be decrypted, and what was before it is there."""
    keylog = tmp_path / "keylog"
    keylog.write_text(session.keylog)
    packets = session.packets()
    large = [index for index, (_, data) in enumerate(packets) if len(data) > 1400]
    del packets[large[len(large) // 2]]
    with Tshark(keylog=keylog) as engine:
        records = list(read_records(io.BytesIO(building.pcapng(packets)), engine=engine))
    methods = [record.method for record in records if record.type == "method"]
    assert "confirm.select" in methods
    errors = [record for record in records if record.type == "error" and record.lost]
    assert errors
    assert errors[0].reason == "bytes are missing from the capture"


def test_what_is_captured_just_now_is_not_kept_waiting(
    session: TLSSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a segment completes comes with it, and not with the next, however slow tshark is on a busy machine."""
    monkeypatch.setattr(decryption, "LIVE_PATIENCE", 60.0)
    keylog = tmp_path / "keylog"
    keylog.write_text(session.keylog)
    reassembler, dissector = Reassembler(), Dissector()
    plain = 0
    with Tshark(keylog=keylog, is_live=True) as engine:
        for packet in read_packets(io.BytesIO(building.pcapng(session.packets()))):
            segment = dissector.segment(packet)
            assert segment is not None
            for event in engine.feed(reassembler.feed(segment)):
                assert event.ts_ns == packet.ts_ns or not plain
                plain += len(event.data) if isinstance(event, Data) else 0
        assert list(engine.finish()) == []
    assert plain > len(LARGE)


def test_what_waits_for_tshark_is_bounded_in_bytes(
    session: TLSSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what is not encrypted, and came meanwhile."""
    monkeypatch.setattr(decryption, "MAX_WAITING_BYTES", 10_000)
    keylog = tmp_path / "keylog"
    keylog.write_text(session.keylog)
    hello = next(data for _, is_client, data in session.sent if is_client)
    encrypted = [Data(0, 0, 1, hello, ())]
    others = [Data(1, 0, 2, bytes(5_000), ()) for _ in range(10)]
    with TLSDecryption(keylog) as under_test:
        passed = list(under_test.feed([*encrypted, *others]))
        assert sum(len(each.event.data) for each in under_test._waiting if isinstance(each.event, Data)) <= 10_000
        passed += under_test.finish()
    assert [each for each in passed if each.stream == 1] == others


def test_the_command(session: TLSSession, tmp_path: Path, amqproxy: Amqproxy) -> None:
    keylog, capture = tmp_path / "keylog", tmp_path / "capture.pcapng"
    keylog.write_text(session.keylog)
    capture.write_bytes(building.pcapng(session.packets()))
    code, out, err = amqproxy("decode", "--keylog", str(keylog), str(capture))
    assert (code, err) == (0, "")
    assert "basic.publish" in out
    code, out, err = amqproxy("decode", "--keylog", str(tmp_path / "none"), str(capture))
    assert (code, out) == (2, "")
    assert "No such file" in err


def test_other_commands_use_secrets_that_are_in_a_capture(
    session: TLSSession, tmp_path: Path, amqproxy: Amqproxy
) -> None:
    capture, rules = tmp_path / "capture.pcapng", tmp_path / "rules.yaml"
    capture.write_bytes(building.section() + secrets(session.keylog) + building.pcapng(session.packets()))
    rules.write_text("rules: [{name: a, action: refuse, match: {method: basic.publish}}]")
    assert '"basic.publish"' in amqproxy("export", "--to", "-", "--format", "jsonl", str(capture)).out
    assert "basic.publish: refused" in amqproxy("rules", "test", str(rules), "--capture", str(capture)).out


def test_what_was_encrypted_is_played_again(session: TLSSession, tmp_path: Path, amqproxy: Amqproxy) -> None:
    """With secrets that are in the capture, and with a key log."""
    keylog, capture, with_secrets = (tmp_path / name for name in ("keylog", "capture.pcapng", "with-secrets.pcapng"))
    keylog.write_text(session.keylog)
    capture.write_bytes(building.pcapng(session.packets()))
    with_secrets.write_bytes(building.section() + secrets(session.keylog) + capture.read_bytes())
    with LocalBroker() as broker:
        code, out, err = amqproxy("replay", str(with_secrets), "--to", broker.url, "--speed", "max")
    assert (code, err) == (0, "")
    assert out.startswith(f"1 connection, {len(METHODS)} commands sent, ")
    flags = (str(capture), "--keylog", str(keylog))
    assert amqproxy("compare", str(with_secrets), *flags).code == 0
    process = start("mock", *flags, "--listen", "127.0.0.1:0", "--once", "--speed", "0")
    with connected(port_in(until(process, "listening"))) as connection:
        publish_and_get(connection)
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, out + err
    shrink = ("shrink", str(capture), "--until", "method == 'basic.get'", "-o", str(tmp_path / "least.pcapng"))
    code, out, err = amqproxy(*shrink, "--keylog", str(tmp_path / "none"))
    assert (code, err) == (2, f"amqproxy: shrink: --keylog {tmp_path / 'none'}: No such file or directory\n")


@pytest.fixture
def _no_tshark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pyshark.tshark.tshark.get_config", lambda: None)


@pytest.mark.usefixtures("_no_tshark")
def test_without_tshark_there_is_a_remedy(session: TLSSession, tmp_path: Path, amqproxy: Amqproxy) -> None:
    capture = tmp_path / "capture.pcapng"
    capture.write_bytes(building.section() + secrets(session.keylog) + building.pcapng(session.packets()))
    notices: list[CaptureWarning] = []
    with Tshark(notices.append) as engine:
        records = list(read_records(capture, notices.append, engine=engine))
    assert {record.protocol for record in records} == {"TLS"}
    assert [notice.kind for notice in notices] == [WarningKind.ENGINE]
    assert "apt-get install tshark" in notices[0].text
    keylog = tmp_path / "keylog"
    keylog.write_text(session.keylog)
    code, out, err = amqproxy("decode", "--keylog", str(keylog), str(capture))
    assert (code, out) == (1, "")
    assert "tshark is not installed" in err
