"""OpenTelemetry: a span for each message, from its publish or its delivery to its outcome, and metrics of all.

    frames → `SessionTrace` → events → `SpanRecorder` → `MessageSpan`s → `SpanQueue` ┊ `SpanExport` → OTLP
                                                        in the loop's thread         ┊ in another one

- `telemetry` wires all of it up; `span_tap` is the tap to which sessions show their frames.
- `span_recorder` reads the events of a trace, and derives nothing from frames itself. It makes the spans of
  `message_span`, with OpenTelemetry's names.
- `trace_context` is the trace that a message's headers refer to, `sampler` decides whether the message gets a span.
- `span_budget` bounds the spans that are open or wait, `span_queue` is the queue in which they wait.
- `span_export` exports them, with OpenTelemetry's SDK: the extra `amqproxy[otel]`. `complaints` are its log lines.
- `message_metrics` are the counts of `taps.metering` with OpenTelemetry's names, `metric_export` exports them.

Imports: `amqproxy.amqp091`, `amqproxy.configuration`, `amqproxy.process`, `amqproxy.taps`; trio.
"""
