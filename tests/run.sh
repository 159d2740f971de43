#!/bin/sh
# run.sh - builds aisim and runs every test there is; the last line is "N passed, N failed[, N skipped]".
#
# Usage: sh tests/run.sh [--sanitize] [--build DIR] [-- ctest arguments, for example -L unit]
#   --sanitize   same tests with address and undefined-behaviour sanitizers, from build-asan/
#                (also AISIM_SANITIZE=1 in the environment)
#   AISIM_WERROR=ON  makes warnings errors;  AISIM_JOBS=N  limits parallel jobs
# Exit status: 0 when nothing failed. On Debian 12 missing packages are installed first.
set -eu
cd "$(dirname "$0")/.."
. examples/packages.sh

sanitize=${AISIM_SANITIZE:-}
build=
while [ $# -gt 0 ]; do
    case $1 in
        --sanitize) sanitize=1 ;;
        --build) shift; build=${1:?--build needs a folder} ;;
        --) shift; break ;;
        *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done

# What cannot even start is one failure, so that the last line always has the same form.
cannot() { echo "0 passed, 1 failed"; exit 1; }

aisim_packages || cannot
if [ -n "$sanitize" ] && [ "$sanitize" != 0 ]; then
    build=${build:-build-asan}
    cache="-C src/cmake/asan.cmake"
else
    build=${build:-build}
    cache=
fi
[ ! -f "$build/CMakeCache.txt" ] || cache=
[ -z "${AISIM_WERROR:-}" ] || cache="$cache -DAISIM_WERROR=$AISIM_WERROR"

echo "aisim: building into $build/"
aisim_configure "$build" $cache || cannot
# A target that fails must not hide the results of the others: the build goes on, then the tests run.
built=0
keep_going=-k
! grep -q '^CMAKE_GENERATOR:INTERNAL=Ninja' "$build/CMakeCache.txt" || keep_going='-k 0'
cmake --build "$build" --parallel "$(aisim_jobs)" -- $keep_going >"$build/build.log" 2>&1 || built=1
grep -E 'warning:|error:|^FAILED:' "$build/build.log" || true

log=$build/Testing/Temporary/LastTest.log
rm -f "$log"
ctest --test-dir "$build" --parallel "$(aisim_jobs)" --output-on-failure "$@" >"$build/ctest.log" 2>&1 || true
[ -f "$log" ] || { cat "$build/ctest.log"; cannot; }
grep -vE '^( *Start +[0-9]+:|Could not find exec|Looked in the foll|/?[^ ]*/aisim_test_[a-z_]*$|Internal ctest|Test project|Connected to|Errors while|Total Test time|Label Time|[a-z]+ +=  .*sec.proc|$)' "$build/ctest.log" || true
awk -v built="$built" -f tests/house/count.awk "$build/ctest.log" "$log"
