#!/bin/sh
# What a study does on a host, in POSIX sh: `sh` reads it from standard input, with one call of `main` at its end.
# All of it lies in ~/.fathom: bin/ has binaries by their SHA-256, studies/STUDY/HOST/JOB what was started.
# A job is a directory: pid (its supervisor's), out, err, code (once it has ended), rec (its recording).
set -u
umask 077

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# Who this is, and what a study left here.
do_hello() {
  uname -s
  [ "$(uname -s)" = Linux ] || return 0
  uname -m
  for tool in date df grep head mkdir setsid sha256sum stat tail timeout tr; do
    command -v "$tool" >/dev/null || fail "$tool is missing there"
  done
  mkdir -p .fathom/bin "$dir" || exit 1
  pwd
  df -Pk .fathom/bin | tail -n 1 | {
    read -r _ _ _ kib _
    printf '%s\n' "$kib"
  }
  for job in "$dir"/*/; do
    [ -d "$job" ] || continue
    job=${job%/}
    printf '%s %s\n' "$(state "$job")" "${job##*/}"
  done
}

sum() {
  sha256sum <"$1" | head -c 64
}

binary_of() {
  printf '%s/.fathom/bin/fathom-%s' "$PWD" "$(printf %s "$1" | head -c 16)"
}

# SHA256: whether that binary is here, whole.
do_there() {
  path=$(binary_of "$1")
  if [ -x "$path" ] && [ "$(sum "$path")" = "$1" ]; then echo yes; else echo no; fi
}

# PART SHA256: what was sent becomes the binary, at once or not at all.
do_install() {
  [ "$(sum "$1")" = "$2" ] || fail "what arrived is not what was sent"
  chmod 700 "$1" && mv -f "$1" "$(binary_of "$2")"
}

# SHA256: where the binary is; it must run here.
do_try() {
  path=$(binary_of "$1")
  "$path" --version >/dev/null || exit 1
  printf '%s\n' "$path"
}

# Whether a process bears a mark in its environment: unlike its id, that cannot be another's.
bears() {
  { tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null | grep -qxF "$2"
}

state() {
  pid=$(cat "$1/pid" 2>/dev/null)
  if [ -f "$1/code" ]; then
    cat "$1/code"
  elif [ -n "$pid" ] && bears "$pid" "FATHOMETER_STUDY=$study"; then
    echo running
  elif [ -f "$1/code" ]; then # It ended between the two looks.
    cat "$1/code"
  else
    echo lost
  fi
}

# Outlives the connection that started it, and what it was told to do to its child by SIGTERM: the code is written.
# The reserve makes room for the code on a disk that is full.
# shellcheck disable=SC2016 # They expand in the supervisor.
supervisor='
  trap : TERM INT HUP
  job=$1 limit=$2
  shift 2
  echo $$ >"$job/pid.new" && mv "$job/pid.new" "$job/pid"
  timeout -s TERM "$limit" "$@" </dev/null >"$job/out" 2>"$job/err"
  code=$?
  rm -f "$job/reserve"
  echo "$code" >"$job/code.new" && mv "$job/code.new" "$job/code"
'

# JOB LIMIT_S COMMAND...: starts it, unless it was started already (the answer to that may have been lost); its state
# and how many seconds ago that was.
do_start() {
  job=$dir/$1
  name=$1 limit=$2
  shift 2
  if ! [ -d "$job" ]; then
    mkdir "$job" || exit 1
    if ! head -c 4096 /dev/zero >"$job/reserve"; then
      rm -rf "$job"
      exit 1
    fi
    FATHOMETER_STUDY=$study FATHOMETER_JOB=$dir/$name \
      setsid sh -c "$supervisor" fathom-job "$PWD/$job" "$limit" "$@" </dev/null >/dev/null 2>&1 &
    tries=0
    until [ -s "$job/pid" ] || [ -f "$job/code" ] || [ "$tries" -ge 100 ]; do
      sleep 0.05
      tries=$((tries + 1))
    done
  fi
  printf '%s %s\n' "$(state "$job")" "$(($(date +%s) - $(stat -c %Y "$job")))"
}

# NAME OFFSET, with $left: the file's identity, and its bytes from there on as far as is left.
# shellcheck disable=SC2094 # Nothing is written.
piece() {
  [ -f "$1" ] || return 0
  {
    # Of the open file: the name may be another file's a moment later.
    # shellcheck disable=SC2046
    set -- "$1" "$2" $(stat -L -c '%i %s %Y' /dev/fd/3)
    length=$(($4 - $2))
    [ "$length" -le "$left" ] || length=$left
    [ "$length" -ge 0 ] || length=0
    printf 'piece %s %s %s %s %s %s\n' "$3" "$4" "$5" "$2" "$length" "$1"
    [ "$length" -eq 0 ] || tail -c "+$(($2 + 1))" <&3 | head -c "$length"
    left=$((left - length))
  } 3<"$1"
}

# JOB BUDGET [NAME OFFSET]...: its state, the recording's files, and more of those named, BUDGET bytes in all.
do_look() {
  # The state first: what is listed after the end is the whole.
  state "$dir/$1"
  left=$2
  cd "$dir/$1/rec" 2>/dev/null || return 0
  shift 2
  stat -c 'file %i %s %Y %n' -- * 2>/dev/null
  while [ "$#" -ge 2 ]; do
    piece "$1" "$2"
    shift 2
  done
}

# JOB: what it said.
do_said() {
  cd "$dir/$1" || exit 1
  left=1048576
  piece out 0
  piece err 0
}

# JOB: the recording's files by SHA-256.
do_sums() {
  cd "$dir/$1/rec" 2>/dev/null || return 0
  sha256sum -- *
}

# VARIABLE=VALUE: ends what bears it, gently first, and tells how many processes that were.
end() {
  found=
  for proc in /proc/[0-9]*; do
    if bears "${proc#/proc/}" "$1"; then found="$found ${proc#/proc/}"; fi
  done
  count=0
  for pid in $found; do count=$((count + 1)); done
  for sign in TERM KILL; do
    tries=0
    left=$found
    while [ -n "$left" ] && [ "$tries" -lt 50 ]; do
      now=
      for pid in $left; do
        if bears "$pid" "$1"; then
          [ "$tries" -gt 0 ] || kill -s "$sign" "$pid" 2>/dev/null
          now="$now $pid"
        fi
      done
      left=$now
      tries=$((tries + 1))
      [ -z "$left" ] || sleep 0.1
    done
  done
  [ -z "$left" ] || fail "process$left does not end"
  printf '%s\n' "$count"
}

# JOB: ends it if it runs, and takes it away.
do_drop() {
  [ -f "$dir/$1/code" ] || end "FATHOMETER_JOB=$dir/$1" >/dev/null
  rm -rf "${dir:?}/$1"
}

# Ends whatever the study left here, and takes it away.
do_clear() {
  end "FATHOMETER_STUDY=$study"
  rm -rf "${dir:?}" ".fathom/bin/.part-$study"*
  rmdir ".fathom/studies/$study" .fathom/studies 2>/dev/null || :
}

main() {
  cd || exit 1
  study=$1 dir=.fathom/studies/$1/$2 verb=$3
  shift 3
  # The answer begins here: a login shell may have said other things before.
  printf '\nfathom-host 1\n'
  "do_$verb" "$@"
}
