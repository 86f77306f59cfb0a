"""Files, variables and functions for rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amqproxy.configuration import resources
from amqproxy.configuration.resources import ConfigResources


def test_what_lies_beside_the_config_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    monkeypatch.setenv("UPSTREAM_PASSWORD", "other")
    found = ConfigResources(tmp_path)
    assert found.text("password") == "s3cret\n"
    assert found.text(str(tmp_path / "password")) == "s3cret\n"
    assert found.variable("UPSTREAM_PASSWORD") == "other"
    assert found.function("json:dumps") is json.dumps


def test_what_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "MAX_BYTES", 10)
    monkeypatch.delenv("UPSTREAM_PASSWORD", raising=False)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_text("x" * 11)
    found = ConfigResources(tmp_path)
    for call, argument, reason in (
        (found.text, "missing", "missing cannot be read: No such file"),
        (found.text, ".", "cannot be read: Is a directory"),
        (found.text, "binary", "binary is not text"),
        (found.text, "large", "large is larger than 10 bytes"),
        (found.variable, "UPSTREAM_PASSWORD", "no variable UPSTREAM_PASSWORD"),
        (found.function, "no_such_module:function", "cannot be imported"),
        (found.function, "json:no_such_function", "json has no function `no_such_function`"),
    ):
        with pytest.raises(ValueError, match=reason):
            call(argument)
