"""`amqproxy config`: what it finds wrong, and what it shows."""

from pathlib import Path

import jsonschema
import msgspec
import pytest
import trustme
import yaml

from amqproxy.cli.failure import FAILED, MISUSED
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


def test_config_check_warns_of_proxy_headers_that_are_believed_from_everywhere(
    amqproxy: Amqproxy, tmp_path: Path
) -> None:
    file = tmp_path / "some.yaml"
    for given, warns in (("{}", True), ("{networks: [10.0.0.0/8]}", False)):
        file.write_text(f"listen: [{{address: ':0', proxy_protocol: {given}}}]")
        code, out, err = amqproxy("config", "check", str(file))
        assert (code, out) == (0, "")
        assert err.startswith(f"{file}: warning: listen[0].proxy_protocol: any client can claim") == warns


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


def test_variables_are_checked_and_shown(amqproxy: Amqproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = amqproxy("config", "check")
    assert (code, err) == (
        MISUSED,
        "amqproxy: config check: name a file, or set a variable such as AMQPROXY_LISTEN\n",
    )
    monkeypatch.setenv("AMQPROXY_LIMITS__CONNECTIONS", "5")
    file = tmp_path / "some.yaml"
    file.write_text("limits:\n  memory: 1MiB\n")
    shown = amqproxy("config", "show", str(file)).out
    assert "  connections: 5  # AMQPROXY_LIMITS__CONNECTIONS\n" in shown
    assert f"  memory: 1048576  # {file}:2\n" in shown
    assert amqproxy("config", "check") == (0, "", "environment: fine\n")
    monkeypatch.setenv("AMQPROXY_CONTROL", str(tmp_path / "none" / "amqproxy.sock"))
    code, _, err = amqproxy("config", "check", str(file))
    assert code == MISUSED
    assert err.startswith("amqproxy: AMQPROXY_CONTROL: control.path: ")


def test_the_command_line_comes_before_variables(amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQPROXY_LISTEN", "127.0.0.1:1")
    monkeypatch.setenv("AMQPROXY_UPSTREAM", "127.0.0.1:2")
    code, _, err = amqproxy("run", "--upstream", "127.0.0.1:1")
    assert code == MISUSED
    assert "127.0.0.1:1, which is a listener of this proxy" in err


def test_the_control_socket_may_be_named_by_a_variable(
    amqproxy: Amqproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMQPROXY_CONTROL", str(tmp_path / "amqproxy.sock"))
    code, _, err = amqproxy("control", "stats")
    assert code == FAILED
    assert str(tmp_path / "amqproxy.sock") in err


def test_the_file_may_be_named_by_a_variable(
    amqproxy: Amqproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = tmp_path / "some.yaml", tmp_path / "other.yaml"
    file.write_text(
        "control: {path: named.sock}\nlisten: [{address: '127.0.0.1:1'}]\nupstream: {address: '127.0.0.1:2'}"
    )
    other.write_text("control: {path: other.sock}")
    monkeypatch.setenv("AMQPROXY_CONFIG", str(file))
    assert amqproxy("config", "check").err == f"{file}: fine\n"
    assert f"path: {tmp_path}/named.sock  # {file}:1\n" in amqproxy("config", "show").out
    assert f"path: {tmp_path}/other.sock  # {other}:1\n" in amqproxy("config", "show", str(other)).out
    assert f"at {tmp_path}/named.sock" in amqproxy("control", "stats").err
    assert f"at {tmp_path}/other.sock" in amqproxy("control", "stats", "--config", str(other)).err
    assert f"at {tmp_path}/x.sock" in amqproxy("control", "stats", "--socket", str(tmp_path / "x.sock")).err
    assert "127.0.0.1:2, which is a listener" in amqproxy("run", "--listen", "127.0.0.1:2").err
