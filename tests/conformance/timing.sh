#!/bin/sh
# H200 timing and KV capacity against the reference numbers (spec/timing.md §12.1, §12.2), and the
# shipped calibration against the tool that makes it. Run in the source folder.
# AISIM_BUILD_DIR: the build; AISIM_VECTORS: reference numbers, with data/h200 beside their folder.
tools=${AISIM_BUILD_DIR:-build}/tests
vectors=${AISIM_VECTORS:-../shared/vectors}
tables=$vectors/../data/h200
calibration=lua/aisim/hardware/h200_sxm.calib
[ -f "$vectors/h200_pass_latency.csv" ] || { echo "SKIP no reference numbers at $vectors"; exit 77; }

status=0
run() {
  echo "== $*"
  "$@" || status=1
}
run "$tools/timing_check" capacity "$vectors"
run "$tools/timing_check" passes "$vectors" calibration "$calibration"
if [ -f "$tables/gemm.csv" ]; then
  run "$tools/timing_check" passes "$vectors" tables "$tables"
  made=$(mktemp) || exit 1
  trap 'rm -f "$made"' EXIT
  run "$tools/timing_calibrate" "$tables" "$made"
  if cmp -s "$made" "$calibration"; then
    echo "the shipped calibration is what the tool makes: 1 passed, 0 failed"
  else
    echo "$calibration differs from what timing_calibrate makes: 0 passed, 1 failed"
    status=1
  fi
else
  echo "SKIP no measured tables at $tables"
fi
exit $status
