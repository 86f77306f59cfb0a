"""The 0-10 passage with rules. No trio, sockets or clock: frames and times go in.

Rules judge what each control and command is in 0-9-1 (`amqproxy.conversion`), and what they change of that is written
back. So one rule is about both protocols, and what 0-10 cannot express refuses the command.

- `interceptor` takes the frames of both peers. `channel_table` has a `ChannelInterceptor` (`channel_interceptor`) for
  each channel, with a `Path` (`path`) for each sender: what is gathered, what waits, and what becomes of a content in
  progress. It yields `actions`, which the `action_executor` carries out.
- `command_gathering` goes through the frames of a channel, `verdict_actions` turns verdicts into actions, and
  `session_closing` ends a session on both legs; `session_memory` is what sessions cost.
- `evaluation` asks the rules; `known_exchanges` are the destinations that are nothing else. `encoding` makes frames of
  what they changed; `answers` are commands of our own, to a sender whose message goes no further, or that a rule wants
  sent.
- `legs` are both connections, and what each is sent; `tap_notes` are what taps see of what does not go on as it came.
- A command that goes no further leaves an empty one in its place (`encoding`), so that all others keep their ids. Where
  commands of our own come between (`own_commands`), `command_insertions` has their places, and `id_translation` the ids
  of all others. `renamed_destinations` are the subscriptions that rules have renamed.
- `joining` is how rules come to an open connection; `refusal` is the error for which a rule ends one.
"""
