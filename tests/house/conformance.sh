#!/bin/sh
# Stands in for the conformance test where it cannot run, so that the absence is seen.
[ -d "$AISIM_VECTORS" ] || { echo "SKIP no reference numbers at ../shared/vectors"; exit 77; }
[ -f tests/conformance/run.sh ] || { echo "SKIP tests/conformance is empty"; exit 77; }
exec sh tests/conformance/run.sh
