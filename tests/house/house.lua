--- What the checks of this folder share: listing files, counting, the summary line.
-- Run from the source folder by plain lua5.4; needs no module beyond the standard library.
local M = {}

local passed, failed, skipped = 0, 0, 0

--- Lines of a command's standard output.
function M.lines(command)
  local out = {}
  local pipe <close> = assert(io.popen(command))
  for line in pipe:lines() do out[#out + 1] = line end
  return out
end

--- Files of the project, sorted: those git knows or would add; without git, all but build folders.
function M.files(...)
  local where = table.concat({ ... }, " ")
  local out = M.lines("git ls-files -co --exclude-standard -- " .. where .. " 2>/dev/null")
  if #out == 0 then
    out = M.lines("find " .. (where == "" and "." or where) .. " -type f -not -path './.git/*'" ..
      " -not -path './build*' 2>/dev/null | sed 's,^\\./,,'")
  end
  local present = {}
  for _, path in ipairs(out) do
    local file = io.open(path, "rb") -- a deleted file that is still in the index
    if file then
      file:close()
      present[#present + 1] = path
    end
  end
  table.sort(present)
  return present
end

--- Whole text of a file.
function M.read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

--- A word for use in a shell command.
function M.quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- Counts one check; on failure prints the message (printf form).
function M.check(ok, format, ...)
  if ok then
    passed = passed + 1
  else
    failed = failed + 1
    print(format:format(...))
  end
  return ok
end

--- Leaves with "skipped" and the reason where tests/run.sh shows it.
function M.skip(reason)
  print("SKIP " .. reason)
  os.exit(77)
end

--- Counts one check that could not be made, and says why.
function M.skip_one(format, ...)
  skipped = skipped + 1
  print("SKIP " .. format:format(...))
end

--- Prints the summary line and ends the process.
function M.done()
  print(("%d passed, %d failed%s"):format(passed, failed, skipped > 0 and (", %d skipped"):format(skipped) or ""))
  os.exit(failed == 0)
end

return M
