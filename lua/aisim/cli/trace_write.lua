--- Writing trace files: conversion, samples, other time scales.
local core = require "aisim.core"
local fault = require "aisim.cli.fault"
local file_of = require "aisim.file"
local near = require "aisim.near"
local terminal = require "aisim.cli.terminal"

local M = {}

local PLAY_FORMATS <const> = { weka = true, agentic_mooncake = true, mooncake = true, lengths = true }
local ROW_FORMATS <const> = { mooncake = true, lengths = true }

--- "10%" as a share, "200" as a number of units.
local function sample_of(text)
  local share = text:match "^([%d.]+)%%$"
  local n = math.tointeger(tonumber(text))
  if share and tonumber(share) and tonumber(share) > 0 and tonumber(share) <= 100 then return tonumber(share) / 100 end
  if n and n >= 1 then return nil, n end
  fault.usage("trace: --sample %s: a number or a share expected, for example 200 or 10%%", text)
end

local function quoted(text)
  return '"' .. text:gsub('[%c"\\]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
end

local function decimal(value)
  local whole = math.tointeger(value)
  return whole and ("%d"):format(whole) or (("%.6f"):format(value):gsub("0+$", ""))
end

local function ids_text(runs, offset)
  local out = {}
  for i = 1, #runs, 2 do
    for id = runs[i], runs[i] + runs[i + 1] - 1 do out[#out + 1] = ("%d"):format(id + offset) end
  end
  return table.concat(out, ", ")
end

-- One row as a line. row: see core.trace, with session and offset of ids
local WRITERS <const> = {}

function WRITERS.mooncake(row, factor)
  local parts = {}
  if row.arrival_ms then parts[#parts + 1] = '"timestamp": ' .. decimal(row.arrival_ms / factor) end
  if row.session then parts[#parts + 1] = '"session_id": ' .. quoted(row.session) end
  if row.delay_ms then parts[#parts + 1] = '"delay": ' .. decimal(row.delay_ms / factor) end
  parts[#parts + 1] = ('"input_length": %d, "output_length": %d'):format(row.input_tokens, row.output_tokens)
  if row.runs and #row.runs > 0 then
    parts[#parts + 1] = ('"hash_ids": [%s]'):format(ids_text(row.runs, row.offset or 0))
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

function WRITERS.lengths(row) return ("%d,%d"):format(row.input_tokens, row.output_tokens) end

local HEADS <const> = { lengths = "input_tokens,output_tokens" }

--- Calls fn(line) into a file that appears when it is complete.
local function write_file(path, body)
  local temporary = file_of.target(path) .. ".part"
  local file, problem = io.open(temporary, "wb")
  if not file then fault.usage("%s: cannot be written: %s", path, problem) end
  local fine, n = pcall(body, file)
  local closed = file:close()
  if not fine or not closed then
    os.remove(temporary)
    if not fine then error(n, 0) end
    fault.usage("%s: cannot be written", path)
  end
  assert(os.rename(temporary, path))
  return n
end

--- Which units (sessions, or rows without one) a sample keeps: a set of their numbers.
local function chosen_units(source, options)
  if not options.sample then return nil end
  local share, n = sample_of(options.sample)
  local rows, seen, count = core.trace(source.paths, source.options), {}, 0
  local row = rows:next()
  while row do
    if not row.session then
      count = count + 1
    elseif not seen[row.session] then
      seen[row.session], count = true, count + 1
    end
    row = rows:next()
  end
  n = n or math.max(1, math.floor(share * count + 0.5))
  local rng, keep, kept = core.rng(options.seed, "trace:sample"), {}, 0
  for i = 1, count do
    if rng:uniform(0, 1) * (count - i + 1) < n - kept then keep[i], kept = true, kept + 1 end
  end
  return keep
end

local function write_rows(source, options, format)
  local keep = chosen_units(source, options)
  local writer, factor = WRITERS[format], options.scale or 1
  return write_file(options.path, function(file)
    if HEADS[format] then file:write(HEADS[format], "\n") end
    local rows, seen, units, n = core.trace(source.paths, source.options), {}, 0, 0
    local row = rows:next(true)
    while row do
      local unit = row.session and seen[row.session]
      if not unit then
        units = units + 1
        unit = units
        if row.session then seen[row.session] = unit end
      end
      if not keep or keep[unit] then
        if row.delta and format == "mooncake" then
          fault.usage("trace: --convert mooncake: %s gives what a turn adds, not whole prompts", source.format)
        end
        file:write(writer(row, factor), "\n")
        n = n + 1
      end
      row = rows:next(true)
    end
    return n
  end)
end

--- Plays as rows: conversations as sessions, ids that mean the same in the whole file.
local function write_flat(plays, options, format)
  local writer, factor = WRITERS[format], options.scale or 1
  return write_file(options.path, function(file)
    if HEADS[format] then file:write(HEADS[format], "\n") end
    local list, offset = {}, 0
    for play in plays:each() do
      local largest = -1
      for i, request in ipairs(play.requests) do
        local runs, room = {}, (request.input_tokens + play.block_size - 1) // play.block_size
        for k = 1, #request.hash_runs, 2 do
          local count = math.min(request.hash_runs[k + 1], room)
          room = room - count
          if count > 0 then
            runs[#runs + 1], runs[#runs + 2] = request.hash_runs[k], count
            largest = math.max(largest, request.hash_runs[k] + count - 1)
          end
        end
        list[#list + 1] = { arrival_ms = play.start_ms + request.start_ms, order = #list, runs = runs, offset = offset,
          input_tokens = request.input_tokens, output_tokens = request.output_tokens,
          session = ("%d/%d"):format(play.ordinal, request.conversation), number = i }
      end
      offset = offset + largest + 1
    end
    table.sort(list, function(a, b)
      if a.arrival_ms ~= b.arrival_ms then return a.arrival_ms < b.arrival_ms end
      return a.order < b.order
    end)
    for _, row in ipairs(list) do file:write(writer(row, factor), "\n") end
    return #list
  end)
end

local function write_plays(source, options, format)
  local plays = source.plays
  if options.sample then
    local share, n = sample_of(options.sample)
    plays = plays:sample(n or math.max(1, math.floor(share * #plays + 0.5)), options.seed)
  end
  if format == "weka" or format == "agentic_mooncake" then
    if options.scale and options.scale ~= 1 then plays = plays:rescale { time = 1 / options.scale } end
    plays:save(options.path, { format = format, hash_runs = options.hash_runs or nil })
    return ("%d plays, %d requests"):format(#plays, plays.requests)
  end
  return ("%d requests"):format(write_flat(plays, options, format))
end

--- Writes what the options say. Returns what to tell the user.
function M.to(source, options)
  local formats = source.plays and PLAY_FORMATS or ROW_FORMATS
  local format = options.format or (source.plays and (source.format == "weka" and "weka" or "agentic_mooncake"))
    or (ROW_FORMATS[source.format] and source.format or "mooncake")
  if not formats[format] then
    local names = {}
    for name in pairs(formats) do names[#names + 1] = name end
    table.sort(names)
    fault.usage("trace: --convert %s: %s can become one of %s%s", format, source.format, table.concat(names, ", "),
      near.hint(format, formats))
  end
  if options.hash_runs and format ~= "weka" then fault.usage("trace: --hash-runs belongs to format weka") end
  if format == "lengths" and (source.format ~= "lengths" or options.scale) then
    terminal.err(options.scale and "aisim: --scale has no effect on lengths"
      or "aisim: lengths keep neither times nor content")
  end
  if source.plays then return write_plays(source, options, format) end
  return ("%d rows"):format(write_rows(source, options, format))
end

return M
