--- The command line: verbs, flags, and messages that name the nearest one.
-- argparse does the parsing; every verb is one row of VERBS, with one example. Problems become faults
-- (status 2) in the form of all messages of the program.
local argparse = require "argparse"
local fault = require "aisim.cli.fault"
local limits = require "aisim.cli.limits"
local near = require "aisim.near"

local M = {}

local function run_flags(command)
  command:option("--set", "Override of a parameter of the scenario or of a path of the configuration.")
    :argname("KEY=VALUE"):count("*")
  command:option("--seed", "Seed of all random streams (default: that of the scenario)."):argname("N")
end

local function export_names() return require("aisim.export").names() end

local function batch_flags(command)
  command:option("--jobs", "Processes at once (default: one per processor). Results do not depend on it."):argname("N")
  command:option("--launcher", "Who starts them: local, GNU parallel, slurm (the last two with --out).")
    :choices { "local", "parallel", "slurm" }:default "local"
  command:option("--out", "Keep every point, and the results, in this folder."):argname("DIR")
  command:flag("--overwrite", "Allow a folder that is not empty; only files of this program are replaced.")
  command:flag("--resume", "Go on in a folder: what is finished there is not run again.")
end

---@class aisim.Verb
---@field name string
---@field summary string
---@field example string
---@field build fun(command)    adds arguments and flags

