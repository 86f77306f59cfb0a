"""What is made of captures for other programs, and for people who were not there.

- `output_file`: the file that an export goes to, all of it or nothing. `columns`: those of flat formats.
- `parquet`: tables with types. `packets`: a smaller capture, of the `whole_commands` that are selected.
- `html_report`: one page with plots of the figures that `--stats` has. `charts` draws, `shown_text` makes what peers
  send harmless.
- `asyncapi`: an AsyncAPI document of the channels that `observed_channels` has found. `payload_schema` learns schemas
  from values, `examples` masks secrets, `name_family` takes names that are alike for one.
- `access_evidence` collects what clients did, in the sense of access lists; `access_suggestion` writes the least list
  under which all of it would have passed, and checks that by a dry run.

JSON lines and CSV are views of `amqproxy.views`, written by the command.

What comes in is `Decoded`, and, where a thing has to be read twice, what reads it anew. Everything is bounded in memory
by a named limit, however large the captures are. Nothing here prints, or knows a command line.

Imports: views, captures, rules, taps and below.
"""
