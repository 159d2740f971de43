--- What the comparisons written in Lua (*_compare.lua) share: their flags, and a stream of random
-- numbers that is the same on every machine.
local M = {}

local state = 0

--- Begins case `number` of a seed.
function M.begin(seed, number)
  state = seed * 7919 + number
  for _ = 1, 4 do M.random(9) end
end

--- Uniform in 1..n.
function M.random(n)
  state = (state * 48271 + 11) % 2147483647
  return state // 7 % n + 1
end

function M.pick(list) return list[M.random(#list)] end
function M.chance(percent) return M.random(100) <= percent end

--- Flags from place `first` of arg on: --count N, --seed S and, where known, --vectors FILE.
---@param vectors boolean   is --vectors known?
---@return table options
function M.flags(first, vectors)
  local options = { count = 200, seed = 1 }
  for i = first, #arg, 2 do
    local name = arg[i]:match "^%-%-(%a+)$"
    if name == "vectors" and vectors then
      options.vectors = arg[i + 1]
    else
      assert(name == "count" or name == "seed", "unknown flag " .. arg[i])
      options[name] = assert(math.tointeger(arg[i + 1]), "number expected")
    end
  end
  return options
end

return M
