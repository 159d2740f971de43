/* router.c - built-in policies; each is a context and a pick function. */
#include "cluster/router.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/rng.h"

/* ---- round_robin -------------------------------------------------------------------------------
 */

typedef struct round_robin {
    uint32_t last; /* global rank chosen last, AISIM_NONE = none */
} round_robin;

static uint32_t round_robin_pick(void *context, aisim_sim *sim, const aisim_request *request,
                                 const aisim_targets *targets, int64_t *overlap, aisim_error *err)
{
    (void)sim, (void)request, (void)overlap, (void)err;
    round_robin *state = context;
    uint32_t choice = 0;
    if (state->last != AISIM_NONE) {
        while (choice < targets->n && targets->ranks[choice] <= state->last) {
            choice++;
        }
        choice = choice == targets->n ? 0 : choice;
    }
    state->last = targets->ranks[choice];
    return choice;
}

aisim_router aisim_router_round_robin(void)
{
    round_robin *state = aisim_alloc(1, sizeof *state);
    state->last = AISIM_NONE;
    return (aisim_router){
        .name = "round_robin", .context = state, .pick = round_robin_pick, .free = aisim_free};
}

/* ---- random -------------------------------------------------------------------------------------
 */

static uint32_t random_pick(void *context, aisim_sim *sim, const aisim_request *request,
                            const aisim_targets *targets, int64_t *overlap, aisim_error *err)
{
    (void)sim, (void)request, (void)overlap, (void)err;
    return (uint32_t)(aisim_rng_unit(context) * targets->n);
}

/* ---- least_requests, shortest_queue ---------------------------------------------------------- */

static uint32_t least_requests_pick(void *context, aisim_sim *sim, const aisim_request *request,
                                    const aisim_targets *targets, int64_t *overlap,
                                    aisim_error *err)
{
    (void)context, (void)sim, (void)request, (void)overlap, (void)err;
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < targets->n; i++) {
        aisim_rank_view view;
        targets->look(targets->host, targets->ranks[i], &view);
        if (view.active_requests < least) {
            least = view.active_requests;
            best = i;
        }
    }
    return best;
}

static uint32_t shortest_queue_pick(void *context, aisim_sim *sim, const aisim_request *request,
                                    const aisim_targets *targets, int64_t *overlap,
                                    aisim_error *err)
{
    (void)context, (void)sim, (void)request, (void)overlap, (void)err;
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < targets->n; i++) {
        aisim_rank_view view;
        targets->look(targets->host, targets->ranks[i], &view);
        uint64_t load = (uint64_t)view.waiting << 32 | view.running;
        if (load < least) {
            least = load;
            best = i;
        }
    }
    return best;
}

static const char *const names[] = {"round_robin", "random", "least_requests", "shortest_queue",
                                    NULL};

const char *const *aisim_router_names(void)
{
    return names;
}

bool aisim_router_builtin(const char *name, uint64_t seed, aisim_router *out)
{
    *out = (aisim_router){.name = name};
    if (strcmp(name, "round_robin") == 0) {
        *out = aisim_router_round_robin();
    } else if (strcmp(name, "random") == 0) {
        aisim_rng *rng = aisim_alloc(1, sizeof *rng);
        *rng = aisim_rng_named(seed, "router");
        out->context = rng;
        out->pick = random_pick;
        out->free = aisim_free;
    } else if (strcmp(name, "least_requests") == 0) {
        out->pick = least_requests_pick;
    } else if (strcmp(name, "shortest_queue") == 0) {
        out->pick = shortest_queue_pick;
    } else {
        return false;
    }
    return true;
}
