#!/bin/sh
# Runs a fuzzer with clang's engine and the address and undefined sanitizers.
#   sh tests/fuzz/run.sh NAME [SECONDS [LIMIT]]     NAME = yaml, set, trace, …: tests/fuzz/fuzz_NAME.c
# One input may take LIMIT seconds (20): more on a machine that is busy with other things.
# New inputs go to build-fuzz/NAME; a finding leaves crash-* there and ends with status 1.
set -eu
cd "$(dirname "$0")/../.."
name=${1:?usage: sh tests/fuzz/run.sh NAME [SECONDS [LIMIT]]}
seconds=${2:-60}
limit=${3:-20}
command -v clang >/dev/null || { echo "fuzz: clang and libclang-rt-dev are needed"; exit 2; }
mkdir -p "build-fuzz/$name"
sources=$(find src -name '*.c' -not -path 'src/lua/*' -not -path 'src/cli/*' | sort)
# shellcheck disable=SC2086
clang -std=c11 -O1 -g -fsanitize=fuzzer,address,undefined -D_POSIX_C_SOURCE=200809L -DAISIM_ASSERTS \
  '-DAISIM_VERSION="fuzz"' -ffp-contract=off -Iinclude -Isrc -Itests/twin "tests/fuzz/fuzz_$name.c" $sources \
  -ljansson -lyaml -lz -lm -o "build-fuzz/fuzz_$name"
"build-fuzz/fuzz_$name" -max_total_time="$seconds" -timeout="$limit" -rss_limit_mb=2048 -print_final_stats=1 \
  -artifact_prefix="build-fuzz/$name/" "build-fuzz/$name" "tests/fuzz/corpus/$name"
