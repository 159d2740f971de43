/* recorder_routing.c - what routers decided (spec/routing.md §7): where requests were placed, how
 * often a binding decided, how often a session moved, how even the load came out.
 *
 * A map tells where a session was last, in each role. Residency at decisions is a prediction
 * and never cache reuse. */
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "metrics/recorder_state.h"
#include "metrics/report_state.h"

/* ---- events ---------------------------------------------------------------------------------- */

static uint32_t role_of(const aisim_worker_sums *worker)
{
    return strcmp(worker->role, "prefill") == 0 ? 1 : strcmp(worker->role, "decode") == 0 ? 2 : 0;
}

/* Has the session been elsewhere before? */
static void follow_session(aisim_recorder *recorder, uint32_t session, uint32_t worker)
{
    aisim_routing_sums *sums = &recorder->routing;
    uint32_t role = role_of(&recorder->workers.data[worker]);
    uint32_t last = aisim_map_get(&sums->last, session, role);
    sums->sessions += last == AISIM_NONE;
    sums->moves += last != AISIM_NONE && last != worker;
    if (last != worker) {
        aisim_map_set(&sums->last, session, role, worker);
    }
}

/* The latest decision counts: a request that lost its worker is decided about again. */
static void keep_overlap(aisim_recorder *recorder, const aisim_event *event)
{
    uint32_t slot = event->request->lease.owner;
    while (recorder->overlaps.len <= slot) {
        aisim_array_push(&recorder->overlaps, (aisim_overlap){0});
    }
    recorder->overlaps.data[slot] = (aisim_overlap){
        event->request->id, event->u.route.chosen_blocks, event->u.route.best_blocks};
}

void aisim_recorder_route(aisim_recorder *recorder, const aisim_event *event)
{
    const aisim_request *request = event->request;
    uint32_t worker = event->u.route.worker;
    if (event->u.route.best_blocks >= 0) {
        keep_overlap(recorder, event);
    }
    if (worker >= recorder->workers.len || !aisim_recorder_measured(recorder, request)) {
        return;
    }
    recorder->routing.placements++;
    recorder->routing.affinity_hits += event->u.route.bound;
    recorder->workers.data[worker].routed++;
    if (request->session != 0) {
        follow_session(recorder, request->session, worker);
    }
}

void aisim_recorder_overlap(const aisim_recorder *recorder, const aisim_request *request,
                            aisim_record *record)
{
    uint32_t slot = request->lease.owner;
    if (slot < recorder->overlaps.len && recorder->overlaps.data[slot].request_id == request->id) {
        record->overlap_chosen_blocks = (double)recorder->overlaps.data[slot].chosen_blocks;
        record->overlap_best_blocks = (double)recorder->overlaps.data[slot].best_blocks;
    }
}

/* ---- report ---------------------------------------------------------------------------------- */

static double tokens_of(const aisim_worker_sums *worker)
{
    return (double)worker->input_tokens + (double)worker->output_tokens;
}

/* max / mean of the tokens of the workers of one pool, that of worker `first`. */
static double imbalance_of(const aisim_recorder *recorder, uint32_t first)
{
    const char *pool = recorder->workers.data[first].pool;
    double most = 0, sum = 0, n = 0;
    for (uint32_t i = first; i < recorder->workers.len; i++) {
        if (strcmp(recorder->workers.data[i].pool, pool) == 0) {
            double tokens = tokens_of(&recorder->workers.data[i]);
            most = fmax(most, tokens);
            sum += tokens;
            n++;
        }
    }
    return aisim_report_ratio(most * n, sum);
}

/* Of the most uneven pool. */
static double imbalance(const aisim_recorder *recorder)
{
    double worst = (double)NAN;
    for (uint32_t i = 0; i < recorder->workers.len; i++) {
        bool first = true;
        for (uint32_t k = 0; first && k < i; k++) {
            first = strcmp(recorder->workers.data[k].pool, recorder->workers.data[i].pool) != 0;
        }
        worst = first ? fmax(worst, imbalance_of(recorder, i)) : worst;
    }
    return worst;
}

void aisim_report_routing(aisim_results *results, uint32_t totals, const aisim_recorder *recorder)
{
    const aisim_routing_sums *sums = &recorder->routing;
    uint32_t object = aisim_results_object(results, totals, "routing");
    aisim_results_uint(results, object, "placements", sums->placements);
    aisim_results_uint(results, object, "affinity_hits", sums->affinity_hits);
    aisim_results_uint(results, object, "session_moves", sums->moves);
    aisim_results_number(results, object, "moves_per_session",
                         aisim_report_ratio((double)sums->moves, (double)sums->sessions));
    aisim_results_number(results, object, "imbalance_ratio", imbalance(recorder));
    if (recorder->overlaps.len == 0) {
        return; /* router.regret: nobody asked */
    }
    aisim_results_uint(results, object, "decisions", recorder->regret_decisions);
    aisim_results_uint(results, object, "overlap_chosen_blocks", recorder->chosen_blocks);
    aisim_results_uint(results, object, "overlap_best_blocks", recorder->best_blocks);
    aisim_results_uint(results, object, "regret_blocks",
                       recorder->best_blocks - recorder->chosen_blocks);
}
