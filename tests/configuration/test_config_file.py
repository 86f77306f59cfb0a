"""Config files: what is read, and errors with their place and a remedy."""

import math
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from amqproxy.configuration.config import Config, ConfigError, Limits, ListenerConfig, LogConfig, MetricsConfig
from amqproxy.configuration.config_file import dump, from_data, load, parse, read
from amqproxy.configuration.schema import schema
from amqproxy.configuration.tls_config import ClientTLS, ServerTLS
from amqproxy.configuration.upstream_config import UpstreamConfig

YAML = """
listen:
  - address: 0.0.0.0:5672
  - address: "[::]:5671"
    tls: {certificate: server.pem, key: server.key, client_ca: ca.pem}
upstream:
  address: rabbit.internal:5671
  tls: {ca: ca.pem, server_name: rabbit}
metrics: {address: ":9419"}
log: {format: json, level: warning}
limits: {connections: 5, drain_timeout: 2.5}
"""
TOML = """
[[listen]]
address = "0.0.0.0:5672"
[[listen]]
address = "[::]:5671"
tls = {certificate = "server.pem", key = "server.key", client_ca = "ca.pem"}
[upstream]
address = "rabbit.internal:5671"
tls = {ca = "ca.pem", server_name = "rabbit"}
[metrics]
address = ":9419"
[log]
format = "json"
level = "warning"
[limits]
connections = 5
drain_timeout = 2.5
"""
WHOLE = Config(
    listen=(
        ListenerConfig(address="0.0.0.0:5672"),
        ListenerConfig(
            address="[::]:5671", tls=ServerTLS(certificate="server.pem", key="server.key", client_ca="ca.pem")
        ),
    ),
    upstream=UpstreamConfig(address="rabbit.internal:5671", tls=ClientTLS(ca="ca.pem", server_name="rabbit")),
    metrics=MetricsConfig(address=":9419"),
    log=LogConfig(format="json", level="warning"),
    limits=Limits(connections=5, drain_timeout=2.5),
)


@pytest.mark.parametrize(("name", "text"), [("a.yaml", YAML), ("a.yml", YAML), ("a.toml", TOML)])
def test_files_of_either_kind(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert parse(text, path) == WHOLE
    assert load(path).limits == WHOLE.limits


@pytest.mark.parametrize("name", ["a.yaml", "a.toml"])
def test_an_empty_file_is_the_defaults(name: str) -> None:
    assert parse("", Path(name)) == Config()


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("limts: {}", "", "unknown key `limts`"),
        ("limits: {conections: 5}", "limits", "unknown key `conections`"),
        ("limits: {connections: 0}", "limits.connections", "Expected `int` >= 1"),
        ("limits: {connections: many}", "limits.connections", "Expected `int`, got `str`"),
        ("limits: {close_timeout: 0}", "limits.close_timeout", "Expected `float` > 0.0"),
        ("limits: {close_timeout: .nan}", "limits.close_timeout", "nan is not a finite number"),
        ("limits: {frame_max: 1}", "limits.frame_max", "Expected `int` >= 4096"),
        ("listen: []", "listen", "at least one"),
        ("listen: {address: 'a:1'}", "listen", "Expected `array`, got `object`"),
        ("listen: [{address: 'a:1'}, {address: b}]", "listen[1].address", "not of the form HOST:PORT, e.g. "),
        ("listen: [{address: 'a:65536'}]", "listen[0]", "address a:65536 has a port above 65535"),
        ("listen: [{tls: {certificate: a.pem}}]", "listen[0].tls", "missing key `key`"),
        ("metrics: {}", "metrics", "missing key `address`"),
        ("metrics: {address: 'a:65536'}", "metrics", "port above 65535"),
        ("opentelemetry: {endpoint: 'collector:4318'}", "opentelemetry.endpoint", "such as http://localhost:4318"),
        ("opentelemetry: {endpoint: 'http://'}", "opentelemetry.endpoint", "not the URL of a collector"),
        ("opentelemetry: {endpoint: 'http://a:b@c'}", "opentelemetry.endpoint", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("opentelemetry: {endpoint: 'http://c:66666'}", "opentelemetry", "Port out of range"),
        ("opentelemetry: {sample: 1.5}", "opentelemetry.sample", "Expected `float` <= 1.0"),
        ("opentelemetry: {sample: .nan}", "opentelemetry.sample", "nan is not a finite number"),
        ("opentelemetry: {service_name: ''}", "opentelemetry.service_name", "length >= 1"),
        ("upstream: {address: '::1:5672'}", "upstream.address", "[::1]:5672"),
        ("upstream: {address: ':5672'}", "upstream", "it needs a host and a port"),
        ("upstream: {address: 'rabbit:0'}", "upstream", "it needs a host and a port"),
        ("upstream: {tls: {key: a.key}}", "upstream.tls", "a key needs the certificate"),
        ("log: {level: loud}", "log.level", "'loud'"),
        ("[]", "", "Expected `object`, got `array`"),
        ("listen: [", "", "did not find expected node content"),
        ("limits: {connections: 1, connections: 2}", "", "the key 'connections' is here a second time"),
        ("broker: {dtaa: x}", "broker", "unknown key `dtaa`"),
        ("broker: {listen: [{address: b}]}", "broker.listen[0].address", "not of the form HOST:PORT"),
        ("broker: {limits: {memory: 0}}", "broker.limits.memory", "Expected `int` >= 1"),
        ("broker: {limits: {channel_max: 65536}}", "broker.limits.channel_max", "Expected `int` <= 65535"),
        ("broker: {certificate_login: dn}", "broker.certificate_login", "'dn'"),
    ],
)
def test_an_error_has_its_place(text: str, place: str, what: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text, Path("a.yaml"))
    shown = f"{place}: " if place else ""
    assert str(raised.value).startswith((f"a.yaml: {shown}", f"a.yaml:1: {shown}"))
    assert what in str(raised.value)


