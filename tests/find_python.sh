#!/bin/bash
# Prints the path of a CPython that can run amqproxy (3.11 or newer):
#
#   tests/find_python.sh newest     the newest on the PATH or among pyenv's that can make virtual environments
#   tests/find_python.sh system     the system's own, /usr/bin/python3; else the same as "newest"
#   tests/find_python.sh 3.12       one of this version
#
# Ends with 1, and says what to do, where there is none.
set -euo pipefail

# runs PYTHON [MODULE]: it starts, is new enough, and has the module.
runs() {
    "$1" -c "import sys, ${2:-sys}; sys.exit(sys.version_info < (3, 11) or sys.implementation.name != 'cpython')" &>/dev/null
}

shopt -s nullglob
# find MODULE MINOR…: the first of these versions that there is, with the module.
find() {
    local module=$1 minor candidate
    shift
    for minor; do
        for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python3; do
            if runs "$candidate" "$module"; then
                command -v "$candidate"
                exit
            fi
        done
    done
}

case ${1:-newest} in
newest) find ensurepip 15 14 13 12 11 ;;
3.*)
    find venv "${1#3.}"
    echo "amqproxy: no Python $1" >&2
    exit 1
    ;;
esac
for candidate in /usr/bin/python3 python3; do # perhaps without ensurepip: tests/install_system.sh brings that
    if runs "$candidate"; then
        command -v "$candidate"
        exit
    fi
done
echo "amqproxy: no Python 3.11 or newer. On Debian 12 or newer, as root: apt-get install python3 python3-venv" >&2
exit 1
