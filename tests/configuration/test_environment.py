"""Environment variables: each key has one, and those that set none are found."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from amqproxy.configuration.config import Config, ConfigError
from amqproxy.configuration.config_file import dump, load, sources
from amqproxy.configuration.environment import PREFIX, variables_of, with_environment
from amqproxy.configuration.upstream_config import UpstreamConfig

FILE = """
[[listen]]
address = "127.0.0.1:5001"
[[listen]]
address = "127.0.0.1:5002"
[metrics]
address = "127.0.0.1:9000"
by = ["queue"]
[upstreams."far-away"]
address = "far:5672"
password_env = "FAR"
[[rules]]
name = "no deletes"
action = "refuse"
match = { method = "queue.delete" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "amqproxy.toml"
    path.write_text(FILE)
    return path


def loaded(path: Path | None = None, **environment: str) -> Config:
    return load(path, {PREFIX + name: text for name, text in environment.items()})


def test_no_two_keys_have_the_same_variable() -> None:
    names = [variable for variable, _ in variables_of(Config)]
    assert len(set(names)) == len(names) > 120
    assert all(re.fullmatch(r"AMQPROXY_[A-Z]+(_?[A-Z0-9]+|__)*", name) for name in names)


def test_each_value_can_be_set_by_its_variable() -> None:
    """Every key of the config is set to its default, as `config show` prints it, and to nothing else."""
    sections = "metrics: {address: ':1'}, record: {directory: a}, control: {path: b}, dashboard: {}, opentelemetry: {}"
    shown = msgspec.yaml.decode(dump(load_text(f"{{{sections}}}")))
    variables = {key: variable for variable, key in variables_of(Config)}
    count = 0
    for key, value in leaves(shown, ""):
        variable = variables[key]
        data, by_path = with_environment(Config, {}, {variable: spelt(value)})
        assert list(by_path.values()) == [variable]
        if value not in ("", [], {}):
            assert (key, value) in list(leaves(data, "")), variable
            count += 1
    assert count > 70


def load_text(text: str) -> Config:
    return msgspec.convert(msgspec.yaml.decode(text), Config)


def leaves(data: Any, key: str) -> list[tuple[str, Any]]:
    """The scalars and lists of scalars by their keys; lists of tables have one table here."""
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return leaves(data[0], key)
    if isinstance(data, dict) and data:
        return [found for name, each in data.items() for found in leaves(each, f"{key}.{name}".lstrip("."))]
    return [(key, data)]


def spelt(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value) or "[]"
    if isinstance(value, bool | dict) or value is None:
        return msgspec.json.encode(value).decode()
    return str(value) or '""'


def test_variables_come_before_the_file(file: Path) -> None:
    config = loaded(
        file,
        LISTEN__1__ADDRESS="127.0.0.1:6002",
        LISTEN__2__ADDRESS="[::1]:6003",
        UPSTREAM="rabbit:5672",
        UPSTREAM__PROXY_PROTOCOL="true",
        METRICS=":9419",
        LIMITS__DRAIN_TIMEOUT="2m",
        LIMITS__MEMORY="64MiB",
        UPSTREAMS__FAR_AWAY__USER="copies",
        UPSTREAMS__NEAR='{"address": "near:5672", "password_env": "NEAR"}',
        RULES__0__MODE="shadow",
        RECORD__DIRECTORY="recordings",
        RECORD__TOTAL_SIZE="null",
        LOG__LEVEL="",
    )
    assert [each.address for each in config.listen] == ["127.0.0.1:5001", "127.0.0.1:6002", "[::1]:6003"]
    assert config.upstream == UpstreamConfig(address="rabbit:5672", proxy_protocol=True)
    assert config.metrics is not None
    assert (config.metrics.address, config.metrics.by) == (":9419", ("queue",))
    assert (config.limits.drain_timeout, config.limits.memory) == (120.0, 64 << 20)
    assert {name: each.user for name, each in config.upstreams.items()} == {"far-away": "copies", "near": "guest"}
    assert [(rule.name, rule.mode) for rule in config.rules] == [("no deletes", "shadow")]
    assert config.record is not None
    assert (Path(config.record.directory), config.record.total_size) == (file.parent / "recordings", None)


def test_a_whole_list_replaces_that_of_the_file(file: Path) -> None:
    config = loaded(file, LISTEN="127.0.0.1:1,[::1]:2", METRICS__BY="user, vhost", UPSTREAM="broker")
    assert [each.address for each in config.listen] == ["127.0.0.1:1", "[::1]:2"]
    assert config.metrics is not None
    assert (config.metrics.by, config.upstream) == (("user", "vhost"), "broker")
    rules = '[{"name": "all", "action": "log", "text": "seen"}]'
    assert [rule.name for rule in loaded(RULES=rules).rules] == ["all"]


def test_without_a_file_paths_are_relative_to_the_working_directory() -> None:
    config = loaded(CONTROL="amqproxy.sock", LISTEN="[::1]:5673")
    assert config.control is not None
    assert (config.control.path, config.listen[0].address) == ("amqproxy.sock", "[::1]:5673")
    assert load(None, {"PATH": "/bin", "AMQP_URL": "x"}) == Config()


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("LIMITS__CONECTIONS", "5", "there is no such key: did you mean AMQPROXY_LIMITS__CONNECTIONS?"),
        ("LIMITS_CONNECTIONS", "5", "there is no such key: did you mean AMQPROXY_LIMITS__CONNECTIONS?"),
        ("METRICS_ADDRESS", ":1", "there is no such key: did you mean AMQPROXY_METRICS__ADDRESS?"),
        ("LISTEN_1_TLS_KEY", "a", "there is no such key: did you mean AMQPROXY_LISTEN__0__TLS__KEY?"),
        ("LISTNE", "127.0.0.1:1", "there is no such key: did you mean AMQPROXY_LISTEN?"),
        ("NOTHING__AT_ALL", "5", "there is no such key: see `amqproxy config show`"),
        ("LIMITS__CONNECTIONS", "many", "limits.connections: Expected `int`, got `str`"),
        ("LIMITS__DRAIN_TIMEOUT", "2 fortnights", "limits.drain_timeout: "),
        ("LISTEN", "nowhere", "listen[0].address: not of the form HOST:PORT"),
        ("METRICS", "nowhere", "metrics.address: not of the form HOST:PORT"),
        ("LOG__LEVEL", "loud", "log.level: "),
        ("LISTEN__3__ADDRESS", "127.0.0.1:1", "3 is not the next item: that is 0"),
        ("BROKER", "127.0.0.1:1", "a section: add __LISTEN or another of its keys to the name, or set JSON"),
        ("UPSTREAMS", "a:1", "a table: add __ and a key to the name, or set JSON"),
        ("RULES", "[{name: all}]", "not valid JSON: "),
        ("RULES", '[{"name": "all", "action": "lgo"}]', "rules[0].action: Invalid value 'lgo': did you mean `log`?"),
    ],
)
def test_a_wrong_one_is_named_with_a_remedy(name: str, text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(**{name: text})
    assert str(raised.value).startswith(f"AMQPROXY_{name}: {fault}")


def test_variables_that_are_no_keys_are_left_alone() -> None:
    """Variables of the build and the tests, and those of Kubernetes for a service named amqproxy."""
    others = ("PURE", "COMPILE", "PASSWORD", "PAGE", "SBOM", "IMAGE", "PROGRESS", "COMMAND", "TEST_PUMP", "TESTS_CACHE")
    service = ("SERVICE_HOST", "SERVICE_PORT_AMQP", "PORT", "PORT_5672_TCP", "PORT_5672_TCP_ADDR", "METRICS_PORT")
    assert (
        loaded(**dict.fromkeys((*others, *service, "UPSTREAM_SERVICE_HOST", "_X_PORT"), "tcp://10.0.0.1:1")) == Config()
    )


def test_no_variable_of_ours_is_taken_for_a_key() -> None:
    root = Path(__file__).parent.parent.parent
    sources_ = [*(root / "amqproxy").rglob("*.py"), root / "hatch_build.py", root / "Makefile", root / "compose.yaml"]
    named = {name for each in sources_ for name in re.findall(r"AMQPROXY_[A-Z]+(?:_[A-Z]+)*\b(?!_)", each.read_text())}
    keys = {variable for variable, _ in variables_of(Config)}
    assert len(named - keys) > 5
    assert load(None, dict.fromkeys(named - keys, "1")) == Config()


def test_the_source_of_each_value_is_known(file: Path) -> None:
    environment = {"AMQPROXY_METRICS": ":9419", "AMQPROXY_RECORD": "recordings"}
    found = sources(file, environment)
    assert found["listen", 1, "address"] == f"{file}:5"
    assert found["metrics", "by", 0] == f"{file}:8"
    assert found["metrics", "address"] == "AMQPROXY_METRICS"
    shown = dump(load(file, environment), found).splitlines()
    assert f"- address: 127.0.0.1:5002  # {file}:5" in shown
    assert "  address: :9419  # AMQPROXY_METRICS" in shown
    assert "  connections: 10000" in shown
    assert load_text("\n".join(shown)) == load(file, environment)


def test_a_comment_is_no_part_of_a_text_of_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "amqproxy.yaml"
    texts = '"one\\n\\ntwo #"', "long " * 60
    path.write_text("rules:\n" + "".join(f"- {{name: no {len(each)}, action: log, text: {each}}}\n" for each in texts))
    assert load_text(dump(load(path), sources(path))) == load(path)


def test_the_environment_of_the_process_is_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQPROXY_THREADS", "0")
    assert load(None).threads == 0
    assert "AMQPROXY_THREADS" in os.environ