def test_toml_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"^a\.toml:2: "):
        parse("[listen]\nx y", Path("a.toml"))


def test_names_of_unknown_kind() -> None:
    with pytest.raises(ConfigError, match=r"^a\.json: the name must end in \.toml, \.yaml or \.yml"):
        parse("{}", Path("a.json"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: .*No such file"):
        load(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"\xe9")
    with pytest.raises(ConfigError, match=r"latin\.yaml: cannot be read: .*utf-8"):
        load(tmp_path / "latin.yaml")


@pytest.mark.parametrize("config", [Config(), WHOLE])
def test_what_is_shown_is_a_config_file(config: Config) -> None:
    assert parse(dump(config), Path("a.yaml")) == config


@pytest.mark.parametrize("shown", [dump(Config()), dump(WHOLE), YAML, "{}"])
def test_the_schema_takes_what_is_right(shown: str) -> None:
    jsonschema.validate(yaml.safe_load(shown), schema())
    jsonschema.validate(tomllib.loads(TOML), schema())


def test_yaml_may_merge() -> None:
    text = "limits: &a {connections: 5}\nbroker: {limits: {<<: *a, heartbeat: 9}}"
    assert parse(text, Path("a.yaml")).broker.limits.connections == 5


def test_the_brokers_files_are_looked_for_beside_the_config(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text(
        '[broker]\ndata = "data"\ndefinitions = "/d.json"\n'
        '[[broker.listen]]\naddress = "a:1"\ntls = { certificate = "a.pem", key = "a.key" }\n'
    )
    broker = load(file).broker
    assert (broker.data, broker.definitions) == (str(tmp_path / "data"), "/d.json")
    assert broker.listen[0].tls is not None
    assert broker.listen[0].tls.certificate == str(tmp_path / "a.pem")


@pytest.mark.parametrize("text", ["x: 2024-13-45", "x: " + "[" * 5000])
def test_what_yaml_cannot_make_sense_of_is_no_traceback(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(text, Path("x.yaml"))


def test_the_upstream_is_not_where_we_listen() -> None:
    with pytest.raises(ConfigError, match="which is a listener of this proxy"):
        parse('{listen: [{address: "127.0.0.1:1"}], upstream: {address: "127.0.0.1:1"}}', Path("x.yaml"))


def test_files_are_looked_for_beside_the_config(tmp_path: Path) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text("listen: [{tls: {certificate: a.pem, key: /b.pem}}]\nupstream: {tls: {ca: c.pem}}\n")
    config = load(file)
    assert config.listen[0].tls is not None
    assert (config.listen[0].tls.certificate, config.listen[0].tls.key) == (str(tmp_path / "a.pem"), "/b.pem")
    assert isinstance(config.upstream, UpstreamConfig)
    assert config.upstream.tls is not None
    assert config.upstream.tls.ca == str(tmp_path / "c.pem")


RULES = """
rules:
  - {name: login, action: rewrite, user: proxy, password_file: upstream-password}
  - {name: own, action: script, file: own.py, match: {method: basic.publish}}
"""


def test_what_rules_name_is_read_with_the_config_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "upstream-password").write_text("s3cret\n")
    (tmp_path / "own.py").write_text("def publish(command, context):\n    return None\n")
    (tmp_path / "a.yaml").write_text(RULES)
    config = load(tmp_path / "a.yaml")
    assert [rule.methods for rule in config.rules][1] == {"basic.publish"}
    assert "s3cret" not in dump(config) + repr(config)


@pytest.mark.parametrize(
    ("script", "what"),
    [
        (None, r"rules\[1\]: .*own.py cannot be read: No such file"),
        ("def publish(command):\n    return None\n", r"rules\[1\]: own.py:1: `publish` must take \(command, context\)"),
        ("def ack(command, context):\n    return None\n", r"rules\[1\].match: this action can do nothing"),
    ],
)
def test_errors_about_what_rules_refer_to(script: str | None, what: str, tmp_path: Path) -> None:
    (tmp_path / "upstream-password").write_text("s3cret\n")
    if script is not None:
        (tmp_path / "own.py").write_text(script)
    (tmp_path / "a.yaml").write_text(RULES)
    with pytest.raises(ConfigError, match=what):
        load(tmp_path / "a.yaml")


def test_the_control_socket_is_looked_for_beside_the_config(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[control]\npath = "here"\n')
    found = load(file).control
    assert found is not None
    assert found.path == str(tmp_path / "here")
    file.write_text('[control]\npath = "/run/there"\n')
    found = load(file).control
    assert found is not None
    assert found.path == "/run/there"
    file.write_text("[control]\n")
    with pytest.raises(ConfigError, match="control: missing key `path`"):
        load(file)


LONG = "x" * 256


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"action": "mirror", "exchange": LONG}, "exchange: the text has 256 bytes"),
        ({"action": "mirror", "exchange": "e", "routing_key": LONG}, "routing_key: the text has 256 bytes"),
        ({"action": "mirror", "routing_key": {"prefix": LONG}}, "routing_key: the text has 256 bytes"),
        ({"action": "mirror", "exchange": "e", "headers": {"set": {LONG: 1}}}, ""),
        ({"action": "rewrite", "exchange": LONG}, "256 bytes"),
        ({"action": "rewrite", "queue": {"to": LONG + "{user}"}}, "256 bytes"),
        ({"action": "rewrite", "queue": {"names": {"a": LONG}}}, "256 bytes"),
        ({"action": "rewrite", "headers": {"rename": {"a": LONG}}}, "256 bytes"),
        ({"action": "rewrite", "headers": {"set": {"a": 2**64}}}, ""),
        ({"action": "rewrite", "headers": {"at_most": {"a": math.nan}}}, "nan"),
        ({"action": "rewrite", "headers": {"at_most": {"a": 2**80}}}, ""),
        ({"action": "refuse", "text": LONG}, "text: the text has 256 bytes"),
        ({"action": "refuse", "text": "{user}" + LONG}, "text: the text has 256 bytes"),
        ({"action": "refuse", "code": 70_000}, "code"),
        ({"action": "refuse", "code": -1}, "code"),
        ({"action": "acl", "lines": "deny anyone to publish", "text": LONG}, "text: the text has 256 bytes"),
        (
            {"action": "limit", "of": "channels", "most": 1, "text": "x" * 250},
            "text: the text has 267 bytes, with `RESOURCE_ERROR - `",
        ),
        ({"action": "fault", "fault": {"kind": "return", "code": 70_000}}, "code"),
        ({"action": "fault", "fault": {"kind": "return", "code": -1}}, "code"),
        ({"action": "fault", "fault": {"kind": "return", "text": LONG}}, "256 bytes"),
        ({"action": "fault", "fault": {"kind": "close", "code": 406, "text": LONG}}, "bytes"),
        ({"action": "fault", "fault": {"kind": "block", "seconds": 1, "reason": LONG}}, "256 bytes"),
    ],
)
def test_what_rules_would_send_must_fit(tmp_path: Path, keys: dict[str, Any], key: str) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text(yaml.safe_dump({"rules": [{"name": "odd", **keys}]}))
    with pytest.raises(ConfigError, match="rules") as raised:
        load(file)
    assert key in str(raised.value)