M.VERBS = {
  {
    name = "run", summary = "Run a scenario (.lua) or a configuration (.yaml).",
    example = "aisim run scenarios/agentx.lua --set workers=8 --seed 7 --out results/a",
    build = function(command)
      command:argument("file", "Scenario or configuration; - reads a scenario from standard input."):argname("FILE")
      run_flags(command)
      command:option("--out", "Write report.json and wall.json into this folder."):argname("DIR")
      command:flag("--overwrite", "Allow a folder that is not empty; only files of a run are replaced.")
      command:flag("--requests", "With --out: one line per request in requests.jsonl, those of the preparation in "
        .. "preparation.jsonl.")
      command:option("--export", "With --out, repeatable: the results as AIPerf, vLLM's benchmark or vLLM's /metrics "
        .. "write them (aisim help outputs)."):argname("FORMAT"):choices(export_names()):count "*"
      command:option("--series", "With --out: state of every worker, so often in simulated time, in timeseries.csv.")
        :argname("SECONDS")
      command:flag("--timeline", "With --out: trace events for Perfetto in timeline.json.")
      command:option("--timeline-window", "Only what touches this part of simulated time, for example 60s,2m.")
        :argname("FROM,TO")
      command:option("--timeline-passes", "Only every K-th pass."):argname("K")
      command:flag("--decisions", "With --out: one line per decision of a router in decisions.jsonl.")
      command:option("--format", "table: for the reader. json: the report as one line."):choices { "table", "json" }
        :default "table"
      command:flag("--profile", "Calls and time of every hook and policy, and of the parts of the engine.")
      command:flag("--quiet", "No progress line and, with table, no table.")
      limits.add_to(command)
    end,
  },
  {
    name = "sweep", summary = "Run the sweep of a scenario: parameters × seeds, in parallel.",
    example = "aisim sweep scenarios/cache_size.lua --seeds 5 --out results/size",
    build = function(command)
      command:argument("file", "Scenario with S.sweep, or with --grid."):argname("FILE")
      run_flags(command)
      command:option("--grid", "Values of a parameter, instead of the scenario's grid and zip."):argname("NAME=V,V")
        :count("*")
      command:option("--seeds", "How many seeds per point, from the seed of the scenario on; from 3 on the table "
        .. "shows 95 % intervals."):argname("N")
      command:option("--columns", "Metrics to show (aisim list metrics)."):argname("A,B")
      batch_flags(command)
      command:option("--format", "table: for the reader. json: all of it as one line."):choices { "table", "json" }
        :default "table"
      command:flag("--quiet", "No table.")
    end,
  },
  {
    name = "search", summary = "Find the largest (or smallest) value of a parameter that meets a goal.",
    example = "aisim search scenarios/agentx.lua --param lanes --from 8 --to 128 --goal 'ttft_ms.p99 < 5000'",
    build = function(command)
      command:argument("file", "Scenario with S.search, or with the flags below."):argname("FILE")
      run_flags(command)
      command:option("--param", "Parameter to vary."):argname("NAME")
      command:option("--from", "Lower end of the range."):argname("X")
      command:option("--to", "Upper end."):argname("X")
      command:option("--goal", "What a good value meets: METRIC OPERATOR NUMBER."):argname("TEXT")
      command:option("--find", "Which value (default: largest)."):choices { "largest", "smallest" }
      command:option("--scale", "How the range is halved (default: linear)."):choices { "log", "linear" }
      command:option("--tolerance", "Width at which the search ends: share of the value (log) or of the range "
        .. "(linear); default 0.02."):argname("X")
      command:option("--seeds", "Seeds per probe; from 3 on with 95 % intervals, and more seeds where they do not "
        .. "decide."):argname("N")
      batch_flags(command)
      command:option("--format", "table: for the reader. json: all of it as one line."):choices { "table", "json" }
        :default "table"
      command:flag("--quiet", "No output but files and exit status.")
    end,
  },
  {
    name = "compare", summary = "Show the differences of two results, with intervals when seeds are paired.",
    example = "aisim compare scenarios/agentx.lua --left router=round_robin --right router=prefix --seeds 5",
    build = function(command)
      command:argument("a", "Folder written with --out, or a scenario that is run here."):argname("A")
      command:argument("b", "The other one; of a scenario it may be left out."):argname("B"):args "?"
      run_flags(command)
      command:option("--left", "Scenarios: override of the first side."):argname("KEY=VALUE"):count("*")
      command:option("--right", "Scenarios: override of the second side."):argname("KEY=VALUE"):count("*")
      command:option("--seeds", "Scenarios: how many seeds; from 3 on with 95 % intervals."):argname("N")
      command:option("--metrics", "Metrics to compare (aisim list metrics)."):argname("A,B")
      command:flag("--all", "Every metric.")
      command:option("--threshold", "Largest change of a metric, 5%, +5% (only increases), -0.02; beyond it "
        .. "the exit status is 4."):argname("METRIC=LIMIT"):count("*")
      batch_flags(command)
      command:option("--format", "table: for the reader. json: all of it as one line."):choices { "table", "json" }
        :default "table"
      command:flag("--quiet", "No output but files and exit status.")
    end,
  },
  {
    name = "report", summary = "Make one self-contained HTML page from an output folder.",
    example = "aisim report results/a -o a.html",
    build = function(command)
      command:argument("dir", "Folder written by run, sweep or compare with --out."):argname("DIR")
      command:option("-o --output", "The file to write (default: DIR/report.html)."):argname("FILE")
    end,
  },
  {
    name = "check", summary = "Load and validate a file; show what would run. Runs nothing.",
    example = "aisim check scenarios/agentx.lua --set workers=8",
    build = function(command)
      command:argument("file", "Scenario or configuration."):argname("FILE")
      run_flags(command)
      limits.add_to(command)
    end,
  },
  {
    name = "timing", summary = "Show what a pass costs: over a grid, by operation, against measurements.",
    example = "aisim timing --model qwen3-32b --tensor 2 --explain prefill=4x2048 decode=32x4096",
    build = function(command)
      command:argument("file", "Scenario or configuration whose pools are shown; or the word calibrate, which makes a "
        .. "calibration from the tables in DIR."):argname("FILE"):args "?"
      command:argument("folder", "With calibrate: folder of the measured tables."):argname("DIR"):args "?"
      command:option("--model", "Instead of FILE: a model of the catalogue, a config.json, …"):argname("MODEL")
      command:option("--hardware", "GPU (default h200_sxm)."):argname("GPU")
      for _, name in ipairs { "tensor", "pipeline", "attention-data", "moe-tensor", "moe-expert" } do
        command:option("--" .. name, ("Degree of %s parallelism."):format((name:gsub("-", " ")))):argname("N")
      end
      command:option("--set", "Override of a path of the configuration, for example timing.mixed=serial.")
        :argname("KEY=VALUE"):count("*")
      command:option("--grid", "What to tabulate: n_prefill, chunk, past, n_decode, context, drafts; values 8, 1/2/4, "
        .. "1..256 (doubling), 0..1024:128."):argname("NAME=VALUES,…")
      command:option("--plot", "Draw the grid into an SVG file (needs gnuplot)."):argname("FILE")
      command:option("--explain", "The operations of one pass: prefill=ITEMSxTOKENS[+CACHED], decode=ITEMSxCONTEXT, "
        .. "drafts=N. Write it behind FILE. With --format json each bears its sizes without the load: the operation "
        .. "list of the model."):argname("PASS"):args "1-3"
      command:option("--compare", "Models side by side: default, tables, roofline, pools and functions of FILE.")
        :argname("A,B")
      command:option("--tables", "Measured operator tables instead of the built-in calibration."):argname("DIR")
      command:option("--against", "Error table against measured passes; the rows name their configuration.")
        :argname("CSV")
      for _, name in ipairs { "median", "p95", "worst", "family-median" } do
        command:option("--max-" .. name, "With --against: per cent beyond which the exit status is 4.")
          :argname("PERCENT")
      end
      command:option("-o --output", "With calibrate: the file to write."):argname("FILE")
      command:option("--leave-out", "With calibrate: withhold this share of the rows and show their error; "
        .. "writes nothing."):argname("PERCENT")
      command:option("--format", "Output."):choices { "table", "json", "markdown" }:default "table"
    end,
  },
  {
    name = "trace", summary = "Read a workload file; make, convert, sample, rescale one.",
    example = "aisim trace trace.jsonl --blocks 16,64 --capacity 1000,20k",
    build = function(command)
      command:argument("file", "Trace or play files, folders, patterns; in order."):argname("FILE"):args "*"
      command:option("--trace-format", "Format of the file (default: by its first line)."):argname("NAME")
      command:option("--block-size", "Tokens per recorded block (default: as the file says, or what fits).")
        :argname("N")
      command:option("--align-inputs", "Plays: prompts cut or filled to whole blocks.")
        :choices { "false", "floor", "ceil" }:default "false"
      command:option("--blocks", "Reuse at these block sizes."):argname("N,…")
      command:option("--capacity", "Reuse in caches of so many blocks, least recently used out first."):argname("N,…")
      command:option("--limit", "Only the first rows, or plays."):argname("N")
      command:option("--from", "Only what arrives so long after the first row."):argname("TIME")
      command:option("--to", "Only what arrives before."):argname("TIME")
      command:option("--convert", "Write as mooncake, lengths; plays also as weka, agentic_mooncake."):argname("FORMAT")
      command:option("--sample", "Write a random part: so many sessions, rows or plays, or a share."):argname("N|SHARE")
      command:option("--scale", "Write with all times divided by a factor."):argname("X")
      command:option("--generate", "Make plays up: agentx."):argname("KIND")
      command:option("--plays", "With --generate: how many (200)."):argname("N")
      command:option("--preset", "With --generate: whose subagents."):choices { "042026", "052726", "062126" }
      command:option("--set", "With --generate: a parameter, for example tool_gap_s=3,1.2."):argname("NAME=VALUE")
        :count "*"
      command:option("--seed", "Of --generate and --sample (42)."):argname("N")
      command:flag("--hash-runs", "Write block ids of plays as start,count lists.")
      command:option("-o --output", "The file to write."):argname("FILE")
      command:option("--format", "Output."):choices { "table", "json" }:default "table"
    end,
  },
  {
    name = "list", summary = "Show what there is to choose from.",
    example = "aisim list hooks",
    build = function(command)
      command:argument("kind", ("One of %s."):format(table.concat(M.WORDS.list, ", ")))
        :argname("KIND")
    end,
  },
  {
    name = "help", summary = "Explain a topic, or the question and the parameters of a scenario.",
    example = "aisim help router",
    build = function(command)
      command:argument("topic", table.concat(M.WORDS.help, ", ") .. ", a verb, a class, or a scenario file.")
        :argname("TOPIC"):args("?")
    end,
  },
  {
    name = "new", summary = "Write a commented file that runs, to start from.",
    example = "aisim new router mine",
    build = function(command)
      command:argument("kind", ("One of %s."):format(table.concat(M.WORDS.new, ", "))):argname("KIND")
      command:argument("name", "Name of the thing and of the file, which must not exist."):argname("NAME")
    end,
  },
  {
    name = "repl", summary = "Lua with the library loaded; expressions print their value, Tab completes names.",
    example = "aisim repl",
    build = function() end,
  },
  {
    name = "doctor", summary = "Check the installation; one line each, with the remedy.",
    example = "aisim doctor",
    build = function() end,
  },
  {
    name = "completion", summary = "Print the completions for a shell.",
    example = "aisim completion bash >~/.local/share/bash-completion/completions/aisim",
    build = function(command)
      command:argument("shell", "bash, zsh or fish."):argname("SHELL"):choices(M.WORDS.completion)
    end,
  },
  {
    name = "version", summary = "Print the version.",
    example = "aisim version",
    build = function() end,
  },
}

