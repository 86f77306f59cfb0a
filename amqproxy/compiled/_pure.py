"""Choose between the compiled and the plain form of a module, where a package holds both.

Python prefers the compiled one. The plain source is preferred with `AMQPROXY_PURE=1` in the environment and, in a
checkout, when the source is newer: so an edit always takes effect.

Modules with a `.pxd` beside them share C types, so all of those are loaded in one form: compiled, or, when one of them
was edited, plain.
"""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

_PACKAGE = Path(__file__).parent.parent
# Installers write files in any order, so only in a checkout does "newer" mean "edited".
_IN_CHECKOUT = (_PACKAGE.parent / "hatch_build.py").is_file()


def is_asked_for() -> bool:
    """Whether the environment asks for the plain sources."""
    return os.environ.get("AMQPROXY_PURE", "0") not in ("", "0")


def is_compiled(module: str = "amqproxy.amqp091.frame_reader") -> bool:
    """Whether importing `module`, by default the frame scanner, gives its compiled form."""
    spec = find_spec(module)
    return spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))


SLOW = (
    "many times slower than the compiled form: install a C compiler and Python's headers "
    "(apt-get install gcc libc6-dev python3-dev), then pip install --force-reinstall --no-cache-dir amqproxy, "
    "or the path or URL that it was installed from"
)
"""Description of the plain form, with the remedy."""


def is_slow() -> bool:
    """Whether the plain form runs though nobody has asked for it."""
    return not is_asked_for() and not is_compiled()


def compiled_sibling(source: Path) -> Path | None:
    """The compiled module beside `source` that this interpreter would load, if there is one."""
    candidates = (source.with_suffix(suffix) for suffix in EXTENSION_SUFFIXES)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def is_stale(source: Path) -> bool:
    """Whether `source`, or a module sharing C types with it, was edited after compilation; false outside a checkout."""
    if not _IN_CHECKOUT:
        return False
    if source.with_suffix(".pxd").is_file():
        return shares_stale_types(_PACKAGE)
    compiled = compiled_sibling(source)
    return compiled is not None and source.stat().st_mtime > compiled.stat().st_mtime


@cache
def shares_stale_types(package: Path) -> bool:
    """Whether one of the package's modules with a `.pxd` is not compiled, or was edited since; once per run."""
    for types in package.rglob("*.pxd"):
        compiled = compiled_sibling(types)
        edited = max(types.stat().st_mtime, types.with_suffix(".py").stat().st_mtime)
        if compiled is None or edited > compiled.stat().st_mtime:
            return True
    return False


class PlainSourceFinder(MetaPathFinder):
    """Import finder that prefers the plain source of a module of this package where `is_asked_for` or `is_stale`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package.partition(".")[0] != __name__.partition(".")[0]:
            return None
        for folder in path or ():
            source = Path(folder, name + ".py")
            if source.is_file() and (is_asked_for() or is_stale(source)):
                return spec_from_file_location(fullname, source)
        return None


def install() -> None:
    """Put the finder before Python's own, if it can ever apply."""
    if is_asked_for() or _IN_CHECKOUT:
        sys.meta_path.insert(0, PlainSourceFinder())
