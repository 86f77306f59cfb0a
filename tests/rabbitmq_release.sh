#!/bin/bash
# Unpacks RabbitMQ of another Debian release into a cache, with the Erlang and the libraries that it needs; prints where.
#
#   tests/rabbitmq_release.sh SUITE VERSION      such as: trixie 4.0; the version may be empty: the newest
#
# Nothing is installed or entered: programs are started with the loader and the libraries beside them, so that neither root nor
# a chroot is needed, and every version can write to the same directories. AMQPROXY_TESTS_CACHE is the cache, MIRROR the archive.
#
# Ends with 3 if the suite has only other versions, which are named.
set -euo pipefail

SUITE=$1
VERSION=$2
MIRROR=${MIRROR:-http://deb.debian.org/debian}
if [ "$(id -u)" = 0 ]; then usual=/var/cache; else usual=${XDG_CACHE_HOME:-$HOME/.cache}; fi
CACHE=${AMQPROXY_TESTS_CACHE:-$usual/amqproxy-tests}
ROOT=$CACHE/rabbitmq-$SUITE-${VERSION:-newest}

mkdir -p "$CACHE"
exec 9>"$ROOT.lock"
flock 9
if [ -e "$ROOT/version" ]; then
    echo "$ROOT"
    exit 0
fi
command -v apt-get >/dev/null || { echo "amqproxy: only Debian has RabbitMQ $VERSION of $SUITE to unpack" >&2; exit 1; }

work=$(mktemp -d "$ROOT.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
new=$work/root apt=$work/apt
mkdir -p "$apt"/{lists,archives}/partial "$apt/parts"
: >"$apt/status"
printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$MIRROR" "$SUITE" >"$apt/sources.list"
cat >"$apt/apt.conf" <<END
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts";
Dir::Etc::preferencesparts "$apt/parts";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "5";
END
export APT_CONFIG=$apt/apt.conf
apt-get -qq update >&2
offered=$(apt-cache madison rabbitmq-server | awk '{print $3}')
wanted=$(grep -m 1 "^$VERSION" <<<"$offered") || { echo "Debian's $SUITE has RabbitMQ ${offered//$'\n'/, }" >&2; exit 3; }
# Of what it depends on, what an installed system is made of is left out: shells, users, Python and systemd's services.
needed=$(apt-get -s install "rabbitmq-server=$wanted" | sed -n 's/^Inst \(\S*\) (\(\S*\) .*/\1=\2/p' | grep -E '^(lib|erlang-|rabbitmq-server|zlib1g)')
(cd "$apt/archives" && apt-get -qq download $needed >&2)
mkdir "$new"
printf '%s\n' "$apt"/archives/*.deb | xargs -P 2 -I DEB dpkg-deb --extract DEB "$new"

# Erlang's programs begin as others do, but with the loader and the libraries of their release.
libraries=$(echo "$new"/usr/lib/*/libc.so.6)
libraries=$ROOT/${libraries#"$new/"}
find "$new"/usr/lib/erlang/erts-*/bin "$new"/usr/lib/erlang/lib/*/priv/bin -type f | while read -r program; do
    [ "$(head -c 4 "$program")" = $'\x7fELF' ] || continue
    mv "$program" "$program.elf"
    printf '#!/bin/sh\nexec "%s" --library-path "%s" --argv0 "$0" "%s" "$@"\n' \
        "${libraries%/*}/ld-linux-x86-64.so.2" "${libraries%/*}" "$ROOT/${program#"$new/"}.elf" >"$program"
    chmod 755 "$program"
done
sed -i "s|=/usr/lib/erlang\$|=\"$ROOT/usr/lib/erlang\"|" "$new"/usr/lib/erlang/bin/* "$new"/usr/lib/erlang/erts-*/bin/erl
rm -rf "$new/usr/share" "$ROOT"
echo "${wanted%%-*}" >"$new/version"
mv "$new" "$ROOT"
echo "$ROOT"
