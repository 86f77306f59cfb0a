"""Exports of captures for other programs, and for people who did not see the traffic.

- `output_file`: the file of an export, written completely or not at all. `columns`: those of flat formats.
- `parquet`: tables with types. `packets`: a smaller capture, of the selected `whole_commands`.
- `html_report`: one page with plots of the figures of `--stats`. `charts` draws, `shown_text` neutralizes texts sent
  by peers.
- `asyncapi`: an AsyncAPI document of the channels found by `observed_channels`. `payload_schema` learns schemas
  from values, `examples` masks secrets, `name_family` merges similar names.
- `access_evidence` collects the operations of clients, in the sense of access lists; `access_suggestion` writes the
  minimal list that allows all of them, and checks it by a dry run.

JSON lines and CSV are views of `amqproxy.views`, written by the command.

The input is `Decoded`, or a function that reads it again where it is needed twice. All memory is bounded by named
limits, however large the captures are. Nothing here prints, or knows a command line.

Imports: views, captures, rules, taps and below.
"""
