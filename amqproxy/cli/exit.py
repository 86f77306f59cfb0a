"""Exit of the command: runs it and turns its failures into exit codes."""

from __future__ import annotations

import errno
import sys

import cyclopts

from amqproxy.cli.addon_commands import add_addon_commands
from amqproxy.cli.command import app
from amqproxy.cli.failure import FAILED, INTERRUPTED, MISUSED, UNHEARD, Failure
from amqproxy.cli.printing import with_values_left_out
from amqproxy.cli.standard_streams import forget_output, prepare, print_error


def main() -> None:
    """Run the command of the arguments, and exit with the codes in the package's docstring."""
    prepare()
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        arguments = with_values_left_out(sys.argv[1:])
        add_addon_commands(app, arguments)
        app(arguments)
        sys.stdout.flush()
    except cyclopts.CycloptsError:
        return MISUSED
    except Failure as failure:
        print_error(f"amqproxy: {failure}")
        return failure.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseExceptionGroup as group:
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        return INTERRUPTED  # while a part of the program was starting
    except BrokenPipeError:
        forget_output()
        return UNHEARD
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT):
            raise
        forget_output()
        print_error(f"amqproxy: cannot write the output: {error.strerror}")
        return FAILED
    except _wrong_config() as error:
        print_error(f"amqproxy: {error}")
        return MISUSED
    return 0


def _wrong_config() -> type[Exception]:
    """Return `ConfigError`, imported on failure only, so that commands without a config start faster."""
    from amqproxy.configuration.config import ConfigError

    return ConfigError
