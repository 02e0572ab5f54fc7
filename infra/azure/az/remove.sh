#!/usr/bin/env bash
# Removes a lab that a script beside this made, and says what is left: remove.sh fathom-two-hosts [SUBSCRIPTION]
# Without SUBSCRIPTION it is looked for in the one that az works in. It ends with 0 only where it removed the lab.
set -euo pipefail
# shellcheck source=infra/azure/az/common.sh
source "$(dirname "$0")/common.sh"
GROUP=${1:-}
choose "${2:-$SUBSCRIPTION}"
[[ -n $GROUP ]] || {
  echo "name the lab: remove.sh GROUP; there are: $(az group list --query '[?tags."fathom-lab"].name' --output tsv | xargs) (in the subscription $SUBSCRIPTION)" >&2
  exit 2
}
there=$(az group exists --name "$GROUP")
if [[ $there == false ]]; then
  echo "there is no resource group $GROUP in the subscription $SUBSCRIPTION: nothing was removed" >&2
  found=$(elsewhere)
  for other in $found; do
    echo "the subscription $other has one: $0 $GROUP $other" >&2
  done
  [[ -n $found ]] || echo "no other subscription of this login is known to have one; if a lab was made by another login, az login as that" >&2
  exit 1
fi
# Only what bears its tag: a group of somebody else's is not taken for a lab.
tag=$(az group show --name "$GROUP" --query 'tags."fathom-lab"' --output tsv)
[[ $tag == "$GROUP" ]] || { echo "$GROUP in the subscription $SUBSCRIPTION does not bear the tag fathom-lab=$GROUP: not removed" >&2; exit 1; }
az group delete --name "$GROUP" --yes
there=$(az group exists --name "$GROUP")
if [[ $there != false ]]; then
  echo "$GROUP is still there: az resource list --resource-group $GROUP --subscription $SUBSCRIPTION" >&2
  exit 1
fi
echo "removed $GROUP in the subscription $SUBSCRIPTION, and all that was in it"
