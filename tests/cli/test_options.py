"""Options that several commands share."""

from __future__ import annotations

from amqproxy.cli.command import app
from amqproxy.cli.options import Printed


def test_what_is_printed_is_one_value() -> None:
    arguments = ["run", "--print", "--json", "--filter", "size > 3", "--body", "7", "--exit-on-closed-output"]
    _, bound, _ = app.parse_args(arguments)
    expected = Printed(print=True, json=True, filter="size > 3", body=7, exit_on_closed_output=True)
    assert bound.arguments == {"printed": expected}


def test_an_option_keeps_its_help_in_a_group() -> None:
    grouped = app["decode"].assemble_argument_collection(parse_docstring=True)
    plain = app["sniff"].assemble_argument_collection(parse_docstring=True)
    of_filter = [[each.parameter.help for each in found if each.name == "--filter"] for found in (grouped, plain)]
    assert (
        of_filter[0]
        == of_filter[1]
        == ["Print only the commands for which this CEL expression holds, such as exchange == 'orders'."]
    )
