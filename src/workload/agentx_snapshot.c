/* agentx_snapshot.c - the cut, remaining delays, the frontier (traffic 2.2, 2.3). */
#include "workload/agentx_snapshot.h"

#include <math.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"

int64_t aisim_agentx_t_star_ns(const aisim_play *play, double fraction)
{
    double span_ns = (double)(play->last_start_ns - play->first_start_ns);
    int64_t t_star_ns = play->first_start_ns + llround(fraction * span_ns);
    return t_star_ns < play->last_start_ns ? t_star_ns : play->last_start_ns;
}

static aisim_status check_frontier(const aisim_play *play, aisim_agentx_snapshot *cut,
                                   aisim_error *err)
{
    aisim_status status = AISIM_OK;
    for (uint32_t e = 0; e < play->n_edges; e++) {
        const aisim_play_edge *edge = &play->edges[e];
        if (cut->history[edge->target] && !cut->history[edge->source]) {
            char target[48];
            char source[48];
            cut->crossing++;
            status = aisim_fail(err, AISIM_EINVAL,
                                "play '%s' cannot be cut at t* = %.6f s: %s started before it but "
                                "depends on %s, which did not",
                                play->id, aisim_s_from_ns(cut->t_star_ns),
                                aisim_play_request_name(play, edge->target, target),
                                aisim_play_request_name(play, edge->source, source));
        }
    }
    return status;
}

/* The last historical request of every conversation that is live; stream order is topological. */
static void find_primers(const aisim_play *play, aisim_agentx_snapshot *cut)
{
    cut->primers = aisim_alloc(play->n_conversations, sizeof *cut->primers);
    for (uint32_t c = 0; c < play->n_conversations; c++) {
        const aisim_play_conversation *conversation = &play->conversations[c];
        uint32_t primer = AISIM_NONE;
        bool live = false;
        for (uint32_t i = 0; i < conversation->count; i++) {
            uint32_t request = play->conversation_requests[conversation->first + i];
            if (!cut->history[request]) {
                live = true;
            } else if (primer == AISIM_NONE ||
                       play->requests[request].start_ns >= play->requests[primer].start_ns) {
                primer = request;
            }
        }
        if (live && primer != AISIM_NONE) {
            cut->primers[cut->n_primers++] = primer;
        }
    }
}

aisim_status aisim_agentx_snapshot_cut(const aisim_play *play, int64_t t_star_ns,
                                       aisim_agentx_snapshot *out, aisim_error *err)
{
    *out = (aisim_agentx_snapshot){.t_star_ns = t_star_ns};
    out->history = aisim_alloc(play->n_requests, sizeof *out->history);
    for (uint32_t i = 0; i < play->n_requests; i++) {
        out->history[i] = play->requests[i].start_ns < t_star_ns;
        out->retained += !out->history[i];
    }
    find_primers(play, out);
    return check_frontier(play, out, err);
}

void aisim_agentx_snapshot_deinit(aisim_agentx_snapshot *snapshot)
{
    aisim_free(snapshot->history);
    aisim_free(snapshot->primers);
    *snapshot = (aisim_agentx_snapshot){0};
}

uint32_t aisim_agentx_live_edges(const aisim_play *play, const aisim_agentx_snapshot *snapshot,
                                 uint32_t request)
{
    const aisim_play_request *r = &play->requests[request];
    uint32_t live = 0;
    for (uint32_t e = 0; e < r->in_edges; e++) {
        live += !snapshot->history[play->edges[r->in_first + e].source];
    }
    return live;
}

int64_t aisim_agentx_remaining_ns(const aisim_play *play, const aisim_agentx_snapshot *snapshot,
                                  uint32_t request, bool authored_gate)
{
    const aisim_play_request *r = &play->requests[request];
    int64_t remaining_ns = 0;
    bool live = false;
    for (uint32_t e = 0; e < r->in_edges; e++) {
        const aisim_play_edge *edge = &play->edges[r->in_first + e];
        if (!snapshot->history[edge->source]) {
            live = true;
            continue;
        }
        const aisim_play_request *source = &play->requests[edge->source];
        int64_t trigger_ns =
            edge->trigger == AISIM_TRIGGER_DISPATCH ? source->start_ns : source->end_ns;
        int64_t left_ns = trigger_ns + edge->delay_ns - snapshot->t_star_ns;
        remaining_ns = left_ns > remaining_ns ? left_ns : remaining_ns;
    }
    int64_t gate_ns = r->start_ns - snapshot->t_star_ns;
    if ((authored_gate || !live) && gate_ns > remaining_ns) {
        remaining_ns = gate_ns;
    }
    return remaining_ns;
}

uint32_t aisim_agentx_earliest_retained(const aisim_play *play,
                                        const aisim_agentx_snapshot *snapshot)
{
    for (uint32_t i = 0; i < play->n_requests; i++) {
        if (!snapshot->history[i]) {
            return i;
        }
    }
    AISIM_UNREACHABLE();
}

uint32_t aisim_agentx_next_ahead(const aisim_play *play, const aisim_agentx_snapshot *snapshot)
{
    if (snapshot->retained <= 1) {
        return AISIM_NONE;
    }
    for (uint32_t i = 0; i < play->n_requests; i++) {
        if (!snapshot->history[i] && aisim_agentx_live_edges(play, snapshot, i) == 0) {
            return i;
        }
    }
    AISIM_UNREACHABLE(); /* the graph is acyclic */
}

void aisim_agentx_move_frontier(const aisim_play *play, aisim_agentx_snapshot *snapshot,
                                uint32_t request)
{
    snapshot->history[request] = true;
    snapshot->retained--;
    int64_t end_ns = play->requests[request].end_ns;
    if (end_ns > snapshot->t_star_ns) {
        snapshot->t_star_ns = end_ns;
    }
}
