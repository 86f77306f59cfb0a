"""`amqproxy readiness`."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from amqproxy.amqp091.methods import BasicQos, BasicQosOk, QueueDeclare, QueueDeclareOk
from amqproxy.amqp091.wire import Table
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.readiness import readiness
from amqproxy.rules.bridge import bridge_rules
from tests.export.dialogue import Dialogue
from tests.pipeline.captures_by_hand import capture_of


def capture(folder: Path, *, version: int = 2) -> Path:
    """A capture in which user shop declares a queue of that version, and a transient one."""
    arguments = Table({"x-queue-version": version})
    made = Dialogue("shop").client(QueueDeclare(queue="orders", durable=True, arguments=arguments))
    made.server(QueueDeclareOk("orders", 0, 0)).declare("transient")
    made.client(BasicQos(prefetch_count=5, global_=True)).server(BasicQosOk())
    file = folder / "traffic.pcapng"
    file.write_bytes(capture_of(made))
    return file


def test_a_client_that_would_break_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "rules.toml"
    with pytest.raises(Failure, match=r"not ready for RabbitMQ 4\.3") as failure:
        readiness(capture(tmp_path, version=1), json=True, write_rules=rules)
    assert failure.value.code == 1
    report = json.loads(capsys.readouterr().out)
    assert [(each["kind"], each["level"], each["user"]) for each in report["uses"]] == [
        ("rabbitmq4-queue-version", "breaks", "shop"),
        ("rabbitmq4-global-qos", "changes", "shop"),
        ("rabbitmq4-transient-queue", "deprecated", "shop"),
    ]
    assert report["connections"] == 1
    names = {each["name"] for each in tomllib.loads(rules.read_text())["rules"]}
    assert names >= {each["kind"] for each in report["uses"]}
    assert names <= {each.name for each in bridge_rules("rabbitmq-4")}


def test_an_installation_that_is_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readiness(capture(tmp_path))
    assert capsys.readouterr().out.startswith("Ready for RabbitMQ 4.3: 0 would break, 1 would change, 1 deprecated.")


def test_a_denied_feature_breaks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "rabbitmq.conf"
    config.write_text("deprecated_features.permit.transient_nonexcl_queues = false\n")
    with pytest.raises(Failure):
        readiness(capture(tmp_path), config=config, html=True)
    assert "neither durable nor exclusive" in capsys.readouterr().out


def test_definitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"policies": [{"name": "ha", "vhost": "/", "definition": {"ha-mode": "all"}}]}))
    with pytest.raises(Failure):
        readiness(definitions=file)
    assert "policy ha in vhost / has ha-mode" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("name captures", {}),
        ("known versions are 4.0, 4.3", {"target": "3.13", "definitions": Path("x")}),
        ("No such file", {"definitions": Path("/nowhere")}),
        ("not both", {"json": True, "html": True}),
        ("--last is for --tables", {"last": "4w", "definitions": Path("x")}),
    ],
)
def test_bad_input(text: str, given: dict[str, object]) -> None:
    with pytest.raises(Failure, match=text) as failure:
        readiness(**given)  # type: ignore[arg-type]
    assert failure.value.code == MISUSED


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "truncated"),
        (b"\0\0", "malformed"),
        (b"\x1f\x8b\x08\0", "malformed"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b"[]", "is a JSON object"),
        (b'{"queues": {}}', "is a list of objects"),
        (b'{"queues": [1]}', "is a list of objects"),
        (b'{"queues": [{"name": "\xe9"}]}', "(?i)utf-8"),
    ],
)
def test_files_that_are_not_definitions(data: bytes, text: str, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_bytes(data)
    with pytest.raises(Failure, match=text) as failure:
        readiness(definitions=file)
    assert failure.value.code == MISUSED


def test_files_may_begin_with_a_byte_order_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, definitions = tmp_path / "rabbitmq.conf", tmp_path / "definitions.json"
    config.write_text("deprecated_features.permit.transient_nonexcl_queues = false\n", encoding="utf-8-sig")
    definitions.write_text('{"queues": [{"name": "q", "durable": false}]}', encoding="utf-8-sig")
    with pytest.raises(Failure, match="not ready"):
        readiness(config=config, definitions=definitions)
    assert "queue q is defined neither durable nor exclusive" in capsys.readouterr().out


def test_spark_is_imported_for_tables_alone(tmp_path: Path) -> None:
    script = "import sys; from amqproxy.cli.readiness import readiness; readiness(sys.argv[1]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script, capture(tmp_path)], capture_output=True, text=True, check=True)
    assert "amqproxy.readiness" in done.stdout
    assert "pyspark" not in done.stdout
    assert "duckdb" not in done.stdout
