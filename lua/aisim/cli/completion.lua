--- aisim completion SHELL: from the same table as --help.
-- The library completes verbs, flags and choices of flags; the words that the first argument of a verb
-- may be (parser.WORDS) are added here.
local fault = require "aisim.cli.fault"
local parser = require "aisim.cli.parser"

local M = {}

local VERBS <const> = { "list", "new", "help", "completion" }

local function words(verb) return table.concat(parser.WORDS[verb], " ") end

local ADD <const> = {}

function ADD.bash(script)
  local cases = {}
  for i, verb in ipairs(VERBS) do
    cases[i] = ('            %s) COMPREPLY=($(compgen -W "%s" -- "$cur")) ;;'):format(verb, words(verb))
  end
  local more = ('    elif [[ "$prev" = "$cmd" ]]; then\n        case "$cmd" in\n%s\n        esac\n    fi\n}\n'):format(
    table.concat(cases, "\n"))
  return (script:gsub("    fi\n}\n", function() return more end, 1))
end

function ADD.zsh(script)
  for _, verb in ipairs(VERBS) do
    script = script:gsub(("(\n    %s%%)\n.-)\": :[^\"]*\""):format(verb), function(before)
      return ('%s"1: :(%s)"'):format(before, words(verb))
    end, 1)
  end
  return script
end

function ADD.fish(script)
  local lines = { script }
  for _, verb in ipairs(VERBS) do
    lines[#lines + 1] = ("complete -c aisim -n '__fish_aisim_seen_command %s' -a '%s'"):format(verb, words(verb))
  end
  return table.concat(lines, "\n")
end

---@param args table
---@return integer status
function M.main(args)
  local script = parser.completion(args.shell):gsub("\n+$", "") .. "\n"
  io.stdout:write((ADD[args.shell](script):gsub("\n+$", "")), "\n")
  return fault.OK
end

return M
