"""Observers of the traffic, which never change it.

    frames → `FrameTap` → `Record`s            one per frame: `decode`, `run --print`
    frames → `Trace` → events ─┬→ `MessageRecord`s  one per message or request: `--messages`
                               └→ `Finding`s        faults and risks that an expert would point out: `--findings`

- `tap` is the interface to which a session shows its frames, `note` the effect of rules on a command. Two taps put
  their records into a bounded queue (`record_queue`): `frame_tap`, and `trace_tap`, with an `observer` per connection.
- `trace` turns the frames of a connection of either protocol into events, such as a publish confirmed after 3 ms.
  `session_trace` is a trace fed by a tap, which takes the effect of rules into account.
- `frame_chunk` has the frames of one read, in each protocol's folder as `chunk`; `dialects` lists the protocols.
- `topology` has the exchanges, queues, bindings and consumers that clients have made, without a tap.
- `message_recorder` makes the records of messages, `findings` has the detectors.
- `method_arguments` converts the arguments of methods of either protocol to JSON.
- `record`, `message_record` and `findings.finding` are the JSON contracts; `text`, `message_text` and `findings.text`
  make lines for a person.
- `metering` counts messages, and measures how long they are open, without an object per message.
- `object_tap` counts messages by user, exchange and the like, with a bound on the series (`bounded_series`).
- `metrics` has the counters for Prometheus, `fleet_collectors` those that upstreams, switches and certificates keep;
  `endpoint` serves them.

Imports: the protocols, msgspec, prometheus-client.
"""
