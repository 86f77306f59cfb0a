#!/bin/bash
# Builds dist/amqproxy-mitm_VERSION_ARCHITECTURE.deb for this Debian's Python, with all Python packages that it needs inside.
#
#   packaging/deb/build.sh [WHEEL]      a wheel that is built already; without one, it is built from these sources
#
# They are in an environment of their own, /usr/lib/amqproxy, which no other program sees. The package is not named as the
# program is: CloudAMQP's repository has a package amqproxy of a higher version, which apt would take for an upgrade.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-/usr/bin/python3}
EXTRAS=bodies,captures,dashboard

say() { printf 'amqproxy: %s\n' "$*" >&2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$PYTHON" -m venv "$work/venv"
pip=("$work/venv/bin/python" -m pip --disable-pip-version-check -q)
wheel=${1:-}
if [ -z "$wheel" ]; then
    say "building the wheel …"
    AMQPROXY_COMPILE=1 AMQPROXY_SBOM=1 "${pip[@]}" wheel --no-deps --wheel-dir "$work/wheel" .
    wheel=$(echo "$work"/wheel/amqproxy-*.whl)
fi
root=$work/root
home=$root/usr/lib/amqproxy
say "fetching the Python packages that it needs …"
"$PYTHON" -m venv --without-pip "$home"
"${pip[@]}" --python "$home/bin/python" install --no-compile "$wheel[$EXTRAS]"
version=$("$home/bin/python" -c 'from importlib.metadata import version; print(version("amqproxy"))')
minor=$("$PYTHON" -c 'import sys; print(sys.version_info.minor)')

# An environment is bound to its place by its scripts alone, and of these there is to be one.
find "$home/bin" -type f -delete
install -D -m 755 /dev/stdin "$root/usr/bin/amqproxy" <<'LAUNCHER'
#!/usr/lib/amqproxy/bin/python -I
import sys

from amqproxy.cli import main

sys.exit(main())
LAUNCHER
ln -s amqproxy "$root/usr/bin/amqproxy-mitm"
install -D -m 644 -t "$root/lib/systemd/system" packaging/systemd/amqproxy.service packaging/systemd/amqproxy.socket
# The user of the service, which exists while it runs, has to read it: secrets are LoadCredential=.
install -D -m 644 packaging/deb/amqproxy.toml "$root/etc/amqproxy/amqproxy.toml"
install -D -m 644 -t "$root/usr/share/doc/amqproxy" README.md CHANGELOG.md SECURITY.md
install -D -m 644 LICENSE "$root/usr/share/doc/amqproxy/copyright"
amqproxy() { "$home/bin/python" -I -c "from amqproxy.cli import main; main()" "$@"; }
share=$root/usr/share
amqproxy man | gzip -9n | install -D -m 644 /dev/stdin "$share/man/man1/amqproxy.1.gz"
amqproxy completion bash | install -D -m 644 /dev/stdin "$share/bash-completion/completions/amqproxy"
amqproxy completion zsh | install -D -m 644 /dev/stdin "$share/zsh/vendor-completions/_amqproxy"
amqproxy completion fish | install -D -m 644 /dev/stdin "$share/fish/vendor_completions.d/amqproxy.fish"

mkdir "$root/DEBIAN"
echo /etc/amqproxy/amqproxy.toml >"$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 755 "packaging/deb/$script" "$root/DEBIAN/$script"; done
cat >"$root/DEBIAN/control" <<CONTROL
Package: amqproxy-mitm
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The amqproxy team <amqproxy@users.noreply.github.com>
Installed-Size: $(du -sk "$root" | cut -f1)
Depends: python3 (>= 3.$minor), python3 (<< 3.$((minor + 1))), libc6
Conflicts: amqproxy
Recommends: tshark
Suggests: rabbitmq-server
Section: net
Priority: optional
Homepage: https://amqproxy.github.io/amqproxy/
Description: proxy for AMQP that decodes, counts, records and changes traffic
 It stands between clients and a broker such as RabbitMQ, decodes both
 directions, and forwards them unchanged, or as rules say. It has metrics for
 Prometheus, recordings for Wireshark, a dashboard, and can be the broker.
CONTROL
mkdir -p dist
find "$home" -name __pycache__ -prune -exec rm -rf {} +
dpkg-deb --root-owner-group -Zxz --build "$root" dist >&2
echo dist/amqproxy-mitm_"${version}"_"$(dpkg --print-architecture)".deb
