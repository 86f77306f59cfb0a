"""Findings: faults and risks that an expert would point out, from the events of traces.

    events of a trace → `Inspector`, `ProcessInspector` → `Finding`s

- `finding`: one of them, with its severity, why it matters, and what to do.
- `connection_findings`: the listener of a trace, which passes events to both inspectors.
- `inspector`: all detectors on one connection; `detector`: the base class of each.
- `process_inspector`: the detectors that see all connections together; `process_detector`: the base class of each.
- one file for each kind: see the inspectors for the list, docs/findings.md for what they mean.
- `state`: those about the proxy itself, which no frame tells.
- `rabbitmq4`: those about uses that a later RabbitMQ refuses or takes differently.

A detector sees events, never frames; facts that the trace does not know make no finding.
"""
