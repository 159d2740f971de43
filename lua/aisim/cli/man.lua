--- The man page, from the table of verbs: aisim help man, and aisim.1 of the installation.
local parser = require "aisim.cli.parser"

local M = {}

local function escape(text) return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("^([.'])", "\\&%1")) end

local EXIT <const> = {
  { "0", "fine" }, { "1", "the run failed or is invalid; also: doctor found something missing" },
  { "2", "mistake in usage, script, configuration or input; nothing is written" },
  { "3", "a limit was reached: time of a hook, memory, instructions, disk" },
  { "4", "finished, but an expectation failed, no value meets the goal of a search, or a comparison is beyond a "
    .. "threshold" },
  { "70", "a bug: please report it" }, { "130, 143", "interrupted; what is complete is written and marked" },
}

local function flags(out, verb)
  for _, option in ipairs(parser.flags(verb)) do
    local names = {}
    for i, name in ipairs(option.names) do
      names[i] = ("\\fB%s\\fR"):format(escape(name))
    end
    out[#out + 1] = ".TP"
    local value = option.argument and (" \\fI%s\\fR"):format(escape(option.argument)) or ""
    out[#out + 1] = table.concat(names, ", ") .. value
    out[#out + 1] = escape(option.text)
  end
end

--- The page as troff.
---@return string
function M.page()
  local version = require("aisim").version
  local out = {
    (".TH AISIM 1 \"\" \"aisim %s\" \"User Commands\""):format(version), ".SH NAME",
    "aisim \\- simulate LLM serving: a C engine, scenarios in Lua", ".SH SYNOPSIS",
    "\\fBaisim\\fR \\fIVERB\\fR [\\fIFILE\\fR] [\\fIflags\\fR]", ".SH DESCRIPTION",
    "A scenario is a Lua file that says what traffic arrives, who routes it, what is watched and what is measured. "
      .. "\\fBaisim help\\fR \\fITOPIC\\fR explains engine, router, hooks, metrics and timing; \\fBaisim new\\fR "
      .. "writes a commented file to start from.",
    ".SH VERBS",
  }
  for _, verb in ipairs(parser.VERBS) do
    out[#out + 1] = (".SS %s"):format(verb.name)
    out[#out + 1] = escape(verb.summary)
    flags(out, verb.name)
    out[#out + 1] = ".PP"
    out[#out + 1] = "Example: \\fB" .. escape(verb.example) .. "\\fR"
  end
  out[#out + 1] = ".SH EXIT STATUS"
  for _, item in ipairs(EXIT) do
    out[#out + 1] = (".TP\n\\fB%s\\fR\n%s"):format(item[1], escape(item[2]))
  end
  out[#out + 1] = ".SH ENVIRONMENT\n.TP\n\\fBAISIM_LUA_PATH\\fR\nFolder with another library, for work on aisim itself."
  out[#out + 1] = ".TP\n\\fBNO_COLOR\\fR\nNo colour on terminals."
  return table.concat(out, "\n")
end

return M
