#!/usr/bin/env bash
# What the scripts beside this have in common: the smallest labs, by `az` alone. Each makes a resource group of its own,
# with the tags of the larger labs; remove.sh takes it away. Sourced, not run.
set -euo pipefail

# Names, and what the caller may set otherwise.
: "${REGION:=uksouth}" "${SIZE:=Standard_D2s_v5}" "${LAB_USER:=azureuser}" "${KEY:=$HOME/.ssh/id_ed25519.pub}" "${HOURS:=4}" "${SUBSCRIPTION:=}"
NETWORK=10.80.0.0/16

# Everything is asked of one subscription, whatever `az account set` says meanwhile.
az() { heard command az "$@" --subscription "$SUBSCRIPTION"; }

# heard COMMAND...: runs it, and keeps what it complains of, by which broke_off says what to do.
SAID=
heard() {
  if [[ -z $SAID ]]; then
    "$@"
  else
    { "$@" 2>&1 >&3 | tee "$SAID" >&2; } 3>&1
  fi
}

# choose SUBSCRIPTION: that one, or where none is named the one that `az` works in.
choose() {
  SUBSCRIPTION=$(heard command az account show ${1:+--subscription "$1"} --query id --output tsv)
}

# elsewhere: the other subscriptions of this login that have the group, a line each.
elsewhere() {
  local all other there
  all=$(heard command az account list --query '[].id' --output tsv) || return 1
  for other in $all; do
    [[ $other != "$SUBSCRIPTION" ]] || continue
    echo "looking whether the subscription $other has a resource group $GROUP" >&2
    there=$(command az group exists --name "$GROUP" --subscription "$other") || there=unknown
    case $there in
      true) echo "$other" ;;
      false) ;;
      *) echo "that could not be found out" >&2 ;;
    esac
  done
}

usage() {
  sed -n '2,/^set /p' "$0" | sed -n 's/^# \{0,1\}//p' >&2
  exit 2
}

# may_begin SSH_FROM: ends where `az` would refuse what was given, or take it for something else, once half of the lab is made.
may_begin() {
  local from=$1 trial byte='(0|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])'
  [[ -n $from ]] || usage
  # A network of IPv4, and not the world.
  [[ $from =~ ^$byte\.$byte\.$byte\.$byte/(1[6-9]|2[0-9]|3[0-2])$ ]] || {
    echo "$from: no network of IPv4 of /16 or smaller; write it as in 198.51.100.7/32" >&2
    exit 2
  }
  # "Disallowed values" of `adminUsername` in Microsoft's reference of virtual machines.
  local refused=" administrator admin user user1 test user2 test1 user3 admin1 1 123 a actuser adm admin2 aspnet backup console david guest \
john owner root server sql support support_388945a0 sys test2 test3 user4 user5 "
  [[ $LAB_USER =~ ^[a-z_][a-z0-9_-]{0,31}$ && $refused != *" $LAB_USER "* ]] || {
    echo "LAB_USER: \"$LAB_USER\" cannot be the user's name on Azure; use small letters, digits, - and _, as in azureuser, and none of:$refused" >&2
    exit 2
  }
  [[ -r $KEY ]] || { echo "$KEY: no public key; name one with KEY=FILE" >&2; exit 2; }
  [[ $(head -c 12 "$KEY") =~ ^ssh-(ed25519|rsa)\  ]] || {
    echo "$KEY: it does not begin as a public key does that Azure takes (ssh-ed25519, ssh-rsa); name FILE.pub with KEY" >&2
    exit 2
  }
  # The study is written here at the end, when its hosts are there and cost.
  trial=$(mktemp ./fathom-XXXXXX 2>/dev/null) || {
    echo "$PWD: no file can be written here, where the study goes: call this in a directory that is yours" >&2
    exit 2
  }
  rm -f "$trial"
  local bits
  bits=$(ssh-keygen -l -f "$KEY" 2>/dev/null | cut -d' ' -f1) || bits=
  # One line of bits for each key: ed25519 has 256, and of RSA Azure takes 2048 at least.
  [[ $bits == 256 || $bits =~ ^[0-9]{4,}$ && $bits -ge 2048 ]] || {
    echo "$KEY: ssh-keygen -l finds no key in it, several, or one of less than 2048 bits; name the FILE.pub of one key with KEY" >&2
    exit 2
  }
}

