#!/bin/sh
# quickstart.sh - from a fresh clone to a first result: packages, build into build/, one scenario.
# Usage: sh examples/quickstart.sh [flags of aisim run, for example --set rate=4]
# On Debian 12 missing packages are installed (root or sudo); a second call takes seconds.
set -eu
cd "$(dirname "$0")/.."
. examples/packages.sh

aisim_packages
echo "aisim: building into build/"
aisim_configure build
cmake --build build --parallel "$(aisim_jobs)" --target aisim >build/build.log 2>&1 || {
    cat build/build.log >&2
    exit 1
}
echo "aisim: build/aisim run scenarios/agentx.lua $*"
exec build/aisim run scenarios/agentx.lua "$@"
