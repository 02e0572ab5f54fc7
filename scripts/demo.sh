#!/usr/bin/env bash
# A reflector and a probe in two network namespaces joined by a veth pair, for 20 s. Removes what it made.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${FATHOM_DEMO_INSIDE:-}" != yes ]; then
  echo "Building fathom (the first build takes some minutes) ..."
  cargo build --release --locked -p fathom
fi
fathom=${FATHOM:-$PWD/target/release/fathom}

# Without root a user namespace gives the rights that are needed, where the kernel allows it.
if [ "$(id -u)" -ne 0 ] && [ "${FATHOM_DEMO_INSIDE:-}" != yes ]; then
  if unshare --user --map-root-user --net --mount true 2>/dev/null; then
    FATHOM_DEMO_INSIDE=yes exec unshare --user --map-root-user --net --mount bash "$0"
  fi
fi

work=$(mktemp -d)
left=fathom-left-$$
right=fathom-right-$$
reflector=
# The kernel names an interface with 15 characters at most.
veth_left=fl$$
veth_right=fr$$

clean_up() {
  if [ -n "$reflector" ]; then
    kill -TERM "$reflector" 2>/dev/null || true
    wait "$reflector" 2>/dev/null || true
  fi
  ip netns del "$left" 2>/dev/null || true
  ip netns del "$right" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

make_namespaces() {
  if [ "${FATHOM_DEMO_INSIDE:-}" = yes ]; then
    # `ip netns` keeps its names in /run, which only the real root may write: this mount namespace gets its own.
    mount -t tmpfs tmpfs /run
  fi
  ip netns add "$left" &&
    ip netns add "$right" &&
    ip link add "$veth_left" netns "$left" type veth peer name "$veth_right" netns "$right" &&
    ip -n "$left" address add 192.0.2.1/30 dev "$veth_left" &&
    ip -n "$right" address add 192.0.2.2/30 dev "$veth_right" &&
    ip -n "$left" link set "$veth_left" up &&
    ip -n "$right" link set "$veth_right" up
}

if make_namespaces 2>"$work/namespaces"; then
  echo "Two network namespaces, $left and $right, joined by a veth pair."
  in_left=(ip netns exec "$left")
  in_right=(ip netns exec "$right")
  address=192.0.2.2
  via=veth
else
  echo "No network namespaces here ($(head -n 1 "$work/namespaces")): measuring over loopback instead,"
  echo "which shows the tool but no network between two hosts. As root the demo has both."
  in_left=()
  in_right=()
  address=127.0.0.1
  via=loopback
fi

# The reflector picks a free port and says which: the first line on the pipe means that it listens.
mkfifo "$work/said"
"${in_right[@]}" "$fathom" echo --json --tcp-only --listen "$address:0" --for 10m >"$work/said" 2>"$work/reflector" &
reflector=$!
exec 3<"$work/said"
if ! read -r line <&3; then
  echo "demo: the reflector did not start: $(cat "$work/reflector")" >&2
  exit 1
fi
port=$(sed -nE 's/.*"port":([0-9]+).*/\1/p' <<<"$line")

recording=demo-output/$(date -u +%Y%m%dT%H%M%SZ)-$$
mkdir -p demo-output
echo "Reflector on $address:$port; probing it for 20 s, ten samples a second ..."
# Exit code 1 if nothing was answered. Not by exec: the trap must still remove what was made.
"${in_left[@]}" "$fathom" probe "$address:$port" --for 20s --every 100ms --label demo --from left --to right \
  --via "$via" --record "$recording"

echo
if [ -x .venv/bin/fathometer ]; then
  PATH=$PWD/.venv/bin:$PATH "$fathom" report "$recording" --output "$recording/report.html" >/dev/null
fi
echo "Next:"
echo "  $fathom recording explain $recording"
echo "  $fathom recording verify $recording"
echo "Recording: $recording"
if [ -f "$recording/report.html" ]; then
  echo "Report: $recording/report.html"
else
  echo "For a report: make python, then .venv/bin/fathometer report $recording"
fi
