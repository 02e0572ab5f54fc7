#!/usr/bin/env bash
# usage: prepare-lab-tools.sh DIR
# What the tests of infra/ need and a fresh machine may lack: a Go that builds the stand-in for the clouds' providers, put
# into DIR/go if there is none, and OpenTofu or Terraform, built as `make tofu` does if there is neither. Who calls it has
# DIR/go/bin and /usr/local/go/bin before the rest of PATH: a distribution's Go may be years older.
set -euo pipefail
cd "$(dirname "$0")/.."
into=$1
go_version=1.26.6
# Of the file as the module proxy has it. On 26 November 2026 Go's checksum database, whose signature Go itself checks, had the
# same file (h1:owmNw4SPM9h46FGOeGJVUWzFEEDSmO6g7gAtWoXp28s=). Another version is checked so, in an empty directory with a go.mod:
#   GOSUMDB=sum.golang.org GOMODCACHE=$PWD/new go mod download -json golang.org/toolchain@v0.0.1-goVERSION.linux-amd64
#   sha256sum new/cache/download/golang.org/toolchain/@v/*.zip
# (it ends with an error where the database has another, and the second line is to print go_sha256).
go_sha256=6347bdd1fdc7c659d955d8034cd82ec23a5b776bf48b9dfc3a75088d2dacfe0e

# Go itself says whether it is new enough for a go.mod; with GOTOOLCHAIN=local it fetches no other.
go_does_for() {
  command -v go >/dev/null && (cd "$1" && GOTOOLCHAIN=local GOFLAGS=-mod=mod GOPROXY=off go list -m) >/dev/null 2>&1
}

no_go() {
  local there="no Go"
  command -v go >/dev/null && there="$(command -v go) ($(GOTOOLCHAIN=local go version | cut -d' ' -f3)), which is too old"
  echo "$1 needs Go $(sed -n 's/^go //p' "$1/go.mod") or newer, there is $there, and $2: install one in /usr/local/go (https://go.dev/dl)" >&2
  exit 1
}

# The toolchain as Go itself would fetch it.
install_go() {
  local name="golang.org/toolchain@v0.0.1-go$go_version.linux-amd64" proxy=${GOPROXY:-https://proxy.golang.org} work
  [[ "$(uname -sm)" == "Linux x86_64" ]] || no_go "$1" "none is fetched for $(uname -sm)"
  work=$(mktemp -d)
  # shellcheck disable=SC2064 # the directory of now
  trap "rm -rf '$work'" EXIT
  curl -fsS --max-time 300 -o "$work/go.zip" "${proxy%%[,|]*}/${name/@/\/@v\/}.zip" || no_go "$1" "it could not be fetched"
  echo "$go_sha256  $work/go.zip" | sha256sum --quiet --check - || no_go "$1" "what was fetched is another file"
  python3 -m zipfile -e "$work/go.zip" "$work"
  chmod +x "$work/$name"/bin/* "$work/$name"/pkg/tool/*/*
  mkdir -p "$into"
  rm -rf "$into/go"
  mv "$work/$name" "$into/go"
  hash -r
  echo "installed Go $go_version in $into/go"
}

# The one that the tests take, if it is 1.8 or newer.
lab_tool() {
  local tool
  for tool in target/tofu/bin/tofu tofu terraform; do
    command -v "$tool" >/dev/null || continue
    "$tool" version -json 2>/dev/null | python3 -c '
import json, sys
version = json.load(sys.stdin)["terraform_version"]
print(sys.argv[1], version)
sys.exit(tuple(int(part) for part in version.split("-")[0].split(".")[:2]) < (1, 8))' "$tool"
    return
  done
  return 1
}

go_does_for infra/standin || install_go infra/standin
go version
if ! lab_tool; then
  echo "neither OpenTofu nor Terraform, 1.8 or newer: building OpenTofu, which takes some minutes"
  go_does_for infra/tofu || install_go infra/tofu
  make tofu
fi
