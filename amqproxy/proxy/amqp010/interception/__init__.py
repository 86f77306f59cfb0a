"""What stands between the legs of a session of AMQP 0-10 with rules. No trio, sockets or clock: frames and times go in.

Rules judge what each control and command is in 0-9-1 (`amqproxy.conversion`), and what they change of that is written
back. So one rule is about both protocols, and what 0-10 cannot express refuses the command.

- `interceptor` keeps the state of both legs. `command_gathering` goes through the frames of both peers, and a
  `verdict_executor` carries verdicts out. There is a `Path` (`path`) for each channel and sender: what is gathered,
  what waits, and what becomes of a content under way. `session_memory` is what sessions cost.
- `evaluation` asks the rules; `known_exchanges` are the destinations that are nothing else. `encoding` makes frames of
  what they changed; `answers` are commands of our own, to a sender whose message goes no further, or that a rule wants
  sent.
- `legs` are both connections, and what each is sent; `tap_notes` are what taps see of what does not go on as it came.
  What waits is kept by the `DelayedCommands` that 0-9-1 has, too, in `interception`.
- A command that goes no further leaves an empty one in its place (`encoding`), so that all others keep their ids. Where
  commands of our own come between (`own_commands`), `command_insertions` has their places, and `id_translation` the ids
  of all others.
- `session_closing` ends a session on both legs; `joining` is how rules come to an open connection.
"""