def test_texts_must_be_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text('rules: [{name: odd, action: refuse, text: "\\ud800"}]')
    with pytest.raises(ConfigError, match=r"rules\[0\].text: contains characters that UTF-8 cannot encode"):
        from_data({"rules": [{"name": "odd", "action": "refuse", "text": "\ud800"}]}, file)
    with pytest.raises(ConfigError, match=r"proxy\.yaml:1: .*(Unicode|UTF-8)"):
        load(file)


def test_a_text_is_read_as_the_file_would_be(tmp_path: Path) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(TOML)
    assert read(TOML, path) == load(path)
    with pytest.raises(ConfigError, match=r"rules\.toml:1: upstream"):
        read("upstream = 7", Path("rules.toml"))


def test_data_is_read_as_a_file_with_it_would_be(tmp_path: Path) -> None:
    assert from_data(tomllib.loads(TOML), tmp_path / "proxy.toml") == read(TOML, tmp_path / "proxy.toml")
    assert from_data({"limits": {"memory": "1KiB"}}, Path("rules")).limits.memory == 1024
    with pytest.raises(ConfigError, match=r"^rules: upstream: "):
        from_data({"upstream": 7}, Path("rules"))


def test_tables_are_beside_the_config_or_in_a_bucket(tmp_path: Path) -> None:
    file = tmp_path / "amqproxy.yaml"
    for text, tables in (("tables", str(tmp_path / "tables")), ("s3://traffic/tables", "s3://traffic/tables")):
        file.write_text(f"dashboard: {{tables: {text}}}\n")
        config = load(file)
        assert config.dashboard is not None
        assert config.dashboard.tables == tables


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('upstream = "blue"', "upstream: there is no `blue`: it needs an [upstreams.blue]"),
        (
            'upstream = "a:5672"',
            'upstream: neither "broker" nor a name of [upstreams]; an address is written as upstream',
        ),
        ('[[listen]]\nupstream = "blue"', "listen[0].upstream: there is no `blue`: it needs an [upstreams.blue]"),
        ('[[routes]]\nupstream = "blue"', "routes[0].upstream: there is no `blue`: it needs an [upstreams.blue]"),
        (
            '[[routes]]\nupstream = "g"\nwhen = "user == \'a\'"',
            "routes[0].when: this is known only of clients that log in at the proxy",
        ),
        (
            '[upstreams.g]\nmembers = [{ address = "a:1" }, { address = "a:1" }]',
            "members[1].address: a:1 is a member already",
        ),
        (
            '[upstreams.g]\nmembers = [{ address = "a:1" }]\npassword_env = "P"\n'
            '[[rules]]\nname = "m"\naction = "mirror"\nmatch.method = "basic.publish"\nupstream = "g"',
            "copies go to one broker, and it is a group",
        ),
        ('[upstreams.g]\nmembers = [{ address = "a:1", wieght = 2 }]', "upstreams.g.members[0]: unknown key `wieght`"),
        ('[upstreams.g]\nmembers = [{ address = "a" }]', "upstreams.g.members[0].address: not of the form HOST:PORT"),
        ('[upstreams.g]\ncheck = { kind = "amqp" }', "check.user: an amqp check logs in"),
        ('[upstreams.g]\ncheck = { user = "u" }', "a `user` needs a `password_file` or a `password_env`"),
        ('[upstreams.g]\ncheck = { kind = "http", url = "ftp://a" }', "check.url: ftp://a does not begin with http://"),
        ('[upstreams.g]\nselection = "random"', "upstreams.g.selection: "),
        ('[upstreams.main]\n[[routes]]\nupstream = "main"', "upstreams.main: this is the name of [upstream]"),
        (
            '[upstreams.g]\n[[rules]]\nname = "m"\naction = "mirror"\nexchange = "x"\nupstream = "g"',
            "rules[0].upstream: [upstreams.g] takes no copies: it needs a `password_file` or a `password_env`",
        ),
    ],
)
def test_what_is_wrong_with_a_group_is_named(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text, Path("a.toml"))
    assert fault in str(raised.value)


def test_a_group_is_dumped_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        'upstream = "g"\n[upstreams.g]\nconnect_timeout = "200ms"\n'
        'check = { kind = "http", user = "u", password_file = "p" }\n'
        '[[upstreams.g.members]]\naddress = "a:1"\ntls = { ca = "ca.pem" }\n[[upstreams.g.members]]\naddress = "b:1"\n'
    )
    config = load(file)
    group = config.upstreams["g"]
    assert group.connect_timeout == 0.2
    assert group.members[0].tls is not None
    assert group.members[0].tls.ca == str(tmp_path / "ca.pem")
    assert group.check is not None
    assert group.check.password_file == str(tmp_path / "p")
    assert parse(dump(config), Path("a.yaml")) == config
