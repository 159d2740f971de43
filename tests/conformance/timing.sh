#!/bin/sh
# H200 timing and KV capacity against the reference numbers (spec/timing.md §12.1, §12.2), the shipped
# calibration against what the program makes of the measured tables (§10), rows left out of it, and the
# table of the README. Run in the source folder.
# AISIM: the program; AISIM_BUILD_DIR: the build; AISIM_VECTORS: reference numbers, with data/h200
# beside their folder.
build=${AISIM_BUILD_DIR:-build}
program=${AISIM:-$build/aisim}
vectors=${AISIM_VECTORS:-../shared/vectors}
tables=$vectors/../data/h200
calibration=lua/aisim/hardware/h200_sxm.calib
passes=$vectors/h200_pass_latency.csv
[ -f "$passes" ] || { echo "SKIP no reference numbers at $vectors"; exit 77; }

status=0
# check WHAT COMMAND...: counts one check; what the command prints is shown.
check() {
  what=$1
  shift
  echo "== $*"
  if "$@"; then echo "$what: 1 passed, 0 failed"; else echo "$what: 0 passed, 1 failed"; status=1; fi
}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

"$build/tests/timing_check" capacity "$vectors" || status=1
check "built-in calibration" "$program" timing --against "$passes" \
  --max-median 0.8 --max-p95 4 --max-worst 12 --max-family-median 1.2
"$program" timing --against "$passes" --format markdown >"$scratch/readme"
sed -n '/^<!-- aisim timing --against/,/^<!-- end/p' README.md | sed '1d;$d' >"$scratch/shown"
check "the README shows it" cmp "$scratch/readme" "$scratch/shown"

LD_PRELOAD=${AISIM_LUA_PRELOAD:-} LUA_PATH="$build/lua/?.lua;$build/lua/?/init.lua;;" LUA_CPATH="$build/lua/?.so;;" \
  lua5.4 tests/conformance/timing_mixed.lua "$vectors" || status=1

if [ -f "$tables/gemm.csv" ]; then
  "$build/tests/timing_check" passes "$vectors" tables "$tables" || status=1
  check "measured tables" "$program" timing --against "$passes" --tables "$tables" --max-worst 0.1
  check "a calibration is made" "$program" timing calibrate "$tables" -o "$scratch/a.calib"
  check "and made again" "$program" timing calibrate "$tables" -o "$scratch/b.calib"
  check "with the same bytes" cmp "$scratch/a.calib" "$scratch/b.calib"
  check "which are the shipped ones" cmp "$scratch/a.calib" "$calibration"
  check "rows left out" "$program" timing calibrate "$tables" --leave-out 20
else
  echo "SKIP no measured tables at $tables"
fi
exit $status
