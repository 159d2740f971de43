#!/bin/sh
# luacheck over every Lua folder there is; the rules are in .luacheckrc.
set -u
folders=
for folder in lua scenarios examples tests; do
    [ -z "$(find $folder -name '*.lua' 2>/dev/null | head -n 1)" ] || folders="$folders $folder"
done
[ -n "$folders" ] || { echo "SKIP no Lua files yet"; exit 77; }
luacheck --no-color --quiet $folders .busted .luacheckrc
