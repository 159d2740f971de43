/* books.c - the router book-keeping of the simulation itself (spec/routing.md §1): what Lua
 * policies and worker handles read. Built-in policies keep their own books (cluster/route.h).
 *
 * A request counts from its dispatch to its end: one request, its uncached prompt tokens until the
 * first token, and its blocks. Blocks that two requests share count once per rank. */
#include "sim/sim_internal.h"

void sim_prompt_path(const aisim_content *content, const aisim_request *r, uint32_t block_size,
                     sim_path *path)
{
    uint32_t end = r->prompt_tokens / block_size;
    uint32_t run = r->lease.run;
    path->len = 0;
    while (end > 0) {
        uint32_t first = aisim_content_start(content, run) / block_size;
        if (first < end) { /* block i is of the run that holds token (i + 1) * block_size - 1 */
            aisim_route_extent extent = {run, first, end - first};
            aisim_array_push(path, extent);
            end = first;
        }
        run = aisim_content_parent(content, run);
    }
    for (uint32_t i = 0, j = path->len; i + 1 < j; i++) {
        aisim_route_extent swapped = path->data[i];
        path->data[i] = path->data[--j];
        path->data[j] = swapped;
    }
}

/* Full blocks by their identity, the rest of the prompt as a private one. */
static void count_blocks(aisim_sim *sim, const aisim_request *r, uint32_t rank, int64_t by)
{
    sim_load *load = &sim->loads.data[rank];
    uint32_t b = sim->ranks.data[rank]->pool.block_size;
    sim_prompt_path(sim->engine.content, r, b, &sim->path);
    for (uint32_t i = 0; i < sim->path.len; i++) {
        aisim_span_apply(&load->blocks, sim->path.data[i], AISIM_SPAN_ADD, by);
    }
    load->private_blocks += (uint64_t)by * (r->prompt_tokens % b != 0);
}

uint64_t aisim_sim_potential_blocks(aisim_sim *sim, const aisim_request *request, uint32_t rank)
{
    const sim_load *load = &sim->loads.data[rank];
    uint32_t b = sim->ranks.data[rank]->pool.block_size;
    uint64_t r = ((uint64_t)request->prompt_tokens + b - 1) / b;
    sim_prompt_path(sim->engine.content, request, b, &sim->path);
    return load->blocks.blocks + load->private_blocks + (r > 0 ? r : 1) -
           aisim_span_covered(&load->blocks, sim->path.data, sim->path.len);
}

/* The decode rank of a hand-off has books of its own beside those of the prefill rank. */
static bool at_decode_end(const aisim_sim *sim, uint32_t slot, uint32_t rank)
{
    uint32_t pool = sim->workers.data[sim->rank_workers.data[rank]].pool;
    return sim->booked.data[slot].received && pool == sim->handoffs.decode_pool;
}

void sim_book(aisim_sim *sim, uint32_t slot, uint32_t rank, int64_t overlap, bool prefills)
{
    const aisim_request *r = sim_request(sim, slot);
    sim_load *load = &sim->loads.data[rank];
    sim_touch(sim, rank);
    load->active_requests++;
    sim->workers.data[sim->rank_workers.data[rank]].requests++;
    if (!sim->track_load) {
        return;
    }
    while (sim->booked.len <= slot) {
        aisim_array_push(&sim->booked, (sim_booked){0});
    }
    sim_booked *booked = &sim->booked.data[slot];
    if (prefills) {
        uint64_t hit = overlap >= 0 ? (uint64_t)overlap : aisim_sim_overlap_blocks(sim, r, rank);
        if (aisim_sim_stateful(sim, sim->workers.data[sim->rank_workers.data[rank]].pool)) {
            uint64_t usable = aisim_sim_usable_blocks(sim, r, rank);
            hit = usable < hit ? usable : hit; /* §1 */
        }
        uint64_t cached = hit * sim->ranks.data[rank]->pool.block_size;
        booked->uncached = cached < r->prompt_tokens ? r->prompt_tokens - (uint32_t)cached : 0;
        booked->counted = true;
        load->active_prefill_tokens += booked->uncached;
    } else {
        booked->received = true;
    }
    count_blocks(sim, r, rank, 1);
}

void sim_uncount_prefill(aisim_sim *sim, uint32_t slot, uint32_t rank)
{
    if (slot < sim->booked.len && !at_decode_end(sim, slot, rank)) {
        sim_touch(sim, rank);
        sim->loads.data[rank].active_prefill_tokens -= sim->booked.data[slot].uncached;
        sim->booked.data[slot].uncached = 0;
    }
}

void sim_unbook(aisim_sim *sim, uint32_t slot, uint32_t rank)
{
    sim_touch(sim, rank);
    sim->loads.data[rank].active_requests--;
    sim->workers.data[sim->rank_workers.data[rank]].requests--;
    if (slot >= sim->booked.len) {
        return;
    }
    sim_uncount_prefill(sim, slot, rank);
    sim_booked *booked = &sim->booked.data[slot];
    bool *counted = at_decode_end(sim, slot, rank) ? &booked->received : &booked->counted;
    if (*counted) {
        *counted = false;
        count_blocks(sim, sim_request(sim, slot), rank, -1);
    }
}
