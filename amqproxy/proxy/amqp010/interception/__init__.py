"""The 0-10 passage with rules. No trio, sockets or clock: frames and times go in.

Rules evaluate the 0-9-1 view of each control and command (`amqproxy.conversion`), and changes to the view are written
back. A rule therefore applies to both protocols, and a change that 0-10 cannot express refuses the command.

- `interceptor` takes the frames of both peers. `channel_table` has a `ChannelInterceptor` (`channel_interceptor`) for
  each channel, with a `Path` (`path`) for each sender: its gathered, delayed and queued frames, and the content in
  progress. It yields `actions`, which the `action_executor` carries out.
- `command_gathering` processes the frames of a channel, `verdict_actions` turns verdicts into actions, and
  `session_closing` ends a session on both legs; `session_memory` charges sessions.
- `evaluation` evaluates the rules; `known_exchanges` are the destinations known to be exchanges. `encoding` encodes
  changed commands; `answers` are the proxy's commands: replies to the sender of a message that is not forwarded, and
  insertions of rules.
- `legs` are both connections and their output; `tap_notes` show taps the commands that are not forwarded unchanged.
- A command that is not forwarded is replaced with an empty one (`encoding`), so that all others keep their ids. If the
  proxy inserts commands (`own_commands`), `command_insertions` has their positions, and `id_translation` translates the
  ids of all others. `renamed_destinations` are the subscriptions that rules have renamed.
- `joining` attaches rules to an open connection.
"""
