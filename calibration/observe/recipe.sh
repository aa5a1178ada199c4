#!/bin/sh
# Observes an engine with plain tools; `forecache calibrate FOLDER` reads what it writes.
# Usage: sh recipe.sh FOLDER. Takes about @minutes@ minutes; leave the machine alone meanwhile.
set -eu
engine=${ENGINE:-@engine@}
bench=${BENCH:-@bench@}
cli=${CLI:-@cli@}
port=${PORT:-16379}
repetitions=${REPETITIONS:-3}
window_s=${WINDOW_S:-0.5}
only=${ONLY:-}  # numbers of the points to measure, such as '001 002'; none stands for all
events='@events@'

mkdir -p "${1:?usage: sh recipe.sh FOLDER}/points"
folder=$(cd "$1" && pwd)
last=$(($(nproc) - 1))
main_pin= load_pin= cores=0
if command -v taskset >/dev/null; then main_pin='taskset -c 0' load_pin="taskset -c $last"; fi
[ "$last" = 0 ] || cores=0,$last
scratch=$(mktemp -d)
socket=$scratch/socket
pid= loaded= learnt= sampled=

hog=
stop() { if [ -n "$pid" ]; then kill "$pid" && wait "$pid" || true; fi; pid=; }
trap 'unhog; stop; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

ask() { "$cli" -s "$socket" "$@"; }

# Threads of a role, main or io, by id
threads() {
  for task in /proc/"$pid"/task/*; do
    name=$(cat "$task/comm")
    case "$1 $name" in 'io io_thd'*) echo "${task##*/}" ;; esac
  done
  [ "$1" = io ] || echo "$pid"
}

# Where threads are for a moment, by id: a file
sample() {
  perf record -q -e cpu-clock -F 4001 -C "$cores" -o "$scratch/perf.data" -- sleep 0.8 >/dev/null 2>&1
  perf script -i "$scratch/perf.data" -F tid,ip,sym 2>/dev/null >"$1"
}

unhog() { if [ -n "$hog" ]; then kill "$hog" && wait "$hog" || true; fi 2>/dev/null; hog=; }

# Samples of threads while those of a role hardly get a core: role, core, file
starved() {
  taskset -c "$2" sh -c 'while :; do :; done' &
  hog=$!
  for thread in $(threads "$1"); do chrt -i -p 0 "$thread"; done
  sleep 0.1
  sample "$3"
  for thread in $(threads "$1"); do chrt -o -p 0 "$thread"; done
  unhog
}

# Where threads are that work, and that only wait, if that can be found out: folder
learn() {
  mkdir "$1"
  n=$(awk -v n="$n" 'BEGIN { print n * 20 }')
  drive &
  driving=$!
  sleep 0.5
  sample "$1/working.txt"
  starved io "$last" "$1/main.txt"
  starved main 0 "$1/io.txt"
  wait "$driving" || true
}

# Server with keys key:000000000000 and so on: I/O threads, keys, bytes of a value
data_set() {
  stop
  # Versions before 6.0 don't know the option, whose default is one.
  io_threads=
  if [ "$1" -gt 1 ]; then io_threads="--io-threads $1"; fi
  # shellcheck disable=SC2086
  $main_pin "$engine" --port "$port" --bind 127.0.0.1 --unixsocket "$socket" --save '' \
    --appendonly no --dir "$scratch" $io_threads >"$folder/engine.log" 2>&1 &
  pid=$!
  tries=0
  until ask PING >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 20 ] || { echo "$engine doesn't answer, see $folder/engine.log" >&2; exit 1; }
    sleep 1
  done
  sampled=
  if [ "$1" -gt 1 ] && command -v taskset >/dev/null; then
    for thread in $(threads io); do taskset -pc "$last" "$thread" >/dev/null; done
    # Only who may follow whole cores and raise priorities can tell waiting from work.
    if [ "$(id -u)" = 0 ] && [ "$last" != 0 ] && command -v chrt >/dev/null &&
      perf record -q -a -e cpu-clock:k -o "$scratch/perf.data" -- true >/dev/null 2>&1; then
      sampled=yes
    fi
  fi
  value=$(awk -v n="$3" 'BEGIN { while (n-- > 0) printf "v" }')
  awk -v keys="$2" -v value="$value" 'BEGIN {
    for (i = 0; i < keys; i++) printf "SET key:%012.0f %s\r\n", i + @first_key@, value
  }' | ask --pipe >/dev/null
  ask CONFIG GET '*' >"$folder/config.txt"
  ask INFO server >"$folder/server.info"
  ask INFO memory >"$folder/memory.info"
}

