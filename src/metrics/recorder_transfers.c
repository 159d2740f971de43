/* recorder_transfers.c - what moved: hand-offs, stores and loads, and the tiers of blocks behind
 * them. */
#include <math.h>

#include "metrics/recorder_state.h"

/* What is known of the hand-off of a request, kept until it is over. */
static aisim_handed *handed_of(aisim_recorder *recorder, uint32_t request_id)
{
    uint32_t place = aisim_map_get(&recorder->handed, request_id, 0);
    if (place == AISIM_NONE) {
        if (recorder->handed_free.len > 0) {
            place = recorder->handed_free.data[--recorder->handed_free.len];
        } else {
            place = recorder->handed_over.len;
            aisim_array_push(&recorder->handed_over, (aisim_handed){0});
        }
        recorder->handed_over.data[place] = (aisim_handed){.wait_ns = {-1, -1}};
        aisim_map_set(&recorder->handed, request_id, 0, place);
    }
    return &recorder->handed_over.data[place];
}

/* Bytes and source. */
static void count_handed(aisim_recorder *recorder, const aisim_event *event)
{
    aisim_handed *handed = handed_of(recorder, event->u.transfer.request_id);
    handed->bytes += event->u.transfer.bytes;
    handed->worker = event->u.transfer.src;
    handed->sent = true;
}

void aisim_recorder_stage(aisim_recorder *recorder, const aisim_event *event)
{
    aisim_handed *handed = handed_of(recorder, event->request->id);
    handed->wait_ns[event->u.route.stage - 1] = event->u.route.wait_ns;
    if (event->u.route.stage == 1) {
        handed->wait_ns[1] = -1; /* if it starts again: the decode router has still to decide */
    }
}

bool aisim_recorder_handed(aisim_recorder *recorder, uint32_t request_id, aisim_handed *out)
{
    uint32_t place = aisim_map_remove(&recorder->handed, request_id, 0);
    if (place == AISIM_NONE) {
        return false;
    }
    aisim_array_push(&recorder->handed_free, place);
    *out = recorder->handed_over.data[place];
    return true;
}

void aisim_recorder_transfer(aisim_recorder *recorder, const aisim_event *event)
{
    if (event->u.transfer.kind == AISIM_TRANSFER_HANDOFF) {
        count_handed(recorder, event);
    }
    aisim_transfer_sums *sums = &recorder->transfers[event->u.transfer.kind];
    if (aisim_recorder_counts(recorder, event->t_ns)) {
        sums->jobs++;
        sums->bytes += event->u.transfer.bytes;
        int64_t end_ns = event->u.transfer.end_ns > 0 ? event->u.transfer.end_ns : event->t_ns;
        sums->time_ns += end_ns - event->u.transfer.begin_ns;
        if (event->u.transfer.kind == AISIM_TRANSFER_HANDOFF) {
            sums->hold_ns += end_ns - event->u.transfer.held_ns;
        }
    }
}

/* Sums over ranks; the facts of a pool come with its first rank. */
void aisim_recorder_totals(aisim_recorder *recorder, const aisim_rank_totals *totals)
{
    aisim_rank_totals *sum = &recorder->blocks;
    sum->allocated_blocks += totals->allocated_blocks;
    sum->published_blocks += totals->published_blocks;
    sum->evicted_blocks += totals->evicted_blocks;
    sum->state = sum->state || totals->state;
    sum->state_checkpoints += totals->state_checkpoints;
    sum->state_bytes += totals->state_bytes * (double)totals->state_checkpoints; /* of all */
    sum->state_admissions += totals->state_admissions;
    sum->state_restores += totals->state_restores;
    sum->state_matched_tokens += totals->state_matched_tokens;
    sum->state_usable_tokens += totals->state_usable_tokens;
    sum->host = sum->host || totals->host;
    sum->host_blocks += totals->host_blocks;
    sum->host_resident += totals->host_resident;
    sum->host_used += totals->host_used;
    sum->host_peak += totals->host_peak;
    sum->host_evicted += totals->host_evicted;
    for (uint32_t i = 0; i < 2; i++) {
        sum->jobs[i] += totals->jobs[i];
        sum->completed[i] += totals->completed[i];
        sum->blocks[i] += totals->blocks[i];
        sum->bytes[i] += totals->bytes[i];
        sum->transfer_ns[i] += totals->transfer_ns[i];
        sum->busy_ns[i] += totals->busy_ns[i];
        sum->wait_ns[i] += totals->wait_ns[i];
    }
    sum->cancelled_loads += totals->cancelled_loads;
    sum->retries += totals->retries;
    sum->unfittable += totals->unfittable;
    sum->lookups += totals->lookups;
    sum->hits += totals->hits;
    sum->hit_blocks += totals->hit_blocks;
    sum->deferred += totals->deferred;
    sum->fence_ns += totals->fence_ns;
}
