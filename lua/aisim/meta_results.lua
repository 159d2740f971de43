---@meta aisim_results
-- Types for editors, continued from meta.lua: results of runs, readers and writers, sweeps, searches,
-- comparisons. Nothing here runs.
-- luacheck: ignore (declarations without bodies: every argument is unused, lines are types)
error("aisim.meta_results is read by editors, not by programs")

local aisim = {}

-- Results of a run ---------------------------------------------------------------------------------

---@class aisim.Distribution
---@field n integer
---@field count integer
---@field mean number
---@field min number
---@field max number
---@field median number
---@field std number
---@field p50 number
---@field p75 number
---@field p90 number
---@field p95 number
---@field p99 number
---@field by table<string, aisim.Distribution>
local Distribution = {}
---@param q number
---@return number?
function Distribution:p(q) end

---@class aisim.Run
---@field metrics table<string, number>   flat: "ttft_ms.p99", "total_output_tokens"; undefined ones absent
---@field status "completed"|"stopped"|"interrupted"
---@field reason string?
---@field requests fun(): fun(): table?   for r in run.requests do … end; #run.requests, run.requests[i]; keys of requests.jsonl (aisim help outputs), and id: the number that hooks see
---@field series table<string, { t: number[], v: number[] }>
---@field params table
---@field manifest table
---@field agentx table                    accounting of the replay
---@field stats { events: integer, passes: integer, requests_created: integer, requests_live: integer }
---@field custom { name: string, value: number, unit: string }[]
---@field pools string[]
---@field timing string
---@field notes string[]
---@field sim aisim.Sim
---@field ttft_ms aisim.Distribution
---@field ttst_ms aisim.Distribution
---@field itl_ms aisim.Distribution
---@field e2e_ms aisim.Distribution
---@field queue_ms aisim.Distribution
---@field [string] aisim.Distribution
local Run = {}
---@return string
function Run:summary() end
--- Writes the report, or returns it as one line without a path.
---@param path? string
---@return string?
function Run:json(path) end
---@param path string
function Run:jsonl(path) end
---@param path? string
---@return string?
function Run:csv(path) end
--- A page with tables and plots.
---@param path string
function Run:html(path) end
--- The run in the format of another tool: its files in a folder that exists, or its summary as text without one.
---@param format "aiperf"|"vllm"|"prometheus"
---@param folder? string
---@return string?
function Run:export(format, folder) end
--- The time series as CSV, of a run with series_ms; as text without a path.
---@param path? string
---@return string?
function Run:timeseries(path) end
---@param name string
---@return boolean
function Run:is_metric(name) end
--- Does the run stand still, and how sure is its mean TTFT? short: fewer than 100 requests; unknown: not all were
--- kept. trend: growth of the backlog as a share of the arrivals; ttft_ms: from the means of ten batches.
---@return { state: "stable"|"growing"|"short"|"unknown", trend: number?, ttft_ms: aisim.Interval? }
function Run:verdict() end

-- Readers, writers, plots ---------------------------------------------------------------------------

