/* router.c - the router of a pool that names none. */
#include "cluster/router.h"

#include "base/alloc.h"
#include "base/map.h"

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
