"""What would end a proxy or broker later: `config check` and the start report the same."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from amqproxy.app import preflight
from amqproxy.cli.failure import MISUSED
from amqproxy.configuration.config_file import load
from tests.cli.outcome import Amqproxy

LONG = "x" * 300

WRONG_FOR_THE_PROXY = {
    "limits: {initial_frame_max: 4294967296}": ("limits.initial_frame_max", "Expected `int` <= 4294967295"),
    "limits: {frame_max: 99999999999999999999}": ("limits.frame_max", "Expected `int` <= 4294967295"),
    "limits: {print_backlog: 9223372036854775808}": ("limits.print_backlog", "<= 9223372036854775807"),
    "limits: {connections: 0}": ("limits.connections", ">= 1"),
    "limits: {connect_timeout: .inf}": ("limits.connect_timeout", "not a finite number"),
    "broker: {limits: {frame_max: 4294967296}}": ("broker.limits.frame_max", "<= 4294967295"),
    "listen: [{address: ':0'}, {address: ':0', tls: {certificate: none.pem, key: none.pem}}]": (
        "listen[1].tls",
        "none.pem",
    ),
    "listen: [{address: ':0', tls: {certificate: text, key: text}}]": ("listen[0].tls", "not a certificate and its"),
    "listen: [{address: ':0', tls: {certificate: own.pem, key: own.pem, client_ca: text}}]": (
        "listen[0].tls",
        "no certificates in PEM",
    ),
    'listen: [{address: ":0", tls: {certificate: "a\\0", key: "b"}}]': ("listen[0].tls", "embedded null"),
    "listen: [{address: ':0', proxy_protocol: {networks: [10.0.0.0/40]}}]": (
        "listen[0].proxy_protocol",
        "`10.0.0.0/40` is neither an IP address nor a network",
    ),
    f"listen: [{{address: '{LONG}:0'}}]": ("listen[0].address", "cannot be a host's name"),
    "listen: [{address: 'a..b:0'}]": ("listen[0].address", "cannot be a host's name"),
    "listen: [{address: 'localhost:5673'}, {address: 'localhost:5673'}]": (
        "listen[1].address",
        "is already the address of listen[0]",
    ),
    "{listen: [{address: ':9419'}], metrics: {address: ':9419'}}": (
        "metrics.address",
        "is already the address of listen[0]",
    ),
    "metrics: {address: 'a..b:0'}": ("metrics.address", "cannot be a host's name"),
    "upstream: {tls: {ca: text}}": ("upstream.tls", "no certificates in PEM"),
    'upstream: {tls: {ca: "\\0"}}': ("upstream.tls", "no certificates in PEM"),
    "upstream: {tls: {server_name: '.x'}}": ("upstream.tls.server_name", "cannot be a host's name"),
    f"upstream: {{tls: {{server_name: '{LONG}'}}}}": ("upstream.tls.server_name", "cannot be a host's name"),
    "upstream: {address: 'a..b:5672'}": ("upstream.address", "cannot be a host's name"),
    "upstreams: {x: {password_file: none}}": ("upstreams.x.password_file", "cannot be read"),
    "upstreams: {x: {password_env: NO_SUCH_VARIABLE}}": ("upstreams.x.password_env", "no variable NO_SUCH_VARIABLE"),
    f"upstreams: {{x: {{password_file: text, vhost: '{LONG}'}}}}": ("upstreams.x.vhost", "limited to 255 bytes"),
    'upstreams: {x: {password_file: text, user: "a\\0b"}}': ("upstreams.x.user", "must not contain NUL"),
    "upstreams: {x: {password_file: text, tls: {ca: none}}}": ("upstreams.x.tls", "none: no certificates"),
    f"control: {{path: '{LONG}'}}": ("control.path", "limited to 107 bytes"),
    "control: {path: none/control}": ("control.path", "make it"),
    "control: {path: text}": ("control.path", "which is not a socket"),
    'control: {path: "a\\0"}': ("control.path", "must not contain NUL"),
    "{upstream: broker, broker: {management: {listen: 'a..b:0'}}}": (
        "broker.management.listen",
        "cannot be a host's name",
    ),
    "{upstream: broker, broker: {data: text}}": ("broker.data", "is not a directory"),
    "logins: {a: {users_file: nowhere}}": ("logins.a.users_file", "nowhere cannot be read: No such file"),
    "logins: {a: {users_file: bad.yaml}}": (
        "logins.a.users_file",
        "bad.yaml:1: users.b.password: it is not an argon2id",
    ),
    "logins: {a: {callback: {url: 'https://b/', ca: text}}}": ("logins.a.callback.ca", "has no certificates of"),
    "upstream: {login: {user: a, password_file: nowhere}}": ("upstream.login", "nowhere cannot be read: No such file"),
    "upstream: {login: {addon: nowhere}}": ("upstream.login", "no installed package has the tokens `nowhere`"),
}

WRONG_FOR_THE_BROKER = {
    "broker: {listen: [{address: ':0', tls: {certificate: none, key: none}}]}": ("broker.listen[0].tls", "none and"),
    "broker: {listen: [{address: ':0', proxy_protocol: {}}]}": ("broker.listen[0].proxy_protocol", "only listeners of"),
    "broker: {listen: [{address: 'a..b:0'}]}": ("broker.listen[0].address", "cannot be a host's name"),
    "broker: {listen: [{address: ':5672'}, {address: ':5672'}]}": ("broker.listen[1].address", "of broker.listen[0]"),
    "broker: {management: {listen: 'a..b:0'}}": ("broker.management.listen", "cannot be a host's name"),
    "broker: {management: {certificate: none, key: none}}": ("broker.management.certificate", "none and"),
    "broker: {management: {certificate: none}}": ("broker.management", "a `certificate` needs its `key`"),
    "broker: {data: text}": ("broker.data", "text is not a directory"),
    "broker: {data: text/below}": ("broker.data", "text is not a directory"),
    'broker: {data: "a\\0"}': ("broker.data", "must not contain NUL"),
    "broker: {definitions: none}": ("broker.definitions", "none: cannot be read: No such file"),
    "broker: {definitions: text}": ("broker.definitions", "Expecting value"),
    "broker: {definitions: list}": ("broker.definitions", "not an object"),
    "broker: {definitions: deep}": ("broker.definitions", "recursion"),
    "broker: {definitions: bad}": ("broker.definitions", "queues[0]"),
    "broker: {limits: {frame_max: 4095}}": ("broker.limits.frame_max", ">= 4096"),
    "broker: {limits: {heartbeat: 65536}}": ("broker.limits.heartbeat", "<= 65535"),
    "broker: {limits: {memory: 99999999999999999999}}": ("broker.limits.memory", "<= 9223372036854775807"),
    "broker: {limits: {disk_free: -1}}": ("broker.limits.disk_free", ">= 0"),
    "broker: {limits: {consumer_timeout: 0}}": ("broker.limits.consumer_timeout", "> 0"),
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("some text")
    (tmp_path / "list").write_text("[]")
    (tmp_path / "bad.yaml").write_text("users: {b: {password: plain}}")
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "bad").write_text('{"queues": [{"name": 1}]}')
    made = trustme.CA().issue_cert("localhost")
    made.private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")


def asked(amqproxy: Amqproxy, tmp_path: Path, text: str, command: str) -> tuple[str, str]:
    """The errors of `config check` and of the start of `command`, which both have to exit with 2."""
    file = tmp_path / "some.yaml"
    file.write_text(f"# a comment\n{text}\n")
    errors = []
    for arguments in (["config", "check", str(file)], [command, "--config", str(file)]):
        code, out, err = amqproxy(*arguments)
        assert (code, out) == (MISUSED, ""), err
        assert "Traceback" not in err
        assert err.startswith(f"amqproxy: {file}:2: ")
        errors.append(err)
    return errors[0], errors[1]


@pytest.mark.parametrize(("text", "expected"), WRONG_FOR_THE_PROXY.items())
def test_what_would_end_the_proxy(text: str, expected: tuple[str, str], amqproxy: Amqproxy, tmp_path: Path) -> None:
    checked, started = asked(amqproxy, tmp_path, text, "run")
    assert checked == started
    assert f": {expected[0]}: " in checked
    assert expected[1] in checked


@pytest.mark.parametrize(("text", "expected"), WRONG_FOR_THE_BROKER.items())
def test_what_would_end_the_broker(text: str, expected: tuple[str, str], amqproxy: Amqproxy, tmp_path: Path) -> None:
    checked, started = asked(amqproxy, tmp_path, text, "broker")
    assert checked == started
    assert f": {expected[0]}: " in checked
    assert expected[1] in checked


@pytest.mark.parametrize(
    "text",
    [
        "limits: {initial_frame_max: 4294967295, frame_max: 4294967295, print_backlog: 9223372036854775807}",
        "listen: [{address: '[::1]:0', tls: {certificate: own.pem, key: own.pem, client_ca: own.pem}}]",
        "{upstream: {tls: {server_name: localhost}}, upstreams: {x: {password_file: text, tls: {ca: own.pem}}}}",
        "{upstreams: {x: {password_file: text}, y: {password_file: text}}, rules: ["
        "{name: a, action: mirror, match: {method: basic.publish}, upstream: x},"
        "{name: b, action: mirror, match: {method: basic.publish}, upstream: y}]}",
        "{control: {path: control}, metrics: {address: ':0'}, listen: [{address: ':0'}, {address: ':0'}]}",
        "broker: {data: new/below, definitions: good, listen: [{tls: {certificate: own.pem, key: own.pem}}]}",
        "{upstream: broker, broker: {management: {}}}",
    ],
)
def test_what_is_fine(text: str, amqproxy: Amqproxy, tmp_path: Path) -> None:
    (tmp_path / "good").write_text('{"vhosts": [{"name": "/"}], "queues": [{"name": "q", "vhost": "/"}]}')
    file = tmp_path / "some.yaml"
    file.write_text(text)
    assert amqproxy("config", "check", str(file)) == (0, "", f"{file}: fine\n")
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "control").exists()


def test_upstreams_for_clients_may_have_logins(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("secret")
    file = tmp_path / "some.yaml"
    file.write_text(
        "{upstream: x, upstreams: {x: {password_file: text}, y: {password_file: text}}, switching: {state: s},"
        "routes: [{listener: ':0', upstream: y}]}"
    )
    preflight.check(load(file))


@pytest.mark.parametrize(
    "text",
    [
        "broker: {definitions: pipe}",
        "listen: [{address: ':0', tls: {certificate: own.pem, key: pipe}}]",
        "upstreams: {x: {password_file: pipe}}",
        "{upstream: {login: {user: a, password_file: pipe}}}",
    ],
)
def test_what_can_be_read_only_once_is_left_to_the_start(text: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    file = tmp_path / "some.yaml"
    file.write_text(text)
    preflight.check(load(file))


def test_who_may_not_write_cannot_keep_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access: Callable[..., bool] = lambda path, mode: False  # noqa: E731 - root may do anything
    monkeypatch.setattr(os, "access", access)
    file = tmp_path / "some.yaml"
    file.write_text("broker: {data: new/below}")
    with pytest.raises(preflight.PreflightError, match="no permission to write in"):
        preflight.check(load(file))


def test_opentelemetry_needs_its_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "amqproxy.yaml"
    file.write_text("{listen: [{address: ':0'}], opentelemetry: {}}")
    preflight.check(load(file))
    for missing in ("no_such_package", "opentelemetry.sdk.no_such_module", "no_such_package.below"):
        monkeypatch.setattr(preflight, "OPENTELEMETRY", ("opentelemetry.sdk.trace", missing))
        with pytest.raises(preflight.PreflightError) as raised:
            preflight.check(load(file))
        assert str(raised.value) == (
            f'opentelemetry: needs {missing}, which is not installed: run `pip install "amqproxy[otel]"`'
        )
