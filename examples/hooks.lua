-- Hooks: follow two requests through the engine, and fail a worker half-way.
-- aisim run examples/hooks.lua
local aisim = require "aisim"

local S = aisim.scenario { title = "Two requests and a failure" }

function S.setup(sim)
  local pool = sim:pool {
    workers = 2,
    engine = {
      model = "llama-3.1-8b",
      kv_cache = { block_size = 16, capacity = { type = "fixed", blocks = 500 } },
      timing = { type = "fixed", prefill_ms = 20, decode_ms = 10 },
    },
  }
  sim:submit { at_ms = 0, prompt_tokens = 4000, output_tokens = 5, content = { { "system", 1000 } } }
  sim:submit { at_ms = 5, prompt_tokens = 2000, output_tokens = 8, content = { { "system", 1000 } } }

  local function say(t, format, ...) print(("%8.1f ms  " .. format):format(t, ...)) end
  sim:on("request.arrive", function(t, id, prompt) say(t, "request %d arrives, %d tokens", id, prompt) end)
  sim:on("request.route", function(t, id, worker) say(t, "request %d goes to worker %d", id, worker) end)
  sim:on("request.admit", function(t, id, _, reused, wait)
    say(t, "request %d admitted after %g ms, %d tokens from cache", id, wait, reused)
  end)
  sim:on("request.first_token", function(t, id, _, ttft) say(t, "request %d: first token, %g ms", id, ttft) end)
  sim:on("request.finish", function(t, id, _, reason, n) say(t, "request %d: %s, %d tokens", id, reason, n) end)
  sim:on("worker.state", function(t, worker, from, to) say(t, "worker %d: %s -> %s", worker, from, to) end)

  sim:at(60, function() pool:worker(1):drain() end)
end

return S
