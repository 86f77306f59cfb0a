"""The command `amqproxy`: data goes to standard output, everything else to standard error.

Exit codes: 0 done; 1 the work failed (a capture cannot be read, an address cannot be had); 2 wrong usage or a wrong
config; 130 interrupted twice; 141 the reader of the output has closed it.

`command` has the subcommands; each, or each group of them, has its file: `run`, `tail`, `top`, `dashboard`, `broker`,
`decode`, `compare`, `replay`, `shrink`, `mock`, `export`, `config`, `rules`, `control`, `record`, `version`. They read
flags (`flags`), choose what is printed, and how (`printing`), and leave the work to what they import no sooner than in
their bodies: `amqproxy --help` waits for neither trio nor the rules. A `Failure` (`failure`) of theirs ends in a line
on standard error and an exit code (`exit`). `standard_streams` makes output safe in any encoding, `progress` shows how
far a capture has been read, `capture_files` reads captures more than once, `signals` has commands stop at Ctrl-C.

Imports: every other package.
"""

import sys


def main() -> None:
    """Run the command that the arguments name, and exit. Ctrl-C works from the start, while imports take their time."""
    try:
        from amqproxy.cli.exit import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


__all__ = ["main"]
