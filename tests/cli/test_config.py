"""`amqproxy config`: what it finds wrong, and what it shows."""

from pathlib import Path

import jsonschema
import msgspec
import trustme
import yaml

from amqproxy.cli.failure import MISUSED
from amqproxy.configuration.config import Config
from amqproxy.configuration.config_file import load, parse
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


def test_config_check_warns_of_who_clients_are_to_an_upstream_that_is_shown_a_certificate(
    amqproxy: Amqproxy, tmp_path: Path
) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("proxy.test")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "proxy.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for tls, warns in (("{ca: ca.pem}", False), ("{ca: ca.pem, certificate: proxy.pem}", True)):
        file = tmp_path / "some.yaml"
        file.write_text(f"upstream: {{tls: {tls}}}")
        code, out, err = amqproxy("config", "check", str(file))
        assert (code, out) == (0, "")
        assert err.endswith(f"{file}: fine\n")
        assert err.startswith(f"{file}: warning: upstream.tls.certificate: ") == warns
        assert ("EXTERNAL" in err) == warns


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
