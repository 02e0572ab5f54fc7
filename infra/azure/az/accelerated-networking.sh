#!/usr/bin/env bash
# A pair of hosts with accelerated networking and one without: accelerated-networking.sh 198.51.100.7/32
# The address is whence SSH may come. REGION, SIZE, KEY (public key), HOURS, LAB_USER and SUBSCRIPTION (else the one that az works in) may be set before it.
set -euo pipefail
# shellcheck source=infra/azure/az/common.sh
source "$(dirname "$0")/common.sh"
begin fathom-accelerated "${1:-}"
host off-client 10.80.1.10 false
host off-server 10.80.1.11 false
host on-client 10.80.1.12 true
host on-server 10.80.1.13 true
path accelerated-networking-off off-client off-server
path accelerated-networking-on on-client on-server
study fathom-accelerated.toml
