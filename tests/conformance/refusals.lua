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

--- A configuration, or { roles = { engine, … } }: one pool each, in one simulation.
local function try(name, config)
  local aisim = require "aisim"
  local sim = aisim.new { seed = 1, name = name }
  for i, engine in ipairs(config.roles or { config }) do
    engine.model, engine.hardware = engine.model or "llama-3.1-8b", engine.hardware or "h200_sxm"
    local accepted, message = pcall(sim.pool, sim, { name = "pool" .. i, workers = 1, engine = engine })
    if not accepted then return false, message end
  end
  return true
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
