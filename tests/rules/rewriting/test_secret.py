"""Secrets do not show themselves."""

from __future__ import annotations

import json
import pickle

import msgspec
import pytest

from amqproxy.rules.rewriting.secret import Secret


def test_only_reveal_reveals() -> None:
    secret = Secret("s3cret")
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>10}", f"{[secret]}", "%s" % secret]  # noqa: UP031
    assert not any("s3cret" in text for text in shown)
    assert secret.reveal() == "s3cret"
    assert (secret == Secret("s3cret"), secret == Secret("other"), secret == "s3cret") == (True, False, False)
    assert hash(secret) == hash(Secret("s3cret"))


def test_it_is_never_written_down() -> None:
    for write in (pickle.dumps, json.dumps, msgspec.json.encode):
        with pytest.raises(TypeError):
            write(Secret("s3cret"))
