-- compare.lua - the subset rule of the vectors: every key of `want` must be in `have`; lists and
-- scalars exactly, null means nil.

local cjson = require "cjson"

local function is_list(value)
  return type(value) == "table" and (#value > 0 or next(value) == nil)
end

local function show(value)
  if type(value) == "table" then
    return cjson.encode(value)
  end
  return tostring(value)
end

local subset

local function list(want, have, path)
  if type(have) ~= "table" or #want ~= #have then
    return ("%s: want %s, have %s"):format(path, show(want), show(have))
  end
  for i = 1, #want do
    local difference = subset(want[i], have[i], path .. "[" .. i .. "]")
    if difference then
      return difference
    end
  end
end

function subset(want, have, path)
  if want == cjson.null then
    want = nil
  end
  if type(want) ~= "table" then
    if want == have or (type(want) == "number" and type(have) == "number" and want == have) then
      return nil
    end
    return ("%s: want %s, have %s"):format(path, show(want), show(have))
  end
  if #want > 0 then
    return list(want, have, path)
  end
  if type(have) ~= "table" then
    return ("%s: want %s, have %s"):format(path, show(want), show(have))
  end
  if is_list(want) and next(want) == nil then
    if next(have) ~= nil then
      return ("%s: want nothing, have %s"):format(path, show(have))
    end
    return nil
  end
  for key, value in pairs(want) do
    local difference = subset(value, have[key], path .. "." .. key)
    if difference then
      return difference
    end
  end
end

return subset
