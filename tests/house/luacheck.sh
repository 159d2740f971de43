#!/bin/sh
# luacheck over every Lua folder there is; the rules are in .luacheckrc.
set -u
folders=
for folder in lua scenarios examples tests; do
    [ -z "$(find $folder -name '*.lua' 2>/dev/null | head -n 1)" ] || folders="$folders $folder"
done
[ -n "$folders" ] || { echo "SKIP no Lua files yet"; exit 77; }
report=$(luacheck --no-color --quiet $folders .busted .luacheckrc)
status=$?
echo "$report"
# "Total: 2 warnings / 0 errors in 9 files"
echo "$report" | sed -nE 's/^Total: ([0-9]+) warnings? \/ ([0-9]+) errors? in ([0-9]+) files?.*/\1 \2 \3/p' |
    { read -r warnings errors files && echo "$files passed, $((warnings + errors)) failed"; }
exit $status
