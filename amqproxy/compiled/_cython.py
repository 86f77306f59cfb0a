"""Stand-ins for `cython`, so that the modules which may be compiled also run where Cython is not installed.

A source file begins with try: import cython except ImportError: from amqproxy import _cython as cython

and Cython, compiling it, takes every `cython.…` for its own. Here a decorator gives back what it was given, and a C
type is the Python type that stands for it: nothing wraps around or is checked, so the source must not rely on either.
"""

import builtins
from collections.abc import Callable
from typing import Any, Self, TypeAlias, TypeVar, overload

_T = TypeVar("_T")

compiled: builtins.bool = False

# --- C types

char: TypeAlias = builtins.int
schar: TypeAlias = builtins.int
uchar: TypeAlias = builtins.int
short: TypeAlias = builtins.int
ushort: TypeAlias = builtins.int
int: TypeAlias = builtins.int
uint: TypeAlias = builtins.int
long: TypeAlias = builtins.int
ulong: TypeAlias = builtins.int
longlong: TypeAlias = builtins.int
ulonglong: TypeAlias = builtins.int
size_t: TypeAlias = builtins.int
Py_ssize_t: TypeAlias = builtins.int
bint: TypeAlias = builtins.bool
float: TypeAlias = builtins.float
double: TypeAlias = builtins.float
void: TypeAlias = None
# A pointer into bytes is only ever indexed, and so it is the bytes.
p_char: TypeAlias = bytes
p_uchar: TypeAlias = bytearray
p_const_char: TypeAlias = bytes
p_const_uchar: TypeAlias = bytes


@overload
def cast(kind: type[_T], value: Any, typecheck: builtins.bool = ...) -> _T: ...
@overload
def cast(kind: object, value: _T, typecheck: builtins.bool = ...) -> _T: ...
def cast(kind: object, value: Any, typecheck: builtins.bool = False) -> Any:
    """Return `value` unchanged."""
    return value


def address(value: Any) -> Any:
    """Raise `NotImplementedError`: only compiled code takes addresses."""
    raise NotImplementedError


NULL: Any = None
"""The null pointer of C. Only compiled code has pointers."""


def sizeof(kind: Any) -> Any:
    """Raise `NotImplementedError`: only compiled code needs sizes."""
    raise NotImplementedError


def declare(kind: Callable[[], Any], value: Any = None, *, visibility: str = "private") -> Any:
    """Return `value`, or else the default value of `kind`; visibility has no effect."""
    return kind() if value is None else value


# --- directives: of a function or a class, with or without arguments, or of a block


def _unchanged(decorated: _T) -> _T:
    return decorated


cclass = cfunc = ccall = inline = final = internal = no_gc = _unchanged


def _with_arguments(*arguments: Any, **named: Any) -> Callable[[_T], _T]:
    return _unchanged


annotation_typing = auto_pickle = binding = boundscheck = cdivision = exceptval = freelist = infer_types = (
    _with_arguments
)
initializedcheck = locals = nonecheck = no_gc_clear = overflowcheck = profile = returns = wraparound = _with_arguments


class _Block:
    """`with cython.nogil:` and `@cython.nogil`."""

    def __call__(self, decorated: _T) -> _T:
        return decorated

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


nogil = gil = _Block()
