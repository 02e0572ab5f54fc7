#!/bin/sh
# Switches this host off at the time that its metadata says, which may be put off meanwhile. Asks the platform alone, and
# only once: the service answers when the time changes, or when it has come.
at=http://169.254.169.254/computeMetadata/v1/instance/attributes/fathom-expires

ask() {
  curl -fsS --noproxy '*' -H 'Metadata-Flavor: Google' "$at$1"
}

while :; do
  if ends=$(ask '') && ends=$(date -u -d "$ends" +%s); then
    left=$((ends - $(date -u +%s)))
    [ "$left" -gt 0 ] || exec systemctl poweroff
    ask "?wait_for_change=true&timeout_sec=$left" >/dev/null || sleep 60
  else
    sleep 60
  fi
done
