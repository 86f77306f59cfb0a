"""From the arguments to the exit code: the one door through which failures leave."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import cyclopts

from amqproxy.cli.command import app
from amqproxy.cli.failure import FAILED, INTERRUPTED, MISUSED, UNHEARD, Failure


def main() -> None:
    """Run the command that the arguments name, and exit as the docstring of the package says."""
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        app(sys.argv[1:])
        sys.stdout.flush()
    except cyclopts.CycloptsError:
        return MISUSED
    except Failure as failure:
        print(f"amqproxy: {failure}", file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return UNHEARD
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT):
            raise
        _forget_output()
        print(f"amqproxy: the output cannot be written: {error.strerror}", file=sys.stderr)
        return FAILED
    except _wrong_config() as error:
        print(f"amqproxy: {error}", file=sys.stderr)
        return MISUSED
    return 0


def _wrong_config() -> type[Exception]:
    """`ConfigError`, which is imported only where something went wrong: what does not need the config starts sooner."""
    from amqproxy.config import ConfigError

    return ConfigError


def _forget_output() -> None:
    """Drop what is left of the output, so that Python does not trip over it once more at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
