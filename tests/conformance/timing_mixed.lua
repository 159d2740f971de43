--- Fused against serial passes on the mixed reference passes (spec/timing.md §12.5).
-- lua5.4 tests/conformance/timing_mixed.lua VECTORS        with aisim on LUA_PATH and LUA_CPATH
require "aisim"
local catalogue = require "aisim.catalogue"
local core = require "aisim.core"

local path = arg[1] .. "/h200_pass_latency.csv"

--- Rows of kind "mixed", numbers as integers.
local function read()
  local names, rows = nil, {}
  for line in io.lines(path) do
    local fields = {}
    for field in (line .. ","):gmatch("(.-),") do fields[#fields + 1] = field end
    if not names then
      names = fields
    else
      local row = {}
      for i, name in ipairs(names) do row[name] = math.tointeger(tonumber(fields[i])) or fields[i] end
      if row.kind == "mixed" then rows[#rows + 1] = row end
    end
  end
  return rows
end

local models = {}

local function model(row, mixed)
  local key = table.concat({ row.model, row.tp, row.moe_tp, row.moe_ep, row.attn_dp, mixed }, " ")
  if not models[key] then
    local descriptor = catalogue.model(row.model)
    local moe = (descriptor.experts or 0) > 0
    models[key] = core.timing { model = descriptor, timing = { type = "default", mixed = mixed },
      parallelism = { tensor = row.tp, attention_data = row.attn_dp, moe_tensor = moe and row.moe_tp or nil,
        moe_expert = moe and row.moe_ep or nil } }
  end
  return models[key]
end

local rows, ratios, not_longer, above = read(), {}, 0, 0
for i, row in ipairs(rows) do
  local p, sn, sp, d, sk, width = row.n_prefill, row.sum_new, row.sum_prefix, row.n_decode, row.sum_kv, row.nextn + 1
  local fused = model(row, "fused"):pass(p, sn, sp, d, sk, width)
  ratios[i] = fused / model(row, "serial"):pass(p, sn, sp, d, sk, width)
  local alone = math.max(model(row, "fused"):pass(p, sn, sp, 0, 0), model(row, "fused"):pass(0, 0, 0, d, sk, width))
  if ratios[i] <= 1 then not_longer = not_longer + 1 end
  if fused >= 0.96 * alone then above = above + 1 end
end
table.sort(ratios)
local n, failed = #ratios, 0

local function check(ok, format, ...)
  print((ok and "ok   " or "FAIL ") .. format:format(...))
  if not ok then failed = failed + 1 end
end

local function quantile(q) return ratios[math.floor(q * (n - 1)) + 1] end

check(math.abs(quantile(0.5) - 0.86) < 0.03, "fused / serial: median %.3f, about 0.86", quantile(0.5))
check(quantile(0.05) > 0.58 and quantile(0.95) < 1.0, "5 %% to 95 %%: %.3f to %.3f, about 0.61 to 0.995",
  quantile(0.05), quantile(0.95))
check(ratios[n] < 1.44, "worst %.2f, below 1.44", ratios[n])
check(not_longer >= 0.95 * n, "fused is not longer in %.1f %% of %d passes, at least 95 %%", 100 * not_longer / n, n)
check(above == n, "fused takes at least 0.96 of the longer part alone in %d of %d", above, n)
print(("%d passed, %d failed"):format(5 - failed, failed))
os.exit(failed == 0)
