-- Lua 5.4 only; tests know busted. Ignored: unused self, unused names that begin with an underscore.
std = "lua54"
self = false
max_line_length = 120
cache = false
files["tests/**/*_spec.lua"] = { std = "+busted" }
files["tests/spec/helper.lua"] = { std = "+busted" }
files[".luacheckrc"] = { std = "+luacheckrc" }
files[".busted"] = { max_line_length = false }
