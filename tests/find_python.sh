#!/bin/bash
# Prints the path of a CPython that can run amqproxy (3.11 or newer):
#
#   tests/find_python.sh newest     the newest on the PATH or among pyenv's that can make virtual environments
#   tests/find_python.sh system     the system's own, /usr/bin/python3; else the same as "newest"
#
# Ends with 1, and says what to do, where there is none.
set -euo pipefail

# runs PYTHON [MODULE]: it starts, is new enough, and has the module.
runs() {
    "$1" -c "import sys, ${2:-sys}; sys.exit(sys.version_info < (3, 11) or sys.implementation.name != 'cpython')" &>/dev/null
}

if [ "${1:-newest}" = newest ]; then
    shopt -s nullglob
    for minor in 15 14 13 12 11; do
        for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python3; do
            if runs "$candidate" ensurepip; then
                command -v "$candidate"
                exit
            fi
        done
    done
fi
for candidate in /usr/bin/python3 python3; do # perhaps without ensurepip: tests/install_system.sh brings that
    if runs "$candidate"; then
        command -v "$candidate"
        exit
    fi
done
echo "amqproxy: no Python 3.11 or newer. On Debian 12 or newer, as root: apt-get install python3 python3-venv" >&2
exit 1
