/* play.c - names, comparison and release of a lowered play. */
#include "workload/play.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"

void aisim_play_deinit(aisim_play *play)
{
    aisim_free(play->id);
    aisim_free(play->requests);
    aisim_free(play->edges);
    aisim_free(play->out);
    aisim_free(play->conversations);
    aisim_free(play->conversation_requests);
    aisim_free(play->scopes);
    aisim_free(play->ids);
    for (uint32_t i = 0; i < play->n_models; i++) {
        aisim_free(play->models[i]);
    }
    aisim_free(play->models);
    *play = (aisim_play){0};
}

uint64_t aisim_play_common_ids(const aisim_play *play, uint32_t a, uint32_t b)
{
    const aisim_play_request *x = &play->requests[a];
    const aisim_play_request *y = &play->requests[b];
    const aisim_id_run *at = play->ids + x->id_first;
    const aisim_id_run *to = play->ids + y->id_first;
    uint32_t n = x->id_runs < y->id_runs ? x->id_runs : y->id_runs;
    uint64_t common = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (at[i].first != to[i].first) {
            break;
        }
        common += at[i].count < to[i].count ? at[i].count : to[i].count;
        if (at[i].count != to[i].count) {
            break; /* canonical lists: what follows the shorter run differs */
        }
    }
    return common;
}

const char *aisim_play_relation_name(aisim_play_relation relation)
{
    static const char *const names[AISIM_RELATIONS] = {"sequence", "spawn", "barrier", "join"};
    return names[relation];
}

uint32_t aisim_play_circle(const aisim_play *play)
{
    uint32_t *waiting = aisim_alloc(play->n_requests, sizeof *waiting);
    uint32_t *ready = aisim_alloc(play->n_requests, sizeof *ready);
    uint32_t n_ready = 0;
    for (uint32_t i = 0; i < play->n_requests; i++) {
        waiting[i] = play->requests[i].in_edges;
        if (waiting[i] == 0) {
            ready[n_ready++] = i;
        }
    }
    for (uint32_t i = 0; i < n_ready; i++) {
        const aisim_play_request *r = &play->requests[ready[i]];
        for (uint32_t k = 0; k < r->out_edges; k++) {
            uint32_t target = play->edges[play->out[r->out_first + k]].target;
            if (--waiting[target] == 0) {
                ready[n_ready++] = target;
            }
        }
    }
    uint32_t held = AISIM_NONE;
    for (uint32_t i = 0; i < play->n_requests && held == AISIM_NONE; i++) {
        held = waiting[i] > 0 ? i : AISIM_NONE;
    }
    aisim_free(ready);
    aisim_free(waiting);
    return held;
}

char *aisim_play_request_name(const aisim_play *play, uint32_t request, char *out)
{
    const aisim_play_request *r = &play->requests[request];
    if (r->inner == AISIM_NONE) {
        snprintf(out, 48, "outer:%" PRIu32, r->outer);
    } else {
        snprintf(out, 48, "outer:%" PRIu32 ":inner:%" PRIu32, r->outer, r->inner);
    }
    return out;
}