# broke_off: what can be done, whoever ended it: `az`, one of the checks here, or Ctrl-C.
broke_off() {
  local code=$? remedy="see what az says above"
  if ((code != 0)) && [[ -z $TOLD ]]; then
    if [[ ! -s $SAID ]]; then
      remedy="see above"
    elif grep -qiE 'az login|AADSTS|credential|AuthorizationFailed|no subscription|subscription .*not found' "$SAID"; then
      remedy="az login, as somebody who may do this, and az account set --subscription NAME"
    elif grep -qiE 'quota|cores|SkuNotAvailable|AllocationFailed|not available|NotAvailable' "$SAID"; then
      remedy="SIZE=Standard_D2as_v5, say, before this, or another REGION, before which remove.sh removes what there is"
    fi
    if [[ -n $IS_MADE ]]; then
      echo "broke off: $remedy; then call this again: it goes on. What there is costs until $(dirname "$0")/remove.sh $GROUP $SUBSCRIPTION" >&2
    else
      echo "broke off before this call made anything: $remedy; then call this again" >&2
    fi
  fi
  rm -f "$SAID"
}

# begin NAME SSH_FROM: the group, the network, and who may come in.
begin() {
  local from=${2:-}
  [[ $HOURS =~ ^0*([1-9]|1[0-9]|2[0-3])$ ]] || {
    echo "HOURS: a number from 1 to 23, as hosts are deallocated at a time of day" >&2
    exit 2
  }
  HOURS=$((10#$HOURS))
  EXPIRES=$(date -u -d "+$HOURS hours" +%FT%TZ)
  SHUTDOWN=$(date -u -d "+$HOURS hours" +%H%M)
  may_begin "$from"
  GROUP=$1
  TAGS=("fathom-lab=$GROUP" "fathom-expires=$EXPIRES")
  TOLD='' IS_MADE=''
  SAID=$(mktemp)
  trap broke_off EXIT
  local there tag found named=$SUBSCRIPTION
  choose "$named"
  there=$(az group exists --name "$GROUP")
  if [[ $there != false ]]; then
    # One's own that broke off goes on; creating it would put our tag on anybody's, and remove.sh would take it.
    tag=$(az group show --name "$GROUP" --query 'tags."fathom-lab"' --output tsv)
    [[ $tag == "$GROUP" ]] || {
      echo "there is a resource group $GROUP that does not bear the tag fathom-lab=$GROUP: nothing was changed;" \
        "rename or remove it, or choose another subscription: az account set --subscription NAME" >&2
      TOLD=1
      exit 1
    }
    IS_MADE=1
  elif [[ -z $named ]]; then
    # One that broke off in another subscription would be made, and paid for, a second time. Who names one means it.
    found=$(elsewhere)
    [[ -z $found ]] || {
      found=$(head -n 1 <<<"$found")
      echo "the subscription $found has a resource group $GROUP, and $SUBSCRIPTION, which az works in, has none: nothing was changed;" \
        "SUBSCRIPTION=$found before this goes on with that lab, SUBSCRIPTION=$SUBSCRIPTION makes another one," \
        "$(dirname "$0")/remove.sh $GROUP $found removes that" >&2
      TOLD=1
      exit 1
    }
  fi
  # From here on nobody knows what there is where az breaks off.
  IS_MADE=1
  az group create --name "$GROUP" --location "$REGION" --tags "${TAGS[@]}" --output none
  echo "made: resource group $GROUP in $REGION; it costs until you call $(dirname "$0")/remove.sh $GROUP $SUBSCRIPTION"
  az network nsg create --resource-group "$GROUP" --name hosts --tags "${TAGS[@]}" --output none
  allow ssh 100 Tcp 22 "$from"
  allow test-tcp 110 Tcp 7007 "$NETWORK"
  allow test-udp 120 Udp 7007 "$NETWORK"
  # Azure's own rule would let in whatever a joined network sends.
  az network nsg rule create --resource-group "$GROUP" --nsg-name hosts --name nothing-else --priority 4096 \
    --direction Inbound --access Deny --protocol '*' --source-address-prefixes '*' --destination-port-ranges '*' --output none
  az network vnet create --resource-group "$GROUP" --name lab --address-prefixes "$NETWORK" --tags "${TAGS[@]}" --output none
  az network vnet subnet create --resource-group "$GROUP" --vnet-name lab --name hosts --address-prefixes 10.80.1.0/24 \
    --network-security-group hosts --default-outbound-access false --output none
}

# allow NAME PRIORITY PROTOCOL PORT FROM
allow() {
  az network nsg rule create --resource-group "$GROUP" --nsg-name hosts --name "$1" --priority "$2" --direction Inbound \
    --access Allow --protocol "$3" --source-address-prefixes "$5" --destination-port-ranges "$4" --output none
}

# host NAME ADDRESS ACCELERATED [MORE...]: one host, and the hour at which the platform deallocates it.
host() {
  local name=$1 address=$2 accelerated=$3
  shift 3
  az network public-ip create --resource-group "$GROUP" --name "$name" --sku Standard --allocation-method Static \
    --tags "${TAGS[@]}" --output none
  az network nic create --resource-group "$GROUP" --name "$name" --vnet-name lab --subnet hosts --private-ip-address "$address" \
    --public-ip-address "$name" --accelerated-networking "$accelerated" --tags "${TAGS[@]}" --output none
  az vm create --resource-group "$GROUP" --name "$name" --image Ubuntu2404 --size "$SIZE" --nics "$name" \
    --admin-username "$LAB_USER" --authentication-type ssh --ssh-key-values "$KEY" --tags "${TAGS[@]}" "$@" --output none
  az vm auto-shutdown --resource-group "$GROUP" --name "$name" --time "$SHUTDOWN" --output none
  HOSTS+=("$name")
}

# path LABEL FROM TO: two hosts that are measured.
path() { PATHS+=("$1 $2 $3"); }

# answered WHAT VALUE: what `az` said, which an `az` that fails may not have.
answered() {
  [[ -n $2 ]] || { rm -f "$new"; echo "az tells no $1; no study was written: call this again" >&2; exit 1; }
}

# study FILE: what `fathom study run` wants, of the hosts and paths that were made. One that is there may have been edited: it stays.
study() {
  local file=$1 name address label from to private
  local new=$file.new
  {
    printf 'format = 1\nname = "%s"\n' "$GROUP"
    for name in "${HOSTS[@]}"; do
      address=$(az network public-ip show --resource-group "$GROUP" --name "$name" --query ipAddress --output tsv)
      answered "public address of $name" "$address"
      printf '\n[[host]]\nname = "%s"\nssh = { address = "%s", user = "%s" }\n' "$name" "$address" "$LAB_USER"
    done
    for path in "${PATHS[@]}"; do
      read -r label from to <<<"$path"
      private=$(az network nic show --resource-group "$GROUP" --name "$to" --query 'ipConfigurations[0].privateIPAddress' --output tsv)
      answered "private address of $to" "$private"
      printf '\n[[scenario]]\nlabel = "%s"\nfrom = "%s"\nto = "%s"\naddress = "%s"\n' "$label" "$from" "$to" "$private"
    done
    printf '\n[[probe]]\nevery = "100ms"\nfor = "1m"\nwarm-up = 10\n'
  } >"$new"
  if [[ -e $file ]] && ! cmp --silent "$file" "$new"; then
    echo "kept $file, which differs from $new, what was made now: put together what you want of both" >&2
  else
    mv "$new" "$file"
    echo "wrote $file"
  fi
  echo "next: fathom study run $file --output $GROUP --remote-binary FILE; then $(dirname "$0")/remove.sh $GROUP $SUBSCRIPTION"
}
HOSTS=()
PATHS=()
