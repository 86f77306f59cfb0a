"""Dashboards and alerts for an operator's Grafana and Prometheus.

- `grafana.json`: a dashboard for Grafana 10.1 and newer, which `grafana` writes: `python -m monitoring.grafana`.
- `alerts.yml`: alert rules for Prometheus, with a runbook each in docs/alerts.md; `alerts_test.yml`: their tests, for
  `promtool test rules`.

The metrics are those of docs/metrics.md.
"""
