"""What `amqproxy decode` shows of captures besides a line a frame: views of what was decoded, as lines of text.

    `Decoded`s of one capture after the other → a `View` → lines

- `view`: `View`, what all of them are.
- `record_lines`: a line a frame, message or finding: what `decode` shows by itself.
- `columns`: chosen parts of these: `--fields`.
- `dialogue`: what both sides of a connection said: `--follow`.
  - `passed_command`, `command_text`: commands, put together from frames; and in words.
- `statistics_view`: figures: `--stats`.
  - `statistics_collector`: counts and measures; in a `timeline`, `measurements`, and a `top_table` of each kind.
    What a report shows one by one is in a `connection_list` and a `finding_list`.
  - `statistics_report`: what was collected as `statistics`, the JSON contract.
  - `statistics_text`: these as lines, with a `histogram`.
- `ladder_view`: who sent what to whom: `--sequence`.
  - `ladder`: the rows, with repetition folded.
  - `ladder_text`, `ladder_svg`: as lines, and as a picture.

Views take what `amqproxy.capture.selection` selects.

Imports: `amqproxy.capture` and below. Nothing here prints, opens a file or reads a clock, and every table has a named
limit.
"""
