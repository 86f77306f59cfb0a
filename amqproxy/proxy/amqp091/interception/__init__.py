"""The 0-9-1 passage with rules. No trio, sockets or clock: frames and times go in.

- `interceptor` processes the frames of a chunk in order (`chunk_frames`), keeps the state of both legs
  (`leg_states`), and evaluates the rules by its `evaluation`. `repeated_publishes` remembers which publishes need no
  further evaluation.
- `channel_table` has a `ChannelInterceptor` (`channel_interceptor`) for each channel whose legs may differ, with a
  `ChannelDirection` (`channel_direction`) for each direction: queued commands and the state of the content in
  progress.
- A channel interceptor yields `actions`, which the `ActionExecutor` (`action_executor`) of its owner
    (`channel_owner`) carries out; its `channel_output` sends commands, `answers` replies to the senders of commands
    that are not forwarded, and `channel_closing` closes it on both legs.
  - Delivery tags and confirms that differ between the legs are translated by its `channel_tags`, in the tables of
    `tag_translation`; changed commands are encoded by `encoding`. `leg_output` collects the bytes for each peer.
"""
