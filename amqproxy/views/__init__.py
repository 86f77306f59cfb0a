"""Views of `amqproxy decode` besides a line per frame: decoded captures as lines of text.

    `Decoded`s of one capture after the other → a `View` → lines

- `view`: `View`, the interface of all views.
- `record_lines`: a line a frame, message or finding: the default output of `decode`.
- `columns`: selected fields of these: `--fields`.
- `dialogue`: the conversation of both sides of a connection: `--follow`.
  - `passed_command`, `command_text`: commands assembled from frames, and their text.
- `statistics_view`: figures: `--stats`.
  - `statistics_collector`: counts and measures; in a `timeline`, `measurements`, and a `top_table` of each kind.
    A report's individual entries are in a `connection_list` and a `finding_list`.
  - `statistics_report`: the collected figures as `statistics`, the JSON contract.
  - `statistics_text`: the figures as lines, with a `histogram`.
- `ladder_view`: the sequence of commands between the peers: `--sequence`.
  - `ladder`: the rows, with repetition folded.
  - `ladder_text`, `ladder_svg`: as lines, and as a picture.

Views process the selection of `amqproxy.capture.selection`.

Imports: `amqproxy.capture` and below. Nothing here prints, opens a file or reads a clock, and every table has a named
limit.
"""
