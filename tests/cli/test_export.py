"""`amqproxy export`: what is written is what `decode` prints, all of it or nothing."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from amqproxy.capture.files import read_packets
from amqproxy.cli.failure import FAILED, MISUSED
from amqproxy.export.columns import columns
from amqproxy.export.packets import ExportedPackets
from tests.amqp010 import recorded
from tests.capture import building
from tests.cli.outcome import Amqproxy
from tests.export.dialogue import Dialogue

CAPTURES = Path(__file__).parents[2] / "captures"
CONFIRMS = str(CAPTURES / "confirms.pcapng")
OPTIONS = [[], ["--messages"], ["--findings"], ["--messages", "--findings"], ["--body=20"], ["--messages", "--body=20"]]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_json_lines_are_those_of_decode(options: list[str], tmp_path: Path, amqproxy: Amqproxy) -> None:
    out = tmp_path / "out.jsonl"
    assert amqproxy("export", str(CAPTURES), "--to", str(out), *options).code == 0
    assert out.read_text() == amqproxy("decode", str(CAPTURES), "--json", *options).out
    assert len(out.read_text().splitlines()) > 5


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_csv_has_the_values_of_json(options: list[str], tmp_path: Path, amqproxy: Amqproxy) -> None:
    out = tmp_path / "out.csv"
    assert amqproxy("export", str(CAPTURES), "--to", str(out), *options).code == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    records = [json.loads(line) for line in amqproxy("decode", str(CAPTURES), "--json", *options).out.splitlines()]
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        for name, text in row.items():
            if name != "time":
                assert text == cell(record, name), name


def cell(record: dict[str, object], name: str) -> str:
    """What CSV has of a record."""
    value: object = record
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@")):
        return f"'{value}"
    if isinstance(value, str):
        return value if value.isprintable() else value.encode("unicode_escape").decode()
    number = isinstance(value, float) and name == "seconds"
    return f"{value}" if number and "e" not in f"{value}" else _json(value)


def _json(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()


def test_all_columns_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "captures.md").read_text()
    for messages, findings in ((False, False), (True, False), (False, True)):
        for name in columns(messages=messages, findings=findings):
            assert f"`{name}`" in page or f"`{name.partition('.')[0]}.…`" in page, name


def test_chosen_columns_and_a_selection(amqproxy: Amqproxy) -> None:
    chosen = amqproxy(
        "export", CONFIRMS, "--to", "-", "--format", "csv", "--fields", "from,method,arguments.queue",
        "--filter", "method.startsWith('queue.')", "--follow", "0/1",
    )  # fmt: skip
    assert chosen.out == (
        "from,method,arguments.queue\nclient,queue.declare,\nserver,queue.declare-ok,amq.gen-DZrBVypKwVIGu3n3T1hU_A\n"
    )


def test_a_page_is_written(tmp_path: Path, amqproxy: Amqproxy) -> None:
    out = tmp_path / "report.html"
    outcome = amqproxy("export", CONFIRMS, "--to", str(out), "--filter", "routing_key == 'nowhere'")
    assert (outcome.code, outcome.err) == (0, f"{out}: {len(out.read_bytes()):,} bytes\n")
    assert "<b>1</b><span>messages published</span>" in out.read_text()
    assert "--filter &#x27;routing_key == &#x27;&quot;&#x27;&quot;&#x27;nowhere&#x27;" in out.read_text()


def test_nothing_is_replaced_or_left_half_done(tmp_path: Path, amqproxy: Amqproxy) -> None:
    out = tmp_path / "out.csv"
    out.write_text("before")
    refused = amqproxy("export", CONFIRMS, "--to", str(out))
    assert (refused.code, refused.err) == (FAILED, f"amqproxy: export: {out} is there already: --force replaces it\n")
    damaged = tmp_path / "damaged.pcapng"
    damaged.write_bytes(Path(CONFIRMS).read_bytes()[:2000] + b"\xff" * 2000)
    failed = amqproxy("export", str(damaged), "--to", str(out), "--force")
    assert failed.code == FAILED
    unfollowed = amqproxy("export", CONFIRMS, "--to", str(out), "--force", "--follow", "nobody")
    assert unfollowed.code == FAILED
    assert "no connection is nobody" in unfollowed.err
    assert out.read_text() == "before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["damaged.pcapng", "out.csv"]
    assert amqproxy("export", CONFIRMS, "--to", str(out), "--force").code == 0
    assert out.read_text().startswith("time,")
    nowhere = amqproxy("export", CONFIRMS, "--to", str(tmp_path / "none" / "out.csv"))
    assert nowhere.code == FAILED
    assert "cannot be written: No such file or directory" in nowhere.err


def test_wrong_usage_is_said(tmp_path: Path, amqproxy: Amqproxy) -> None:
    for arguments, said in (
        (["--to", str(tmp_path / "a.txt"), CONFIRMS], "no suffix that names a format"),
        (["--to", str(tmp_path / "a.html"), "--messages", CONFIRMS], "are for tables, not for html"),
        (["--to", "-", "--format", "parquet", CONFIRMS], "is a binary format: name a file"),
        (["--to", str(tmp_path / "a.html"), "--leg", "both", CONFIRMS], "choose --leg client or upstream"),
        (["--to", str(tmp_path / "a.jsonl"), "--fields", "method", CONFIRMS], "is for CSV only"),
        (["--to", "-"], "name a capture"),
    ):
        outcome = amqproxy("export", *arguments)
        assert outcome.code == MISUSED
        assert said in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_standard_input_is_read_as_it_comes(amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    with Path(CONFIRMS).open("rb") as piped:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=piped))
        piped_out = amqproxy("export", "-", "--to", "-").out
    assert piped_out == amqproxy("decode", CONFIRMS, "--json").out


def test_an_asyncapi_document_is_yaml_or_json(tmp_path: Path, amqproxy: Amqproxy) -> None:
    as_yaml, as_json = tmp_path / "api.yaml", tmp_path / "api.json"
    assert amqproxy("export", "--asyncapi", CONFIRMS, "--to", str(as_yaml)).code == 0
    assert amqproxy("export", CONFIRMS, "--format", "asyncapi", "--to", str(as_json)).code == 0
    document = json.loads(as_json.read_text())
    assert document == yaml.safe_load(as_yaml.read_text())
    assert [each["address"] for each in document["channels"].values()] == ["amq.gen-{name}", "nowhere"]
    filtered = amqproxy("export", "--asyncapi", CONFIRMS, "--to", "-", "--filter", "routing_key == 'nowhere'")
    operations = yaml.safe_load(filtered.out)["operations"]
    assert list(operations) == ["guest-send-nowhere"]
    assert amqproxy("export", "--asyncapi", CONFIRMS, "--format", "csv", "--to", "-").code == MISUSED


def test_a_smaller_capture_decodes_to_what_was_selected(tmp_path: Path, amqproxy: Amqproxy) -> None:
    out = tmp_path / "smaller.pcapng"
    selection = ["--filter", "method.startsWith('queue.')", "--follow", "40257"]
    assert amqproxy("export", str(CAPTURES), "--to", str(out), *selection).code == FAILED  # all have that port
    selection = ["--filter", "method.startsWith('queue.')", "--follow", "54578/1"]
    assert amqproxy("export", str(CAPTURES), "--to", str(out), *selection).code == 0
    first, again = (
        [_but_for_the_number(line) for line in amqproxy("decode", "--json", *arguments).out.splitlines()]
        for arguments in ([str(CAPTURES), *selection], [str(out)])
    )
    assert first == again
    assert len(first) > 2


def _but_for_the_number(line: str) -> dict[str, object]:
    record: dict[str, object] = json.loads(line)
    return {name: value for name, value in record.items() if name not in ("stream", "offset")}


@pytest.mark.parametrize("options", [[], ["--messages"], ["--findings"], ["--body=10"]], ids=" ".join)
def test_parquet_has_the_rows_of_json(options: list[str], tmp_path: Path, amqproxy: Amqproxy) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "out.parquet"
    selection = ["--filter", "method.startsWith('basic.')", "--start", "+1", *options]
    if "--findings" in options:
        selection = options
    assert amqproxy("export", str(CAPTURES), "--to", str(out), *selection).code == 0
    rows = pq.read_table(out).to_pylist()
    lines = amqproxy("decode", str(CAPTURES), "--json", *selection).out.splitlines()
    assert [row["ts_ns"] for row in rows] == [json.loads(line)["ts_ns"] for line in lines]
    assert rows


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "pcapng", "html", "yaml", "json"])
def test_a_capture_may_have_any_name(suffix: str, tmp_path: Path, amqproxy: Amqproxy) -> None:
    capture = tmp_path / "\udcff <b>.pcapng"
    capture.write_bytes(Path(CONFIRMS).read_bytes())
    options = ["--asyncapi"] if suffix in ("yaml", "json") else []
    out = tmp_path / f"\udcfe.{suffix}"
    assert amqproxy("export", str(capture), "--to", str(out), *options).code == 0
    assert out.stat().st_size
    assert amqproxy("rules", "suggest", str(capture)).code == 0


@pytest.mark.parametrize("seconds", [-5, 253_402_300_799, 2**40, 2**64 - 60], ids=str)
@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "html", "pcapng", "yaml"])
def test_a_broken_clock_keeps_nothing_from_being_exported(
    seconds: int, suffix: str, tmp_path: Path, amqproxy: Amqproxy
) -> None:
    """Times before 1970, and those that no calendar has."""
    packets = list(read_packets(CONFIRMS))
    offset = building.option(14, min(seconds, 0).to_bytes(8, "little", signed=True))
    interface = building.interface(packets[0].link_type, options=building.option(9, b"\0") + offset)
    stamped = [building.enhanced(max(seconds, 0) + place // 4, each.data) for place, each in enumerate(packets)]
    capture, out = tmp_path / "capture.pcapng", tmp_path / f"out.{suffix}"
    capture.write_bytes(building.section() + interface + b"".join(stamped))
    tables = ["--messages"] if suffix in ("jsonl", "csv", "parquet") else []
    form = ["--asyncapi"] if suffix == "yaml" else []
    outcome = amqproxy("export", str(capture), "--to", str(out), *tables, *form)
    assert outcome.code == 0, outcome.err
    assert out.stat().st_size > 500
    if suffix == "pcapng":
        assert len(amqproxy("decode", str(out)).out.splitlines()) == len(amqproxy("decode", CONFIRMS).out.splitlines())
    if suffix == "html":
        evidence = amqproxy("rules", "suggest", str(capture)).out
        assert "first 2262" not in evidence
        assert " on #0 127.0.0.1:" in evidence


def test_csv_has_no_formulas(tmp_path: Path, amqproxy: Amqproxy) -> None:
    """A spreadsheet would evaluate them, and any publisher can send one."""
    names = ["=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1+1", "a=1", "plain"]
    dialogue = Dialogue()
    for name in names:
        dialogue.publish("", name, b"x")
    capture, out = tmp_path / "capture.pcapng", tmp_path / "out.csv"
    packets = ExportedPackets()
    capture.write_bytes(packets.begin("") + b"".join(packets.write(packets.see(dialogue.end()))))
    assert amqproxy("export", str(capture), "--to", str(out), "--messages").code == 0
    rows = [row for row in csv.DictReader(io.StringIO(out.read_text())) if row["type"] == "publish"]
    assert [row["routing_key"] for row in rows] == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\uff1d1+1", "a=1", "plain"]
    shown = amqproxy("decode", str(capture), "--messages", "--fields", "type,routing_key", "--separator", ",").out
    assert [line.partition(",")[2] for line in shown.splitlines() if line.startswith("publish")] == names


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "pcapng", "html"])
def test_frames_of_0_10_are_exported(suffix: str, tmp_path: Path, amqproxy: Amqproxy) -> None:
    file = tmp_path / f"frames.{suffix}"
    code, _, _ = amqproxy("export", str(recorded.capture(recorded.QPIDD)), "--to", str(file))
    assert code == 0
    data = file.read_bytes()
    if suffix == "parquet":
        import pyarrow.parquet as pq

        rows = pq.read_table(file)
        assert rows.num_rows == 169
        assert rows.column("method").to_pylist().count("message.transfer") == 12
    elif suffix != "pcapng":
        assert b"message.transfer" in data or b"published" in data
    else:
        first, again = (
            [_but_for_the_number(line) for line in amqproxy("decode", "--json", str(each)).out.splitlines()]
            for each in (recorded.capture(recorded.QPIDD), file)
        )
        assert first == again
