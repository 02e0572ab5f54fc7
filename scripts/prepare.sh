#!/usr/bin/env bash
# What a build needs and a fresh machine may lack: a C compiler (for zstd) and Rust. Installs the first where it may
# (Debian, as root), the second for this user; says so before it does, and what to do where it cannot.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v cc >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "a C compiler is missing; installing build-essential" >&2
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends build-essential curl ca-certificates >/dev/null
  else
    echo "a C compiler is missing; install one: sudo apt-get install build-essential" >&2
    exit 1
  fi
fi

if ! command -v cargo >/dev/null; then
  if ! command -v curl >/dev/null; then
    echo "Rust is missing, and curl to fetch it with; install curl, or Rust from https://rustup.rs" >&2
    exit 1
  fi
  echo "Rust is missing; installing it for this user in ~/.cargo with rustup (https://rustup.rs)" >&2
  curl --proto '=https' -sSf https://sh.rustup.rs | sh -s -- -y --quiet --no-modify-path --profile minimal --default-toolchain none
fi
# rust-toolchain.toml names the version; asking for it makes rustup fetch it.
cargo --version >/dev/null
