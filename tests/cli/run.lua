--- Runs transcripts of the command line: command, exit status, output.
-- lua5.4 tests/cli/run.lua [--update] [FILE ...]       default: tests/cli/transcripts/*.txt
--
-- A transcript is a text of blocks, separated as they come:
--   # text            comment
--   @ name.lua        file that the commands find in their folder; its lines follow, up to "@."
--   $ command         run by sh in that folder, which is new for every transcript
--   text              a line of standard output
--   ! text            a line of standard error
--   = N               exit status (left out: 0)
-- In expected lines <num> is a number as the screen writes it, <word> anything without a blank, <any>
-- anything; a line "..." stands for any lines. Environment: AISIM = the program (build/aisim), ROOT =
-- the source folder. --update rewrites lines that differ; lines whose patterns fit are kept.
local lfs = require "lfs"

local root = os.getenv("AISIM_SOURCE_DIR") or lfs.currentdir()
local program = os.getenv("AISIM") or root .. "/build/aisim"

local PLACEHOLDERS <const> = {
  num = "%-?[%d,]+%.?%d*e?[+-]?%d*", word = "%S+", any = ".*",
}

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

local function write(path, text)
  local folder = path:match("^(.*)/[^/]*$")
  if folder and not lfs.attributes(folder) then os.execute("mkdir -p " .. quoted(folder)) end
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function lines_of(text)
  local lines = {}
  for line in (text:gsub("\n$", "") .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = line end
  if #lines == 1 and lines[1] == "" then lines = {} end
  return lines
end

--- Does an expected line fit?
local function fits(expected, got)
  if expected == got then return true end
  if not expected:find("<%a+>") then return false end
  local pattern, at = "^", 1
  for before, name, next_at in expected:gmatch("(.-)<(%a+)>()") do
    local form = PLACEHOLDERS[name]
    pattern = pattern .. before:gsub("%p", "%%%0") .. (form or ("<" .. name .. ">"):gsub("%p", "%%%0"))
    at = next_at
  end
  pattern = pattern .. expected:sub(at):gsub("%p", "%%%0") .. "$"
  return got:find(pattern) ~= nil
end

--- Do all lines fit? "..." takes as few as possible.
local function all_fit(expected, got, i, j)
  i, j = i or 1, j or 1
  while i <= #expected do
    if expected[i] == "..." then
      for skip = j, #got + 1 do
        if all_fit(expected, got, i + 1, skip) then return true end
      end
      return false
    end
    if j > #got or not fits(expected[i], got[j]) then return false end
    i, j = i + 1, j + 1
  end
  return j > #got
end

--- Blocks of a transcript, in order: { kind, text | lines, out, err, status }.
local function parse(text, path)
  local blocks, current, file = {}, nil, nil
  for number, line in ipairs(lines_of(text)) do
    if file then
      if line == "@." then file = nil else file.lines[#file.lines + 1] = line end
    elseif line:sub(1, 2) == "@ " then
      file = { kind = "file", name = line:sub(3), lines = {} }
      blocks[#blocks + 1], current = file, nil
    elseif line:sub(1, 2) == "$ " then
      current = { kind = "command", command = line:sub(3), out = {}, err = {}, status = 0, number = number }
      blocks[#blocks + 1] = current
    elseif line:sub(1, 1) == "#" then
      blocks[#blocks + 1], current = { kind = "comment", text = line }, nil
    elseif not current then
      if line ~= "" then error(("%s:%d: output without a command"):format(path, number)) end
      blocks[#blocks + 1] = { kind = "comment", text = line }
    elseif line:sub(1, 2) == "! " or line == "!" then
      current.err[#current.err + 1] = line:sub(3)
    elseif line:match("^= %d+$") then
      current.status = tonumber(line:sub(3))
    else
      current.out[#current.out + 1] = line
    end
  end
  -- Blank lines between blocks belong to nobody.
  for _, block in ipairs(blocks) do
    while block.out and block.out[#block.out] == "" do block.out[#block.out] = nil end
  end
  return blocks
end

--- Runs one command in a folder.
local function run(command, folder)
  local out, err = folder .. "/.out", folder .. "/.err"
  local full = ("cd %s && export AISIM=%s ROOT=%s PATH=%s:$PATH NO_COLOR=1 LC_ALL=C.UTF-8; "
    .. "(%s) >.out 2>.err </dev/null")
    :format(quoted(folder), quoted(program), quoted(root), quoted(program:match("^(.*)/") or "."), command)
  local _, _, status = os.execute(full)
  local result = { out = lines_of(read(out)), err = lines_of(read(err)), status = status }
  while result.out[#result.out] == "" do result.out[#result.out] = nil end
  return result
end

--- New expectation: lines that fit stay as they are written.
local function updated(expected, got)
  if all_fit(expected, got) then return expected end
  local lines = {}
  for i, line in ipairs(got) do
    lines[i] = line
    for _, old in ipairs(expected) do
      if old ~= "..." and fits(old, line) then lines[i] = old break end
    end
  end
  return lines
end

local function show(block, got)
  for _, part in ipairs { { "out", "" }, { "err", "! " } } do
    for _, line in ipairs(block[part[1]]) do print("    - " .. part[2] .. line) end
    for _, line in ipairs(got[part[1]]) do print("    + " .. part[2] .. line) end
  end
  if block.status ~= got.status then print(("    exit status %d, expected %d"):format(got.status, block.status)) end
end

local function serialise(blocks)
  local lines = {}
  local function add(line) lines[#lines + 1] = line end
  for i, block in ipairs(blocks) do
    if block.kind == "comment" then
      add(block.text)
    elseif block.kind == "file" then
      add("@ " .. block.name)
      for _, line in ipairs(block.lines) do add(line) end
      add("@.")
    else
      add("$ " .. block.command)
      for _, line in ipairs(block.out) do add(line) end
      for _, line in ipairs(block.err) do add("! " .. line) end
      if block.status ~= 0 then add("= " .. block.status) end
      if blocks[i + 1] and lines[#lines] ~= "" then add("") end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

local function transcript(path, update)
  local text = read(path)
  local blocks = parse(text, path)
  local folder = os.tmpname()
  os.remove(folder)
  assert(lfs.mkdir(folder))
  local passed, failed = 0, 0
  for _, block in ipairs(blocks) do
    if block.kind == "file" then
      write(folder .. "/" .. block.name, table.concat(block.lines, "\n") .. "\n")
    elseif block.kind == "command" then
      local got = run(block.command, folder)
      local ok = got.status == block.status and all_fit(block.out, got.out) and all_fit(block.err, got.err)
      if ok then
        passed = passed + 1
      elseif update then
        block.out, block.err = updated(block.out, got.out), updated(block.err, got.err)
        block.status, passed = got.status, passed + 1
      else
        failed = failed + 1
        print(("%s:%d: %s"):format(path, block.number, block.command))
        show(block, got)
      end
    end
  end
  os.execute("rm -rf " .. quoted(folder))
  if update then
    local new = serialise(blocks)
    if new ~= text then write(path, new) print("updated " .. path) end
  end
  return passed, failed
end

local update, paths = false, {}
for _, argument in ipairs(arg) do
  if argument == "--update" then update = true else paths[#paths + 1] = argument end
end
if #paths == 0 then
  for name in lfs.dir(root .. "/tests/cli/transcripts") do
    if name:find("%.txt$") then paths[#paths + 1] = root .. "/tests/cli/transcripts/" .. name end
  end
  table.sort(paths)
end
local passed, failed = 0, 0
for _, path in ipairs(paths) do
  local p, f = transcript(path, update)
  passed, failed = passed + p, failed + f
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