# Threads: id|name|CPU ns, waiting ns, slices|voluntary and involuntary switches
tasks() {
  for task in /proc/"$pid"/task/*; do
    echo "${task##*/}|$(cat "$task/comm")|$(cat "$task/schedstat")|$(
      awk '/ctxt_switches/ { printf "%s ", $2 }' "$task/status")"
  done
}

# Drives the engine with n requests (memtier_benchmark: n a client), run by the command given
drive() {
  eval "$* $load_pin \"\$bench\" $arguments" >"$at/bench.out" 2>"$at/bench.err" || {
    echo "$bench failed, see $at/bench.err" >&2
    return 1
  }
}

# Number, conditions, `profile` or not, I/O threads, keys and bytes of the data set, what n counts
# by, arguments
point() {
  case " ${only:-$1} " in *" $1 "*) ;; *) return 0 ;; esac
  [ "$loaded" = "$4 $5 $6" ] || data_set "$4" "$5" "$6"
  loaded="$4 $5 $6"
  each=$7
  arguments=$8
  at=$folder/points/$1
  mkdir "$at"
  echo "$2" >"$at/given.json"
  echo "point $1"
  n=@pilot@
  from=$(cut -d' ' -f1 /proc/uptime)
  drive
  until=$(cut -d' ' -f1 /proc/uptime)
  n=$(awk -v n="$n" -v s="$window_s" -v a="$from" -v b="$until" 'BEGIN {
    t = b - a; if (t < 0.02) t = 0.02; m = int(n * s / t); print (m > n ? m : n) }')
  point_at=$at
  if [ -n "$sampled" ] && [ "$learnt" != "$loaded" ]; then
    waiting=$folder/waiting/$1
    mkdir -p "$folder/waiting"
    fast=$n
    learn "$waiting"
    n=$fast learnt=$loaded
  fi
  if [ -n "$sampled" ]; then echo "${waiting##*/}" >"$at/waiting"; fi
  for repetition in $(awk -v n="$repetitions" 'BEGIN { for (i = 1; i <= n; i++) print i }'); do
    at=$point_at/$repetition
    mkdir "$at"
    echo "$((n * each))" >"$at/requests"
    ask INFO all >"$at/before.info"
    tasks >"$at/before.tasks"
    cut -d' ' -f1 /proc/uptime >"$at/before.uptime"
    times >"$at/before.times"
    if [ -n "$sampled" ]; then
      drive perf record -q -e cpu-clock -F 1999 -C "$cores" -o "'$scratch/perf.data'" --
    else
      drive
    fi
    times >"$at/after.times"
    cut -d' ' -f1 /proc/uptime >"$at/after.uptime"
    tasks >"$at/after.tasks"
    ask INFO all >"$at/after.info"
    if [ -n "$sampled" ]; then
      perf script -i "$scratch/perf.data" -F tid,ip,sym 2>/dev/null >"$at/places.txt"
    fi
  done
  # Without the right to sample the kernel, perf would silently leave it out.
  if [ "$3" = profile ] &&
    perf record -q -e cpu-clock:k -o "$scratch/perf.data" -- true >/dev/null 2>&1; then
    at=$point_at/perf
    mkdir "$at"
    echo "$((n * each))" >"$at/requests"
    tasks >"$at/after.tasks"
    perf --version >"$at/version.txt"
    drive perf stat -x "';'" -o "'$at/stat.txt'" "$events" -p "$pid" -- || rm -f "$at/stat.txt"
    drive perf record -q -g -e cpu-clock -F 4000 -o "'$scratch/perf.data'" -p "$pid" -- &&
      perf script -i "$scratch/perf.data" -F comm,pid,tid,time,event,period,ip,sym,dso \
        >"$at/script.txt" 2>/dev/null || rm -f "$at/script.txt"
  fi
}

uname -srm >"$folder/uname.txt"
lscpu >"$folder/lscpu.txt" || true
cp /proc/cpuinfo "$folder/cpuinfo.txt"
nproc >"$folder/nproc.txt"
"$engine" --version >"$folder/engine.txt"
sha256sum "$(command -v "$engine")" >"$folder/sha256.txt"
date -u +%Y-%m-%dT%H:%M:%S+00:00 >"$folder/date.txt"

@points@

echo "@format@ @tool@" >"$folder/recipe.txt"
echo "wrote $folder"
