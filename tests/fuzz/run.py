"""Let atheris look for bytes that break `tests.fuzz.target`, or that of AMQP 0-10, for a bounded time.

    python tests/fuzz/run.py [--seconds 60] [--protocol 0-10]

The sources are run plain, because only those can be instrumented. What is found is kept under
build/fuzz: `corpus` for the next run, `crash-…` for the input of a failure, `log`. Exits with 1 when
there is one, with 2 when the run itself fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {"0-9-1": "", "0-10": "_0_10"}
"""What the names of each protocol's files end in."""
SUFFIX = os.environ.get("AMQPROXY_FUZZ", "")
DIRECTORY = ROOT / "build" / f"fuzz{SUFFIX}"
SAVED = Path(__file__).with_name(f"corpus{SUFFIX}.txt")
MAX_INPUT = 2048


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long to look")
    parser.add_argument(
        "--keep", action="store_true", help="put the smallest corpus that reaches as much in corpus.txt"
    )
    parser.add_argument("--protocol", choices=SUFFIXES, default="0-9-1", help="whose decoder is fuzzed")
    parser.add_argument("--only", metavar="FILE", help="try one input, as is kept of a failure")
    options = parser.parse_args()
    if SUFFIXES[options.protocol] != SUFFIX:  # the names above are for this process
        environment = os.environ | {"AMQPROXY_FUZZ": SUFFIXES[options.protocol]}
        return subprocess.call([sys.executable, *sys.argv], env=environment)
    if options.only:
        return subprocess.call(_command(options.only), env=_environment())
    corpus = _prepare()
    before = {path.name for path in DIRECTORY.glob("crash-*")}
    status, log = _fuzz(f"-max_total_time={options.seconds}", "-print_final_stats=1", str(corpus))
    crashes = sorted(path for path in DIRECTORY.iterdir() if _is_failure(path) and path.name not in before)
    _summarise(log, corpus, crashes)
    if options.keep and not crashes:
        _keep(corpus)
    return 1 if crashes else 2 if status else 0


def _fuzz(*arguments: str) -> tuple[int, str]:
    log = DIRECTORY / "log"
    with log.open("wb") as output:
        status = subprocess.call(_command(*arguments), env=_environment(), stdout=output, stderr=output)
    return status, log.read_text(errors="replace")


def _command(*arguments: str) -> list[str]:
    limits = (f"-max_len={MAX_INPUT}", "-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={DIRECTORY}/")
    return [sys.executable, __file__, "--here", *limits, *arguments]


def _environment() -> dict[str, str]:
    return os.environ | {"AMQPROXY_PURE": "1", "PYTHONPATH": str(ROOT)}


def _is_failure(path: Path) -> bool:
    return path.name.startswith(("crash-", "timeout-", "oom-"))


def _prepare() -> Path:
    """The corpus of earlier runs, with what is saved and the seeds."""
    sys.path.insert(0, str(ROOT))
    seeds = import_module(f"tests.fuzz.seeds{SUFFIX}").seeds
    corpus = DIRECTORY / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    saved = [bytes.fromhex(line) for line in SAVED.read_text().split()] if SAVED.exists() else []
    for number, entry in enumerate([*saved, *seeds()]):
        (corpus / f"seed-{number:04}").write_bytes(entry)
    return corpus


def _summarise(log: str, corpus: Path, crashes: list[Path]) -> None:
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", log)
    coverage = re.findall(r"cov: (\d+)", log)
    report = [
        f"{runs[1] if runs else 'an unknown number of'} inputs tried, {coverage[-1] if coverage else 0} places reached"
    ]
    report += [f"{sum(1 for _ in corpus.iterdir())} inputs kept in {corpus.relative_to(ROOT)}"]
    if crashes:
        report += [f"FAILED: {path.relative_to(ROOT)} (try it again with --only)" for path in crashes]
        report += ["", *log[log.find("=== Uncaught") :].splitlines()[:40]]
    else:
        report += ["nothing broke"]
    sys.stdout.write("\n".join(report) + "\n")


def _keep(corpus: Path) -> None:
    merged = DIRECTORY / "merged"
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir()
    _fuzz("-merge=1", str(merged), str(corpus))
    entries = sorted((path.read_bytes() for path in merged.iterdir()), key=lambda entry: (len(entry), entry))
    SAVED.write_text("".join(f"{entry.hex()}\n" for entry in entries))
    sys.stdout.write(f"{len(entries)} inputs saved in {SAVED.relative_to(ROOT)}\n")


def _here() -> None:
    """Be the process that fuzzes; libFuzzer ends it."""
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is missing: pip install atheris")
    import amqproxy  # noqa: F401 - so that its finder of plain sources is there for that of atheris to ask

    with atheris.instrument_imports(include=["amqproxy"]):
        check = import_module(f"tests.fuzz.target{SUFFIX}").check
    itself = " ".join(map(shlex.quote, (sys.executable, __file__, "--here")))  # to merge, it starts itself anew
    atheris.Setup([itself, *sys.argv[2:]], check)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        _here()
    else:
        sys.exit(main())
