/* warmup.c - the phases of a run whose workloads have a warmup (traffic 3.6). */
#include "base/clock.h"
#include "sim/sim_internal.h"

static void show(aisim_sim *sim, const char *from, const char *to)
{
    if (aisim_wanted(&sim->engine.observers, AISIM_EV_PHASE)) {
        aisim_event event = {.type = AISIM_EV_PHASE, .rank = AISIM_NONE, .t_ns = sim->now_ns};
        event.u.phase.from = from;
        event.u.phase.to = to;
        aisim_emit(&sim->engine.observers, &event);
    }
}

void aisim_sim_warmup_add(aisim_sim *sim)
{
    sim->warming++;
}

void aisim_sim_warmup_begins(aisim_sim *sim)
{
    if (!sim->warmup_shown) {
        sim->warmup_shown = true;
        show(sim, "start", "warmup");
    }
}

void aisim_sim_warmup_over(aisim_sim *sim, bool barrier)
{
    AISIM_CHECK(sim->warming > 0);
    if (--sim->warming > 0) {
        return;
    }
    if (barrier) {
        show(sim, "warmup", "barrier");
    }
    show(sim, barrier ? "barrier" : "warmup", "profile");
}

uint32_t aisim_sim_warming(const aisim_sim *sim)
{
    return sim->warming;
}

int64_t aisim_sim_transfer_due(const aisim_sim *sim)
{
    int64_t due_ns = AISIM_NEVER;
    for (uint32_t i = 0; i < sim->tiers.len; i++) {
        due_ns = sim->tiers.data[i].due_ns < due_ns ? sim->tiers.data[i].due_ns : due_ns;
    }
    return due_ns;
}
