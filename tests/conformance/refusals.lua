--- Kinds `validate` of mtp.json and offload.json: every configuration must be refused by the product's
--- schema; message i names error_mentions[i].
local cjson = require "cjson"

local function plain(value)
  if value == cjson.null then return nil end
  if value == "nan" then return 0 / 0 end
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, item in pairs(value) do copy[key] = plain(item) end
  return copy
end

local function try(name, engine)
  local aisim = require "aisim"
  engine.model, engine.hardware = engine.model or "llama-3.1-8b", engine.hardware or "h200_sxm"
  local sim = aisim.new { seed = 1, name = name }
  return pcall(sim.pool, sim, { name = "main", workers = 1, engine = engine })
end

return function(vector)
  local expect = vector.expect
  local sound, why = try(vector.name, {})
  if not sound then return false, "not even the defaults are accepted: " .. tostring(why) end
  for key in pairs(expect) do
    if key ~= "all_refused" and key ~= "error_mentions" then return false, ("unknown expected key '%s'"):format(key) end
  end
  for i, case in ipairs(vector.requests) do
    local accepted, message = try(vector.name, plain(case.config))
    if accepted then return false, ("%s: accepted"):format(case.case) end
    local word = expect.error_mentions and expect.error_mentions[i]
    if word and not tostring(message):find(word, 1, true) then
      return false, ("%s: the message does not mention '%s': %s"):format(case.case, word, tostring(message))
    end
  end
  return true
end