--- JSON: aisim.json(path) reads a file; mistakes are named with line and column.
---@class aisim.json
---@field null lightuserdata   what null is read as
---@field decode fun(text: string, name?: string): any
---@field encode fun(value: any, indent?: integer): string   keys sorted, or in the order of json.object
---@field object fun(list: any[], n?: integer): table   { "key", value, … }: an object with its keys in this order
---@field number fun(x: number): string   the shortest text that reads back as the same number
---@field write fun(path: string, value: any)
aisim.json = {}
--- CSV: aisim.csv(path) -> rows { column = value }, columns; mistakes are named with their line.
---@class aisim.csv
---@field decode fun(text: string, name?: string): table[], string[]
---@field encode fun(rows: table[], columns: string[]): string
---@field write fun(path: string, rows: table[], columns: string[])
aisim.csv = {}
--- Rows as text; a column is a key, or { key =, title =, format = }. Without columns: lists, the first is the head.
---@param rows table[]
---@param columns? (string|integer|{ key: any, title?: string, format?: string })[]
---@return string
function aisim.table(rows, columns) end
--- Draws with gnuplot: the SVG, or nil and the reason.
---@class aisim.plot
---@field draw fun(options: aisim.PlotOptions): string?, string?   what aisim.plot { … } does
---@field available fun(): boolean
---@field script fun(options: aisim.PlotOptions): string
---@field MISSING string
aisim.plot = {}
---@class aisim.PlotOptions
---@field title? string
---@field x? string
---@field y? string
---@field log_x? boolean       powers of two
---@field log_y? boolean
---@field from_zero? boolean   true: the y axis begins at 0
---@field categories? string[]   texts under x = 1, 2, …
---@field series { name?: string, points: number[][], style?: "impulses"|"lines"|"linespoints"|"points"|"steps" }[]
---@field path? string         also into this file
--- Runs every point and seed in this process; what is left out is that of S.sweep.
---@param S aisim.Scenario
---@param options? { grid?: table<string, any[]>, zip?: any[][], seeds?: integer|integer[], skip?: fun(p: table): boolean, columns?: string[], pareto?: { x: string, y: string }, set?: table<string, any>, each?: fun(row: aisim.SweepRow, run: aisim.Run) }
---@return aisim.SweepResult
function aisim.sweep(S, options) end
--- Largest or smallest value of a parameter that meets a goal; what is left out is that of S.search.
---@param S aisim.Scenario
---@param options? { param?: string, from?: number, to?: number, goal?: string, find?: "largest"|"smallest", scale?: "log"|"linear", tolerance?: number, seeds?: integer|integer[], set?: table<string, any> }
---@return aisim.SearchResult
function aisim.search(S, options) end
--- Differences b - a, paired by seed. A side: a run, a list of runs, a sweep, or the path of an output folder.
---@param a aisim.Run|aisim.Run[]|aisim.SweepResult|string
---@param b aisim.Run|aisim.Run[]|aisim.SweepResult|string
---@param options? { metrics?: string[], all?: boolean, thresholds?: table<string, string> }   threshold: "5%", "+5%", "-0.02"
---@return aisim.Comparison
function aisim.compare(a, b, options) end

-- Sweeps, searches, comparisons --------------------------------------------------------------------

---@class aisim.SweepRow
---@field point integer
---@field params table<string, any>    what is varied
---@field seed integer
---@field status "completed"|"stopped"|"interrupted"|"failed"|"missing"
---@field met boolean?                 all expectations
---@field metrics table<string, any>?  run.metrics

---@class aisim.Interval
---@field n integer
---@field mean number
---@field std number?
---@field half number?   half of the 95 % interval of the mean, from three values on
---@field low number?
---@field high number?

---@class aisim.SweepResult
---@field names string[]      parameters that were varied
---@field columns string[]
---@field seeds integer[]
---@field rows aisim.SweepRow[]   point by point, seeds fastest
---@field points { params: table, rows: aisim.SweepRow[], statistics: table<string, aisim.Interval>, pareto: boolean? }[]
local SweepResult = {}
---@return string
function SweepResult:table() end
---@return string
function SweepResult:summary() end
---@param path? string
---@return string?
function SweepResult:csv(path) end
---@param path? string
---@return string?
function SweepResult:json(path) end
---@param path string
function SweepResult:html(path) end
--- What sweep.json holds.
---@return table
function SweepResult:value() end

---@class aisim.SearchResult
---@field param string
---@field goal string
---@field find "largest"|"smallest"
---@field value number?    nil: no value meets the goal
---@field beyond number?   nearest value seen to miss it
---@field probes { value: number, met: boolean, sure: boolean?, n: integer, mean: number?, half: number? }[]
local SearchResult = {}
---@return string
function SearchResult:answer() end
---@return string
function SearchResult:summary() end
---@param path? string
---@return string?
function SearchResult:json(path) end

---@class aisim.Comparison
---@field a string
---@field b string
---@field ok boolean          no threshold is exceeded
---@field unmatched integer   points that only one side has
---@field rows { point: string, metric: string, a: number?, b: number?, difference: number?, relative: number?, n: integer, low: number?, high: number?, exceeded: boolean? }[]
local Comparison = {}
---@return string
function Comparison:table() end
---@return string
function Comparison:summary() end
---@param path? string
---@return string?
function Comparison:csv(path) end
---@param path? string
---@return string?
function Comparison:json(path) end
---@param path string
function Comparison:html(path) end
--- What compare.json holds.
---@return table
function Comparison:value() end
