#!/usr/bin/env bash
# Every shell script of the repository parses, and passes shellcheck where that is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t scripts < <(git ls-files --cached --others --exclude-standard | while read -r file; do
  if [ -f "$file" ] && head -n 1 "$file" | tr -d '\0' | grep -qE '^#!.*\b(ba)?sh\b'; then echo "$file"; fi
done)
for script in "${scripts[@]}"; do
  bash -n "$script"
done
if command -v shellcheck >/dev/null; then
  shellcheck "${scripts[@]}"
else
  echo "shellcheck is not installed: only the syntax of ${#scripts[@]} shell scripts was checked"
fi
