--- h200_op_lists.csv against `aisim timing --explain PASS --format json`: every row of a configuration is
--- translated into operations of the product by the rules of spec/timing.md §3 and §4, or into none where it
--- costs nothing, and the two lists must be the same: names, multiplicities, overlaps, sizes, number formats.
--- Operations are compared in the order of the list within one name; the program prints them by what their
--- load depends on.
local support = require "support"

local M = {}

local CONFIG <const> = { "model", "tp", "moe_tp", "moe_ep", "attn_dp", "nextn", "gemm_dtype", "moe_dtype", "kv_dtype",
  "fmha_dtype" }

--- Rows without quotes, keyed by the head line.
local function rows_of(text)
  local heads, rows = nil, {}
  for line in text:gmatch "[^\r\n]+" do
    local fields = {}
    for field in (line .. ","):gmatch "([^,]*)," do fields[#fields + 1] = field end
    if heads then
      local row = {}
      for i, head in ipairs(heads) do row[head] = fields[i] end
      rows[#rows + 1] = row
    else
      heads = fields
    end
  end
  return rows
end

--- Rows by configuration and phase, in the order of first appearance.
local function groups_of(rows)
  local groups, by_key = {}, {}
  for _, row in ipairs(rows) do
    local parts = {}
    for i, column in ipairs(CONFIG) do parts[i] = row[column] end
    parts[#parts + 1] = row.phase
    local key = table.concat(parts, " ")
    if not by_key[key] then
      by_key[key] = { name = key, rows = {} }
      groups[#groups + 1] = by_key[key]
    end
    table.insert(by_key[key].rows, row)
  end
  return groups
end

-- ---- rows into operations -----------------------------------------------------------------------------------

--- "n=6144;k=4096" as a table; reading a field strikes it from the list of what nobody has read.
local function params_of(text)
  local values, unread = {}, {}
  for key, value in text:gmatch "([^;=]+)=([^;]*)" do
    values[key], unread[key] = math.tointeger(tonumber(value)) or tonumber(value) or value, true
  end
  return setmetatable({ unread = unread }, { __index = function(_, key)
    unread[key] = nil
    return values[key]
  end })
end

--- Refuses a row whose sizes say something the product has no word for.
local function must(condition, text, ...)
  if not condition then error(text:format(...), 0) end
end

local TRANSLATE <const> = {}

function TRANSLATE.Embedding(p) return { { type = "embedding", rows = p.row_size, width = p.column_size } } end

function TRANSLATE.ElementWise(p) return { { type = "elementwise", ["in"] = p.dim_in, out = p.dim_out } } end

function TRANSLATE.GEMM(p)
  local narrow = p.n < 32 -- §3.2: few outputs, at the roof; the row allows it
  must(not narrow or p.below_grid_sol == "True", "n = %d without below_grid_sol", p.n)
  local _ = p.below_grid_sol
  return { { type = "gemm", n = p.n, k = p.k, dtype = p.quant_mode, narrow = narrow and 1 or 0,
    quantised_in = p.low_precision_input == "True" and 1 or 0 } }
end

local function attention(p, type_, dtype, kv_dtype)
  return { { type = type_, heads = p.n, kv_heads = p.n_kv, head_size = p.head_size, window = p.window_size or 0,
    qk_norm = p.use_qk_norm == "True" and 1 or 0, dtype = dtype, kv_dtype = kv_dtype } }
end

function TRANSLATE.ContextAttention(p)
  return attention(p, "prefill_attention", p.fmha_quant_mode, p.kvcache_quant_mode)
end

--- The arithmetic of a decode follows the cache (§3.4): its rows do not name it.
function TRANSLATE.GenerationAttention(p) return attention(p, "decode_attention", nil, p.kv_cache_dtype) end

function TRANSLATE.MoE(p)
  must(p.is_gated == "True", "experts without gate are not modelled")
  local skew = tonumber(tostring(p.workload_distribution):match "^power_law_(.*)$")
  must(skew, "not modelled: workload_distribution %s", tostring(p.workload_distribution))
  return { { type = "experts", hidden = p.hidden_size, inter = p.inter_size, topk = p.topk, experts = p.num_experts,
    moe_tensor = p.moe_tp_size, moe_expert = p.moe_ep_size, attention_data = p.attention_dp_size, skew = skew,
    dtype = p.quant_mode } }
end

--- §4: with more than one attention rank tokens are gathered before and scattered after the experts; the
--- all-reduce of the tensor group is part of it unless it stands elsewhere (attn_ar_modeled, before the experts).
function TRANSLATE.MoEDispatch(p)
  local list, before, hidden = {}, p.pre_dispatch == "True", p.hidden_size
  local elsewhere = p.attn_ar_modeled == "True" and before
  local _ = { p.topk, p.num_experts, p.quant_mode, p.attn_ar_modeled } -- sizes of the experts beside it
  must(p.num_gpus == p.moe_tp_size * p.moe_ep_size, "num_gpus is not the number of expert ranks")
  if p.attention_tp_size > 1 and not elsewhere then
    list[1] = { type = "all_reduce", width = hidden, gpus = p.attention_tp_size }
  end
  if p.attention_dp_size > 1 then
    list[#list + 1] = { type = before and "all_gather" or "reduce_scatter", gpus = p.num_gpus,
      width = hidden * p.attention_dp_size }
  end
  return list
end

--- One rank exchanges nothing with itself.
function TRANSLATE.CustomAllReduce(p)
  local width, gpus = p.h, p.tp_size
  return gpus > 1 and { { type = "all_reduce", width = width, gpus = gpus } } or {}
end

function TRANSLATE.P2P(p)
  must(p.bytes_per_element == 2, "not modelled: %s bytes per element of a hop", tostring(p.bytes_per_element))
  local width, stages = p.h, p.pp_size
  return stages > 1 and { { type = "pipeline_hop", width = width, stages = stages } } or {}
end

--- §3.6: one operation from the down projection to the output projection. Heads of the whole model are those of
--- the descriptor; attention runs in bfloat16.
function TRANSLATE.MLAModule(p, phase)
  must(p.native_num_heads == 128 and p.fmha_quant_mode == "bfloat16", "another latent attention")
  return { { type = phase == "context" and "mla_prefill" or "mla_decode", heads = p.num_heads,
    dtype = p.gemm_quant_mode, kv_dtype = p.kvcache_quant_mode } }
end

local KERNELS <const> = { causal_conv1d_fn = "gdn_conv", causal_conv1d_update = "gdn_conv_update",
  chunk_gated_delta_rule = "gdn_scan", fused_sigmoid_gating_delta_rule_update = "gdn_recurrence" }

function TRANSLATE.GDNKernel(p)
  must(KERNELS[p.kernel_source], "not modelled: kernel_source %s", tostring(p.kernel_source))
  must(p.head_k_dim == p.head_v_dim, "not modelled: keys and values of different head sizes")
  return { { type = KERNELS[p.kernel_source], hidden = p.d_model, key_heads = p.num_k_heads,
    value_heads = p.num_v_heads, head_size = p.head_k_dim, conv_width = p.d_conv } }
end

--- Rows that only hold others: members name them.
function TRANSLATE.OverlapOp() return {} end
function TRANSLATE.FallbackOp() return {} end

--- Names that differ: what is one operation of full-attention layers everywhere has one name here, and attention
--- bears its phase because a mixed pass has both.
local NAMES <const> = { attention = { context = "prefill_attention", generation = "decode_attention" },
  full_attn_norm = { context = "add_norm_1", generation = "add_norm_1" } }

local function name_of(row)
  local name = row.op:match("^" .. row.phase .. "_(.*)$")
  must(name, "operation '%s' of phase '%s'", row.op, row.phase)
  return NAMES[name] and NAMES[name][row.phase] or name
end

--- What the rows of one list say: name -> list of { count, group, sizes }.
local function expected_of(rows)
  local by_name = {}
  for _, row in ipairs(rows) do
    must(TRANSLATE[row.kind], "not modelled: kind '%s'", row.kind)
    local p = params_of(row.params)
    local list = TRANSLATE[row.kind](p, row.phase)
    must(not next(p.unread), "%s: unknown size '%s'", row.op, tostring(next(p.unread)))
    if row.group == "fallback" then list = {} end -- the primary is measured on this hardware
    for _, sizes in ipairs(list) do
      local name = name_of(row)
      by_name[name] = by_name[name] or {}
      table.insert(by_name[name], { count = tonumber(row.count), sizes = sizes,
        group = row.group == "group_a" and 1 or row.group == "group_b" and 2 or 0 })
    end
  end
  return by_name
end

-- ---- the product --------------------------------------------------------------------------------------------

local function arguments_of(row)
  local pass = row.phase == "context" and "prefill=1x1024" or "decode=8x1024"
  local words = { "--model", row.model, "--tensor", row.tp, "--attention-data", row.attn_dp }
  if row.moe_dtype ~= "" then
    table.move({ "--moe-tensor", row.moe_tp, "--moe-expert", row.moe_ep }, 1, 4, #words + 1, words)
  end
  table.move({ "--format", "json", "--explain", pass }, 1, 4, #words + 1, words)
  if row.phase == "generation" and row.nextn ~= "0" then words[#words + 1] = "drafts=" .. row.nextn end
  for i, word in ipairs(words) do words[i] = support.quote(word) end
  return table.concat(words, " ")
end

--- The program's list of a configuration: name -> list of operations.
local function found_of(context, row)
  local program = os.getenv "AISIM" or context.build .. "/aisim"
  local list, trouble = support.json_lines(("%s timing %s"):format(support.quote(program), arguments_of(row)))
  must(list and list[1], "%s", tostring(trouble))
  local by_name = {}
  for _, operation in ipairs(list[1].operations) do
    by_name[operation.name] = by_name[operation.name] or {}
    table.insert(by_name[operation.name], operation)
  end
  return by_name
end

local function difference_of(want, have, path)
  if math.abs(want.count - have.count) > 1e-8 * want.count then -- as precise as the program prints
    return ("%s.count: want %s, have %s"):format(path, want.count, have.count)
  elseif want.group ~= have.group then
    return ("%s.group: want %d, have %d"):format(path, want.group, have.group)
  end
  for key, value in pairs(want.sizes) do
    if have.sizes[key] ~= value then
      return ("%s.%s: want %s, have %s"):format(path, key, tostring(value), tostring(have.sizes[key]))
    end
  end
end

local function compare(context, rows)
  local want, have = expected_of(rows), found_of(context, rows[1])
  local names = {}
  for name in pairs(want) do names[#names + 1] = name end
  for name in pairs(have) do
    if not want[name] then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local expected, found = want[name] or {}, have[name] or {}
    if #expected ~= #found then return ("%s: want %d operations, have %d"):format(name, #expected, #found) end
    for i = 1, #expected do
      local difference = difference_of(expected[i], found[i], ("%s[%d]"):format(name, i))
      if difference then return difference end
    end
  end
end

--- Reports one line per configuration and phase.
function M.check(content, context, report)
  local groups = groups_of(rows_of(content))
  if #groups == 0 then report("all of it", false, "no rows") end
  for _, group in ipairs(groups) do
    local fine, difference = pcall(compare, context, group.rows)
    report(group.name, fine and difference == nil, difference)
  end
end

return M
