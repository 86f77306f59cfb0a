#!/bin/bash
# Installs from Debian what the project needs and pip cannot give; leaves alone what is there, and starts no service.
#
#   tests/install_system.sh [PACKAGE…]      without names: all that the tests need
#
# Ends with 1, and says what to do, when something is still missing. PYTHON names the interpreter that is to be served.
set -euo pipefail

PYTHON=${PYTHON:-python3}
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # where Debian keeps servers, and a user's PATH does not look
[ $# -gt 0 ] || set -- rabbitmq-server haproxy tshark jq iptables amqp-specs gcc libc6-dev python3-dev amqp-tools prometheus \
    chromium-headless-shell python3-qpid-proton iproute2 openjdk-17-jdk-headless \
    php-cli php-amqplib php-amqp php-symfony-amqp-messenger elixir groff-base zsh fish

is_there() {
    case $1 in
    amqp-tools) command -v amqp-publish ;;
    amqp-specs) test -d /usr/share/amqp/specs ;;
    groff-base) command -v groff ;;
    iproute2) command -v ip ;;
    libc6-dev) test -f /usr/include/stdio.h ;;
    openjdk-*-jdk-headless) command -v javac ;;
    openjdk-*-jre-headless) test -x "${JAVA_HOME:-}/bin/java" || command -v java ;;
    php-amqp) php --ri amqp ;;
    php-amqplib) test -e /usr/share/php/PhpAmqpLib/autoload.php ;;
    php-cli) command -v php ;;
    php-symfony-amqp-messenger) test -d /usr/share/php/Symfony/Component/Messenger/Bridge/Amqp ;;
    python3-dev) "$PYTHON" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' ;;
    python3-qpid-proton) /usr/bin/python3 -c 'import proton' ;;
    python3-venv) "$PYTHON" -c 'import ensurepip' ;;
    *) command -v "$1" ;;
    esac &>/dev/null
}

find_missing() {
    missing=()
    for package in "$@"; do
        is_there "$package" || missing+=("$package")
    done
}

install() {
    export DEBIAN_FRONTEND=noninteractive
    local apt=(apt-get -qy -o DPkg::Lock::Timeout=300)
    if [ ! -e /usr/sbin/policy-rc.d ]; then # Debian's way to keep what is being installed from being started
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod +x /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    "${apt[@]}" install --no-install-recommends "$@" ||
        { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "$@"; }
}

find_missing "$@"
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "amqproxy: not a Debian system; install by hand what Debian calls: ${missing[*]}" >&2
    exit 1
elif [ "$(id -u)" = 0 ]; then
    echo "amqproxy: installing from Debian: ${missing[*]}" >&2
    install "${missing[@]}" >&2 || true
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true; } 2>/dev/null; then
    exec sudo env PYTHON="$PYTHON" "$0" "$@"
fi

find_missing "$@"
[ ${#missing[@]} -gt 0 ] || exit 0
echo "amqproxy: still missing. As root: apt-get install ${missing[*]}" >&2
exit 1
