"""The command `amqproxy`: data goes to standard output, everything else to standard error.

Exit codes: 0 success; 1 the work failed (a capture cannot be read, an address is in use); 2 wrong usage or a wrong
configuration; 130 interrupted twice; 141 the reader of the output has closed it.

`command` assembles the subcommands; each subcommand, or group of them, has its file: `run`, `tail`, `top`, `dashboard`,
`broker`, `queue`, `extcap`, `decode`, `compare`, `replay`, `shrink`, `mock`, `export`, `config`, `rules`, `control`,
`record`, `hash_password`, `version`; `addon_commands` adds those of other packages. They read flags (`flags`), choose
the output and its format (`printing`, `terminal_lines`), and import the modules that do the work in their bodies, so
that `amqproxy --help` (`help`; `man_page` is the same for man) does not wait for trio or the rules. A `Failure`
(`failure`) ends in a line on standard error and an exit code (`exit`). `standard_streams` makes output safe in any
encoding, `progress` shows how much of a capture has been read, `capture_files` reads captures more than once, `signals`
stops commands at Ctrl-C.

Imports: every other package.
"""

import sys


def main() -> None:
    """Run the command of the arguments and exit. Ctrl-C, or a lack of memory, ends it even during imports."""
    try:
        from amqproxy.cli.exit import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
    except MemoryError:
        print("amqproxy: out of memory: raise its limit, or give it less at a time", file=sys.stderr)
        sys.exit(1)


__all__ = ["main"]
