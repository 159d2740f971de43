--- Scheduler points of sim:pool: one table for validation, aisim check and aisim help (spec/lua-api.md §7).
-- When each is asked and what an answer may be: include/aisim/points.h.
local core = require "aisim.core"

local M = {}

--- name, arguments and answer, when it is asked, price.
M.list = {
  { name = "order", form = "(req) -> number",
    meaning = "place in the waiting queue, smaller first; equal ones as without it",
    price = "a call per enqueue" },
  { name = "admit", form = "(t, rank, req, need_blocks, free_blocks) -> true | 'skip' | 'stop'",
    meaning = "for the head of the queue: true = no objection, the admission gate decides; skip = look at the next "
      .. "one; stop = nobody else in this pass",
    price = "a call per head of the queue and pass" },
  { name = "victim", form = "(t, rank, view) -> index",
    meaning = "who is preempted when blocks run out; columns view.id, computed, generated, blocks, priority, …",
    price = "warning: a pass touches each running request" },
  { name = "chunk", form = "(t, rank, req, budget, remaining) -> tokens",
    meaning = "tokens of a prefill chunk, 0 = nothing in this pass; needs chunked_prefill",
    price = "a call per prefill chunk" },
  { name = "evict", form = "(t, rank, age_ms, depth, reuse) -> score",
    meaning = "what a cached block is worth, the smallest goes first; a prompt loses its end before its beginning. "
      .. "Needs kv_cache.eviction = 'scored'",
    price = "a call per evicted block and per cached stretch" },
}

for i, name in ipairs(core.point_names()) do assert(M.list[i].name == name) end

return M
