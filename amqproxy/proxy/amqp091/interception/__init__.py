"""The 0-9-1 passage with rules. No trio, sockets or clock: frames and times go in.

- `interceptor` goes through the frames of a chunk in order (`chunk_frames`), keeps the state of both legs
  (`leg_states`), and asks the rules by its `evaluation`. `repeated_publishes` remembers which need not be evaluated
  again.
- `channel_table` has a `ChannelInterceptor` (`channel_interceptor`) for each channel whose legs may differ, with a
  `ChannelDirection` (`channel_direction`) for each direction: queued commands and the state of the content in
  progress.
- A channel interceptor yields `actions`, which the `ActionExecutor` (`action_executor`) of its owner
  (`channel_owner`) carries out; its `channel_output` sends commands on, `answers` replies to the sender of what is
  not sent on, and `channel_closing` closes it on both legs.
- Delivery tags and confirms that differ between the legs are translated by its `channel_tags`, in the tables of
  `tag_translation`; changed commands are encoded by `encoding`. `leg_output` collects what each peer is to be sent.
"""
