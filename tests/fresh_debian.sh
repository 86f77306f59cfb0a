#!/bin/bash
# Runs the README's two commands as a newcomer would: in a fresh Debian that has make and this commit, and nothing else.
#
#   tests/fresh_debian.sh [DIRECTORY]      as root; the Debian is made in DIRECTORY, by default a temporary one
#
# Prints how long the demo took to its first decoded line, and how the tests ended. Both get their packages from Debian
# and PyPI themselves. What this machine trusts as certificate authorities is trusted there too.
set -euo pipefail
cd "$(dirname "$0")/.."
SUITE=${SUITE:-bookworm}
MIRROR=${MIRROR:-http://deb.debian.org/debian}
ROOT=${1:-$(mktemp -d)}

say() { printf '%s  %s\n' "$(date +%T)" "$*"; }

if [ ! -e "$ROOT/etc/debian_version" ]; then
    say "debootstrap $SUITE into $ROOT"
    debootstrap --variant=minbase --include=make,ca-certificates "$SUITE" "$ROOT" "$MIRROR" >"$ROOT.log"
fi
cp /etc/resolv.conf "$ROOT/etc/resolv.conf"
# As any installed Debian has it, and debootstrap leaves out: RabbitMQ asks for it.
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost\n' >"$ROOT/etc/hosts"
cp /etc/ssl/certs/ca-certificates.crt "$ROOT/etc/ssl/certs/ca-certificates.crt"
mounted=()
trap 'for each in "${mounted[@]}"; do umount -l "$each"; done' EXIT
for each in proc sys dev; do
    mount --rbind "/$each" "$ROOT/$each"
    mount --make-rslave "$ROOT/$each"
    mounted=("$ROOT/$each" "${mounted[@]}")
done
rm -rf "$ROOT/root/amqproxy"
mkdir "$ROOT/root/amqproxy"
git archive HEAD | tar -x -C "$ROOT/root/amqproxy"

in_debian() {
    chroot "$ROOT" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 CI="${CI:-}" \
        SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
        PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DEFAULT_TIMEOUT=180 sh -c "cd /root/amqproxy && $1"
}

say "make demo"
SECONDS=0
in_debian 'make demo' >"$ROOT.demo" 2>&1 &
demo=$!
until grep -q 'basic.publish' "$ROOT.demo"; do
    kill -0 $demo 2>/dev/null || { cat "$ROOT.demo"; say "make demo ended"; exit 1; }
    sleep 0.2
done
say "make demo: the first decoded lines after $SECONDS s"
for process in /proc/[0-9]*; do # the demo of this Debian, and no other
    if [ "$(readlink "$process/root")" = "$(realpath "$ROOT")" ] && tr '\0' ' ' <"$process/cmdline" | grep -q demo.py; then
        kill -INT "${process##*/}" || true
    fi
done
wait $demo || true

say "make test"
SECONDS=0
if in_debian "make test" >"$ROOT.test" 2>&1; then verdict=passed; else verdict=FAILED; fi
grep -E '^(=+ .* (passed|failed).* in .*=+|failed:|FAILED|ERROR)' "$ROOT.test" | tail -40 || true
say "make test: $verdict after $SECONDS s; its output is in $ROOT.test"
[ "$verdict" = passed ]