--- Names of the verbs, in the order of the list.
function M.verb_names()
  local names = {}
  for i, verb in ipairs(M.VERBS) do names[i] = verb.name end
  return names
end

-- Words that the first argument of a verb may be, where these are a list.
M.WORDS = {
  list = { "models", "hardware", "hooks", "metrics", "routers", "scenarios", "distributions" },
  new = { "scenario", "router", "metric", "timing", "session" },
  help = { "scenario", "engine", "traffic", "router", "handoff", "points", "preemption", "hooks", "metrics", "outputs",
    "timing", "limits", "api", "man" },
  completion = { "bash", "zsh", "fish" },
}

--- The parser. Filling in the flags of every verb takes longer than the start of a short run, so it
-- is left out for verbs that cannot be meant.
---@param arguments? string[]   fill in only the verbs among them; nil: all
local function build(arguments)
  local meant = arguments and {}
  for _, word in ipairs(arguments or {}) do meant[word] = true end
  local parser = argparse("aisim", "aisim simulates LLM serving: a C engine, scenarios in Lua.")
    :command_target("verb"):require_command(false)
    :usage("Usage: aisim VERB [FILE] [flags]")
    :help_max_width(96):add_help("-h --help")
  parser:flag("--version", "Print the version.")
  local commands = {}
  for _, verb in ipairs(M.VERBS) do
    local command = parser:command(verb.name, verb.summary):help_max_width(96)
    if not meant or meant[verb.name] then
      verb.build(command)
      command:epilog("Example:\n   " .. verb.example)
    end
    commands[verb.name] = command
  end
  parser:epilog("aisim VERB --help shows the flags of a verb.\n\nExample:\n   " .. M.VERBS[1].example)
  return parser, commands
