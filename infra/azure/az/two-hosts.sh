#!/usr/bin/env bash
# Two hosts in one network, and the study that measures between them: two-hosts.sh 198.51.100.7/32
# The address is whence SSH may come. REGION, SIZE, KEY (public key), HOURS, LAB_USER and SUBSCRIPTION (else the one that az works in) may be set before it.
set -euo pipefail
# shellcheck source=infra/azure/az/common.sh
source "$(dirname "$0")/common.sh"
begin fathom-two-hosts "${1:-}"
host client 10.80.1.10 true
host server 10.80.1.11 true
path same-region client server
study fathom-two-hosts.toml
