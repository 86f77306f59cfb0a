"""`amqproxy config`: what it finds wrong, and what it shows."""

from pathlib import Path

import jsonschema
import msgspec
import yaml

from amqproxy.cli.failure import MISUSED
from amqproxy.config import Config, load, parse
from tests.cli.outcome import Amqproxy


def test_config_check(amqproxy: Amqproxy, tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.yaml", tmp_path / "wrong.toml"
    right.write_text("limits: {connections: 5}")
    wrong.write_text("[limits]\nconections = 5\n")
    assert amqproxy("config", "check", str(right)) == (0, "", f"{right}: fine\n")
    code, out, err = amqproxy("config", "check", str(right), str(wrong))
    assert (code, out) == (MISUSED, "")
    assert err == f"{right}: fine\namqproxy: {wrong}:1: limits: unknown key `conections`: did you mean `connections`?\n"


def test_config_check_looks_at_certificates(amqproxy: Amqproxy, tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    for text in (
        "listen: [{tls: {certificate: bad.pem, key: bad.pem}}]",
        "broker: {listen: [{tls: {certificate: bad.pem, key: bad.pem}}]}",
        "upstream: {tls: {ca: bad.pem}}",
    ):
        file = tmp_path / "some.yaml"
        file.write_text(text)
        code, _, err = amqproxy("config", "check", str(file))
        assert code == MISUSED
        assert "bad.pem" in err
        assert "fine" not in err


def test_config_show_is_a_config_file_that_the_schema_takes(amqproxy: Amqproxy, tmp_path: Path) -> None:
    shown = amqproxy("config", "show").out
    assert parse(shown, Path("shown.yaml")) == Config()
    path = tmp_path / "some.toml"
    path.write_text('[metrics]\naddress = ":9419"\n[log]\nlevel = "debug"\n')
    again = amqproxy("config", "show", str(path)).out
    assert parse(again, Path("shown.yaml")) == load(path)
    schema = msgspec.json.decode(amqproxy("config", "schema").out)
    for text in (shown, again):
        jsonschema.validate(yaml.safe_load(text), schema)
