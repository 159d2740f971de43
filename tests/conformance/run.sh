#!/bin/sh
# run.sh FILE... - tests/conformance/run.lua on files of the folder of reference numbers, for ctest.
# AISIM_VECTORS: that folder (exit 77, skipped, when it is absent). Run in the source folder.
vectors=${AISIM_VECTORS:-../shared/vectors}
[ -d "$vectors" ] || { echo "SKIP no reference numbers at $vectors"; exit 77; }
for name in "$@"; do
  [ -f "$vectors/$name" ] || { echo "SKIP no $name at $vectors"; exit 77; }
done
folder=$vectors
for name in "$@"; do
  set -- "$@" "$folder/$name"
  shift
done
exec lua5.4 tests/conformance/run.lua --later tests/conformance/later.txt "$@"
