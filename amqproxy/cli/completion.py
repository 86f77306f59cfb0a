"""`amqproxy completion`: what a shell needs to complete the command."""

from __future__ import annotations

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a completion script, e.g. for `source <(amqproxy completion bash)`.

    Parameters
    ----------
    shell
        The shell to complete in.
    """
    from amqproxy.cli.command import app

    print(app.generate_completion(shell=shell))
