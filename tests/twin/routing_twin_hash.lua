--- Rendezvous hashing of spec/routing.md §2 for the twin of the routers.
local M = {}

function M.mix(x)
  local z = x + 0x9E3779B97F4A7C15
  z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
  z = (z ~ (z >> 27)) * 0x94D049BB133111EB
  return z ~ (z >> 31)
end

function M.text(text)
  local h = 0xcbf29ce484222325
  for i = 1, #text do h = (h ~ text:byte(i)) * 0x100000001b3 end
  return M.mix(h)
end

--- Numbers of targets and blocks may come from JSON as floats.
function M.weight(key, target) return M.mix(key ~ M.mix(math.tointeger(target.worker * 65536 + target.rank))) end

--- The key of a request under key = session, root, user or prefix.
function M.key(config, request)
  local kind = config.key
  if kind == "prefix" and #request.blocks > 0 then
    local k = 0
    for i = 1, math.min(config.prefix_blocks, #request.blocks) do k = M.mix(k ~ math.tointeger(request.blocks[i])) end
    return k
  end
  if kind == "user" and request.user then return M.text(request.user) end
  local session = kind == "root" and request.root or request.session -- a root session is its own root
  if (kind == "session" or kind == "root") and session then return M.text((request.play or "") .. "/" .. session) end
  return M.text(request.id)
end

return M
