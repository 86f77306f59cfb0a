"""Compiles the hot modules with Cython while hatchling builds, where there is a C compiler.

They are plain Python, and stay it: without a compiler, or with `AMQPROXY_COMPILE=0`, the package is built pure, and one
line explains why. With `AMQPROXY_COMPILE=1` that is a failure instead.

In an editable install the compiled modules lie beside their sources; `python hatch_build.py` brings them up to date.
"""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Every module that may be compiled, in pure Python mode.
COMPILED = (
    "amqproxy/amqp091/wire.py",
    "amqproxy/amqp091/frame.py",
    "amqproxy/amqp091/tally.py",
    "amqproxy/amqp091/pass_cache.py",
    "amqproxy/amqp091/frame_reader.py",
    "amqproxy/amqp091/commands.py",
    "amqproxy/broker/connection/channel.py",
    "amqproxy/broker/connection/client_connection.py",
    "amqproxy/broker/connection/deliveries.py",
    "amqproxy/broker/connection/output.py",
    "amqproxy/broker/connection/publisher.py",
    "amqproxy/broker/connection/unacked.py",
    "amqproxy/broker/dead_letter_publisher.py",
    "amqproxy/broker/events.py",
    "amqproxy/broker/message.py",
    "amqproxy/broker/queues/backlog.py",
    "amqproxy/broker/queues/consumer.py",
    "amqproxy/broker/queues/queue.py",
    "amqproxy/broker/queues/round_robin.py",
    "amqproxy/broker/router.py",
    "amqproxy/broker/unsent_bytes.py",
    "amqproxy/broker/vhost.py",
    "amqproxy/broker/work.py",
    "amqproxy/capture/frame_resync.py",
    "amqproxy/capture/packets.py",
    "amqproxy/capture/reassembly.py",
    "amqproxy/capture/conversation.py",
    "amqproxy/taps/metering/distribution.py",
    "amqproxy/taps/metering/message_counts.py",
    "amqproxy/taps/metering/open_messages.py",
    "amqproxy/taps/metering/channel_meter.py",
    "amqproxy/taps/metering/channel_meters.py",
    "amqproxy/taps/metering/message_meter.py",
)

# The sources check every bound themselves, since they have to name the offset of what is wrong.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}


class CompileHook(BuildHookInterface[Any]):
    """What hatchling calls, before it builds a wheel or an editable one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        into = root if version == "editable" else root / "build" / "compiled"
        modules = compile_or_explain(root, into)
        if modules and version != "editable":
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"].update({str(module): str(module.relative_to(into)) for module in modules})


def compile_or_explain(root: Path, into: Path) -> list[Path]:
    """The compiled modules, up to date under `into`; none, with a line that explains why, where that is impossible."""
    wish = os.environ.get("AMQPROXY_COMPILE", "")
    if wish == "0":
        return _stay_pure("AMQPROXY_COMPILE=0", into)
    try:
        return compile_modules(root, into)
    # Whatever a compiler and two build tools may raise, the answer is the same.
    except (Exception, SystemExit) as problem:
        if wish == "1":
            raise
        return _stay_pure(f"{type(problem).__name__}: {problem}", into)


def compile_modules(root: Path, into: Path) -> list[Path]:
    """Compile what is stale, and return every compiled module, as files under `into`."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    class BuildExtensions(build_ext):  # type: ignore[misc]
        """Says which module is being compiled: all of them take a minute or two."""

        def build_extension(self, extension: Extension) -> None:
            built = Path(self.get_ext_fullpath(extension.name))
            if not built.exists() or any(
                Path(each).stat().st_mtime > built.stat().st_mtime for each in extension.sources
            ):
                place = self.extensions.index(extension) + 1
                print(f"amqproxy: compiling {place} of {len(self.extensions)}: {extension.name}", file=sys.stderr)
            super().build_extension(extension)

    sources = [source for source in COMPILED if (root / source).is_file()]
    before = Path.cwd()
    os.chdir(root)  # both tools name what they write for the path they were given
    try:
        extensions = [
            Extension(source.removesuffix(".py").replace("/", "."), [source], extra_compile_args=["-O3", "-g0"])
            for source in sources
        ]
        print("amqproxy: bringing the compiled modules up to date", file=sys.stderr)
        extensions = cythonize(
            extensions,
            build_dir="build",
            compiler_directives=DIRECTIVES,
            nthreads=os.cpu_count(),
            quiet=True,
            show_all_warnings=False,
        )
        command = BuildExtensions(Distribution({"name": "amqproxy", "ext_modules": extensions}))
        command.build_lib = str(into)
        command.build_temp = "build"
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
        return [Path(output) for output in command.get_outputs()]
    finally:
        os.chdir(before)


def _stay_pure(reason: str, into: Path) -> list[Path]:
    print(f"amqproxy: built without compiled modules ({' '.join(reason.split())})", file=sys.stderr)
    for source in COMPILED:  # what an earlier build left in place is not to be loaded
        for suffix in EXTENSION_SUFFIXES:  # of this interpreter: another one may keep others
            (into / source).with_suffix(suffix).unlink(missing_ok=True)
    return []


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    compile_or_explain(here, here)
