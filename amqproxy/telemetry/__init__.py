"""OpenTelemetry: a span for each message, from its publish or its delivery to what became of it.

    frames → `SessionTrace` → events → `SpanRecorder` → `MessageSpan`s → `SpanQueue` ┊ `SpanExport` → OTLP
                                                        in the loop's thread         ┊ in another one

- `telemetry` wires all of it up; `span_tap` is what sessions show their frames to.
- `span_recorder` reads the events of a trace, and derives nothing from frames itself. `message_span` is what it makes,
  with the names that OpenTelemetry has for it.
- `trace_context` is what a message's headers say of the trace that it belongs to, `sampler` decides whether it gets a
  span.
- `span_budget` bounds the spans that are open or wait, `span_queue` is where they wait.
- `span_export` exports them, with OpenTelemetry's SDK: the extra `amqproxy[otel]`.

Imports: `amqproxy.amqp091`, `amqproxy.configuration`, `amqproxy.process`, `amqproxy.taps`; trio.
"""
