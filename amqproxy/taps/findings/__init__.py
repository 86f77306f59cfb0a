"""What an expert would point out: findings, from the events of traces.

    events of a trace → `Inspector`, `ProcessInspector` → `Finding`s

- `finding`: one of them, with its severity, why it matters, and what to do.
- `connection_findings`: what listens to a trace, and asks both inspectors.
- `inspector`: all detectors on one connection; `detector`: what each of them is.
- `process_inspector`: those that look at all connections together; `process_detector`: what each of these is.
- one file for each kind: see the inspectors for the list, docs/findings.md for what they mean.

A detector sees what happened, never frames; what the trace does not know is no finding.
"""
