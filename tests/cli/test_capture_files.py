"""Captures that a command names."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from amqproxy.capture.decode import read_decoded
from amqproxy.cli.capture_files import CaptureFiles
from amqproxy.cli.failure import MISUSED, Failure
from tests.capture import golden

CONFIRMS = golden.FOLDER / "confirms.pcapng"


def test_standard_input_is_read_as_often_as_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.write(write, CONFIRMS.read_bytes())
    os.close(write)
    with os.fdopen(read, "rb") as piped:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=piped))
        with CaptureFiles("test", [Path("-")], read_again=True) as files:
            assert files.names == ["standard input"]
            found = [[type(each) for each in files.decoded()] for _ in range(2)]
    expected = [type(each) for each in read_decoded(CONFIRMS)]
    assert found == [expected, expected]


def test_warnings_are_printed_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(CONFIRMS.read_bytes()[:-10])
    with CaptureFiles("test", [cut], read_again=True) as files:
        for _ in range(3):
            assert list(files.decoded())
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(("names", "said"), [([], "test: name a capture"), (["--odd"], "write ./--odd")])
def test_wrong_names_are_said(names: list[str], said: str) -> None:
    with pytest.raises(Failure, match=said) as failure:
        CaptureFiles("test", [Path(each) for each in names])
    assert failure.value.code == MISUSED


def test_what_cannot_be_read_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failure, match="cannot be opened"), CaptureFiles("test", [tmp_path / "none"]) as files:
        list(files.decoded())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"rubbish")))
    with pytest.raises(Failure, match="it is no capture"), CaptureFiles("test", [Path("-")]) as files:
        list(files.decoded())
