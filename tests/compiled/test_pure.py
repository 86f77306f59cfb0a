"""The choice between the compiled and the plain form of a module."""

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from amqproxy.compiled import _pure

NAME = "amqproxy.somewhere.wire"
OLD, NEW = 1_000_000_000, 1_000_000_001


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A module in both forms, the compiled one as new as the source."""
    for suffix in (".py", EXTENSION_SUFFIXES[0]):
        write(tmp_path, suffix, OLD)
    return tmp_path


def write(folder: Path, suffix: str, modified: int) -> None:
    path = folder / f"wire{suffix}"
    path.touch()
    os.utime(path, (modified, modified))


def finds_plain(folder: Path, name: str = NAME) -> bool:
    spec = _pure.PlainSourceFinder().find_spec(name, [str(folder)])
    assert spec is None or spec.origin == str(folder / "wire.py")
    return spec is not None


@pytest.mark.parametrize(("wish", "plain"), [(None, False), ("", False), ("0", False), ("1", True)])
def test_environment(folder: Path, monkeypatch: pytest.MonkeyPatch, wish: str | None, plain: bool) -> None:
    monkeypatch.delenv("AMQPROXY_PURE", raising=False)
    if wish is not None:
        monkeypatch.setenv("AMQPROXY_PURE", wish)
    assert finds_plain(folder) is plain


def test_only_this_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQPROXY_PURE", "1")
    assert not finds_plain(folder, "amqproxylike.wire")
    assert not finds_plain(folder, "wire")
    assert not finds_plain(folder, "amqproxy.somewhere.frames")


@pytest.mark.parametrize("checkout", [True, False])
def test_newer_source_wins_in_a_checkout(folder: Path, monkeypatch: pytest.MonkeyPatch, checkout: bool) -> None:
    monkeypatch.delenv("AMQPROXY_PURE", raising=False)
    monkeypatch.setattr(_pure, "_IN_CHECKOUT", checkout)
    write(folder, ".py", NEW)
    assert finds_plain(folder) is checkout
    write(folder, EXTENSION_SUFFIXES[0], NEW)
    assert not finds_plain(folder)


@pytest.mark.parametrize("suffix", [".py", ".pxd"])
def test_modules_that_share_types_are_stale_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.delenv("AMQPROXY_PURE", raising=False)
    monkeypatch.setattr(_pure, "_PACKAGE", folder)
    write(folder, ".pxd", OLD)
    other = folder / "other"
    other.mkdir()
    for each in (".py", ".pxd", EXTENSION_SUFFIXES[0]):
        write(other, each, OLD)
    assert not finds_plain(folder)

    _pure.shares_stale_types.cache_clear()
    write(other, suffix, NEW)
    assert finds_plain(folder)
    _pure.shares_stale_types.cache_clear()
    write(other, EXTENSION_SUFFIXES[0], NEW)
    assert not finds_plain(folder)
    (other / f"wire{EXTENSION_SUFFIXES[0]}").unlink()
    _pure.shares_stale_types.cache_clear()
    assert finds_plain(folder), "what is not compiled at all cannot be shared"


def test_is_compiled() -> None:
    assert _pure.is_compiled("msgspec._core")
    assert not _pure.is_compiled("amqproxy.compiled._pure")