end

--- Flags that a verb knows ("--set", …).
local function flag_names(command)
  local names = { "--help" }
  for _, option in ipairs(command and command._options or {}) do
    for _, alias in ipairs(option._aliases) do
      if alias:sub(1, 2) == "--" then names[#names + 1] = alias end
    end
  end
  return names
end

--- The value of a flag or the argument that is none of the choices: what was probably meant.
local function choice_hint(problem, arguments)
  local listed = problem:match("must be one of (.*)$")
  if not listed then return "" end
  local flag, choices = problem:match("option '(.-)'"), {}
  for choice in listed:gmatch "'(.-)'" do choices[#choices + 1] = choice end
  for i, word in ipairs(arguments) do
    local value = flag == nil and i == 2 and word or flag and (word == flag and arguments[i + 1]
      or word:sub(1, #flag + 1) == flag .. "=" and word:sub(#flag + 2)) or nil
    local is_choice = false
    for _, choice in ipairs(choices) do is_choice = is_choice or choice == value end
    if value and not is_choice then return near.hint(value, choices) end
  end
  return ""
end

--- What argparse says, as this program says it.
local function reword(problem, arguments, commands)
  problem = problem:gsub("\n.*$", "")
  local verb = arguments[1]
  local option = problem:match("^unknown option '(.-)'$")
  if option then
    local command = commands[verb]
    return ("%sunknown option '%s'%s"):format(command and verb .. ": " or "", option,
      near.hint(option, flag_names(command)))
  end
  local unknown = problem:match("^unknown command '(.-)'$")
  if unknown then
    local hint = near.hint(unknown, M.verb_names())
    return ("unknown verb '%s'%s"):format(unknown,
      hint ~= "" and hint or (" (one of %s)"):format(table.concat(M.verb_names(), ", ")))
  end
  local meant = choice_hint(problem, arguments)
  if commands[verb] and meant ~= "" then return ("%s: %s%s"):format(verb, problem, meant) end
  if commands[verb] then return ("%s: %s (see: aisim %s --help)"):format(verb, problem, verb) end
  return problem
end

--- Arguments in which a negative number behind an option is its value: --seed -1 as --seed=-1, so that the message
-- is about the number.
local function join_negatives(arguments, commands)
  local out, takes = {}, {}
  local command = commands[arguments[1]]
  for _, option in ipairs(command and command._options or {}) do
    for _, alias in ipairs(option._aliases) do takes[alias] = option._maxargs == 1 end
  end
  for i, argument in ipairs(arguments) do
    if argument:find("^%-%.?%d") and takes[arguments[i - 1]] and out[#out] == arguments[i - 1] then
      out[#out] = out[#out] .. "=" .. argument
    else
      out[#out + 1] = argument
    end
  end
  return out
end

--- Parses the arguments (without the program name).
---@param arguments string[]
---@return table args    args.verb is nil when none was given
function M.parse(arguments)
  local parser, commands = build(arguments)
  local ok, result = parser:pparse(join_negatives(arguments, commands))
  if not ok then return fault.usage("%s", reword(result, arguments, commands)) end
  if result.version == true then result.verb = "version" end
  return result
end

--- Completions of a shell: "bash", "zsh", "fish".
---@param shell string
---@return string
function M.completion(shell)
  local parser = build()
  return parser[("get_%s_complete"):format(shell)](parser)
end

--- Flags of a verb as data: { names, argument (nil for a flag), text }.
---@param verb string
---@return { names: string[], argument: string?, text: string }[]
function M.flags(verb)
  local _, commands = build()
  local out = {}
  for _, argument in ipairs(commands[verb]._arguments) do
    out[#out + 1] = { names = { argument._argname or argument._name }, text = argument._description }
  end
  for _, option in ipairs(commands[verb]._options) do
    if option._name ~= "-h --help" and option._aliases[1] ~= "-h" then
      local value = option._maxargs > 0 and (option._choices and table.concat(option._choices, "|")
        or type(option._argname) == "string" and option._argname or nil) or nil
      out[#out + 1] = { names = option._aliases, argument = value, text = option._description }
    end
  end
  return out
end

--- Help of the program, or of one verb.
---@param verb? string
---@return string? text   nil: no such verb
function M.help(verb)
  local parser, commands = build()
  if not verb then return parser:get_help() end
  return commands[verb] and commands[verb]:get_help()
end

return M
