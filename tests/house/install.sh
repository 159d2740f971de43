#!/bin/sh
# Installs into a temporary prefix and uses what arrived there from /, as a user would: the program,
# the module in a stock lua5.4, the headers with libaisim.a.  Usage: install.sh CMAKE (by ctest)
set -u
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
trap 'exit 1' INT TERM
passed=0 failed=0 skipped=0

# check WHAT COMMAND...: runs it from /, shows its output when it fails.
check() {
    what=$1
    shift
    if (cd / && "$@") >"$prefix/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$what: failed: $*"
        cat "$prefix/log"
    fi
}

skip() {
    skipped=$((skipped + 1))
    echo "SKIP $1"
}

check "install" "$1" --install "$AISIM_BUILD_DIR" --prefix "$prefix"

# The build tree must not help: none of its paths in the environment.
unset LUA_PATH LUA_CPATH AISIM_LUA_PATH
if [ -x "$prefix/bin/aisim" ]; then
    check "version" "$prefix/bin/aisim" version
    for file in man/man1/aisim.1 bash-completion/completions/aisim zsh/site-functions/_aisim \
        fish/vendor_completions.d/aisim.fish; do
        check "share/$file" grep -q "timeline.*window" "$prefix/share/$file"
    done
    check "a new scenario" env HOME="$prefix" sh -c "cd '$prefix' && bin/aisim new router mine && bin/aisim run mine.lua"
    scenario=$prefix/share/aisim/scenarios/agentx.lua
    if [ -f "$scenario" ]; then
        check "scenario" "$prefix/bin/aisim" run "$scenario" --quiet
    else
        skip "no scenario installed yet"
    fi
else
    skip "no program yet (src/cli is empty)"
fi

if [ -f "$prefix/lib/lua/5.4/aisim/core.so" ] && [ -f "$prefix/share/lua/5.4/aisim/init.lua" ]; then
    share=$prefix/share/lua/5.4
    check "module" env "LUA_PATH=$share/?.lua;$share/?/init.lua;;" "LUA_CPATH=$prefix/lib/lua/5.4/?.so;;" \
        ${AISIM_LUA_PRELOAD:+"LD_PRELOAD=$AISIM_LUA_PRELOAD" ASAN_OPTIONS=detect_leaks=0} \
        lua5.4 -e 'local aisim = require "aisim"; assert(type(aisim) == "table" and aisim.version)'
else
    skip "no Lua module yet (src/lua or lua/aisim is empty)"
fi

cat >"$prefix/embed.c" <<'C'
#include <aisim/status.h>
#include <string.h>
int main(void) { return strcmp(aisim_status_name(AISIM_EFULL), "EFULL"); }
C
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name aisim.pc)")
export PKG_CONFIG_PATH
flags=$(pkg-config --define-variable=pcfiledir="$PKG_CONFIG_PATH" --cflags --libs aisim)
check "C program" "${CC:-cc}" -std=c11 $AISIM_LINK_FLAGS -o "$prefix/embed" "$prefix/embed.c" $flags
check "C program runs" "$prefix/embed"

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
