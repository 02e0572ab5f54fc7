#!/usr/bin/env bash
# usage: prepare-tests.sh [test|acceptance]
# Installs the Debian packages that `make test` needs, or `make acceptance` too. As root; otherwise prints the command.
set -euo pipefail
tier=${1:-test}

packages=(chromium conntrack iproute2 iputils-ping musl-tools nftables openssh-client openssh-server openssl
  postgresql python3-venv shellcheck socat strace xinetd)
if [ "$tier" = acceptance ]; then
  # Databases, balancers and peers; Spark runs on Java.
  packages+=(freetds-bin haproxy iperf3 irtt mariadb-client-core mariadb-server-core openjdk-17-jre-headless qperf sockperf)
elif [ "$tier" != test ]; then
  echo "unknown tier '$tier'; say test or acceptance" >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' && continue
  # Another package of it will do.
  [ "$package" = openjdk-17-jre-headless ] && command -v java >/dev/null && continue
  missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "every package is there"
elif [ "$(id -u)" = 0 ]; then
  # Tests start servers of their own: the package is to make no cluster, and so to start none.
  mkdir -p /etc/postgresql-common
  [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  echo "installed ${missing[*]}"
else
  echo "missing: ${missing[*]}; install them: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
