"""What watches the traffic and never touches it.

    frames → `FrameTap` → `Record`s            one a frame: `decode`, `run --print`
    frames → `Trace` → events ─┬→ `MessageRecord`s  one a message or request: `--messages`
                               └→ `Finding`s        what an expert would point out: `--findings`

- `tap` is what a session shows its frames to, `note` what rules did to a command. Two taps put what they make into a
  bounded queue (`record_queue`): `frame_tap`, and `trace_tap`, with an `observer` for each connection.
- `trace` turns the frames of a connection into what happened: a publish was confirmed after 3 ms, of either protocol.
  `session_trace` is that for what taps are shown, with what rules did.
- `frame_chunk` has the frames of one read, in each protocol's folder as `chunk`; `dialects` lists the protocols.
- `topology` has what clients have declared, bound and consumed, without a tap.
- `message_recorder` makes the records of messages, `findings` has the detectors.
- `method_arguments` are those of either protocol, as JSON can hold them.
- `record`, `message_record` and `findings.finding` are the JSON contracts; `text`, `message_text` and `findings.text`
  make lines for a person.
- `metering` counts messages, and measures how long they are open, without an object per message.
- `object_tap` counts messages by user, exchange and the like, with a bound on the series (`bounded_series`).
- `metrics` counts for Prometheus, `endpoint` serves that.

Imports: the protocols, msgspec, prometheus-client.
"""
