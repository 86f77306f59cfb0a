#!/bin/bash
# Asks PyPI what is known against the packages that an installation with all extras for users has. It fails where something
# is known. Packages that PyPI cannot be asked about, as where a mirror stands in for it, are named; on GitHub, they fail too.
#
#   packaging/audit.sh [SDIST]      one that is built already; without it, these sources
#
# The installation stays in build/audit/installed.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
EXTRAS=analytics,bodies,captures,dashboard,logins,otel,pipeline,pytest,top

work=build/audit
rm -rf "$work"
mkdir -p "$work"
"$PYTHON" -m venv "$work/installed"
AMQPROXY_COMPILE=0 "$work/installed/bin/pip" install -q "${1:-.}[$EXTRAS]"
"$work/installed/bin/pip" freeze --exclude amqproxy >"$work/requirements.txt"
"$PYTHON" -m venv "$work/auditor"
"$work/auditor/bin/pip" install -q "pip-audit>=2.10"
# It ends with 1 if it finds something, which the report says as well.
"$work/auditor/bin/pip-audit" --no-deps --disable-pip --progress-spinner off --format json \
    --requirement "$work/requirements.txt" >"$work/found.json" || true
"$PYTHON" packaging/audit_report.py ${GITHUB_ACTIONS:+--strict} <"$work/found.json"
