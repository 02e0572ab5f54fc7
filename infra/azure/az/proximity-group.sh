#!/usr/bin/env bash
# A pair of hosts in a proximity placement group and one that is in none: proximity-group.sh 198.51.100.7/32
# The address is whence SSH may come. REGION, SIZE, KEY (public key), HOURS, LAB_USER and SUBSCRIPTION (else the one that az works in) may be set before it.
set -euo pipefail
# shellcheck source=infra/azure/az/common.sh
source "$(dirname "$0")/common.sh"
begin fathom-proximity "${1:-}"
az ppg create --resource-group "$GROUP" --name near --location "$REGION" --type Standard --tags "${TAGS[@]}" --output none
host near-client 10.80.1.10 true --ppg near
host near-server 10.80.1.11 true --ppg near
host plain-client 10.80.1.12 true
host plain-server 10.80.1.13 true
path proximity-group near-client near-server
path no-group plain-client plain-server
study fathom-proximity.toml
