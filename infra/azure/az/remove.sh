#!/usr/bin/env bash
# Removes a lab that a script beside this made, and says what is left: remove.sh fathom-two-hosts
set -euo pipefail
group=${1:-}
[[ -n $group ]] || { echo "name the lab: remove.sh GROUP; there are: $(az group list --query '[?tags."fathom-lab"].name' --output tsv | xargs)" >&2; exit 2; }
if [[ $(az group exists --name "$group") == false ]]; then
  echo "there is no resource group $group"
  exit 0
fi
# Only what bears its tag: a group of somebody else's is not taken for a lab.
tag=$(az group show --name "$group" --query 'tags."fathom-lab"' --output tsv)
[[ $tag == "$group" ]] || { echo "$group does not bear the tag fathom-lab=$group: not removed" >&2; exit 1; }
az group delete --name "$group" --yes
if [[ $(az group exists --name "$group") != false ]]; then
  echo "$group is still there: az resource list --resource-group $group" >&2
  exit 1
fi
echo "removed $group, and all that was in it"
