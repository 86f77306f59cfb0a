"""The stand-ins for Cython."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hatch_build
from amqproxy.compiled import _cython

ROOT = Path(__file__).parents[2]
SOURCES = [source for source in hatch_build.COMPILED if (ROOT / source).exists()]


@pytest.mark.parametrize("source", SOURCES)
def test_offers_what_the_source_uses(source: str) -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse((ROOT / source).read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cython"
    }
    assert used <= set(vars(_cython))


@pytest.mark.parametrize("source", SOURCES)
def test_no_index_is_negative(source: str) -> None:
    """Compiled, it would be a place before the start: bounds are not checked there."""
    indexes = [node for node in ast.walk(ast.parse((ROOT / source).read_text())) if isinstance(node, ast.Subscript)]
    negative = [
        f"{source}:{node.lineno}"
        for node in indexes
        if isinstance(node.slice, ast.UnaryOp) and isinstance(node.slice.op, ast.USub)
    ]
    assert negative == []


IMPORT_ALL = """
import importlib, sys
sys.modules["cython"] = None
for name in sys.argv[1:]:
    assert importlib.import_module(name).__file__.endswith(".py"), name
"""


def test_sources_run_without_cython() -> None:
    """In one process: to start one for each would take longer than all the rest here."""
    modules = [source.removesuffix(".py").replace("/", ".") for source in SOURCES]
    environment = os.environ | {"AMQPROXY_PURE": "1"}
    command = [sys.executable, "-W", "error", "-c", IMPORT_ALL, *modules]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def test_decorators_change_nothing() -> None:
    def function() -> None: ...

    for directive in (_cython.cfunc, _cython.ccall, _cython.inline, _cython.final, _cython.nogil):
        assert directive(function) is function
    for directive in (_cython.boundscheck(False), _cython.locals(x=_cython.int), _cython.exceptval(-1, check=True)):
        assert directive(function) is function
    assert _cython.cclass(Path) is Path


def test_blocks_let_exceptions_pass() -> None:
    with pytest.raises(ZeroDivisionError), _cython.nogil:
        1 / 0  # noqa: B018


def test_values_stay_what_they_are() -> None:
    octets = b"\xce"
    assert _cython.cast(_cython.p_const_uchar, octets) is octets
    assert _cython.cast(_cython.uchar, 0x1CE) == 0x1CE, "nothing wraps around"
    assert _cython.declare(_cython.uint, visibility="readonly") == 0
    assert _cython.declare(_cython.uint, 7) == 7
