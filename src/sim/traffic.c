/* traffic.c - one client; memory does not grow with the length of the run. */
#include "sim/traffic.h"

#include <math.h>

typedef struct traffic {
    aisim_sim *sim;
    aisim_unit_source units;
    aisim_pace pace;
    uint32_t pool;
    uint16_t client, class_id;
} traffic;

/* Sends one request now. */
static bool start(void *context)
{
    traffic *t = context;
    aisim_unit unit = {0};
    aisim_error err = {0};
    if (!t->units.next(t->units.context, &unit, &err)) {
        aisim_pace_give_up(&t->pace, &err);
        return false;
    }
    uint64_t tokens = (uint64_t)unit.prompt_tokens + unit.output_tokens;
    aisim_content *content = aisim_sim_content(t->sim);
    aisim_node prefix =
        aisim_content_append_named(content, AISIM_ROOT, unit.prefix, unit.prefix_tokens);
    aisim_node prompt =
        aisim_content_append_private(content, prefix, unit.prompt_tokens - unit.prefix_tokens);
    aisim_submit submit = {.at_ns = aisim_sim_now(t->sim),
                           .content = prompt,
                           .prompt_tokens = unit.prompt_tokens,
                           .output_tokens = unit.output_tokens,
                           .priority = unit.priority,
                           .client = t->client,
                           .pool = t->pool,
                           .class_id = t->class_id,
                           .phase = aisim_pace_sent(&t->pace, tokens)};
    if (aisim_sim_submit(t->sim, &submit, NULL, &err) != AISIM_OK) {
        aisim_pace_give_up(&t->pace, &err);
    }
    aisim_content_release(content, prompt.run);
    aisim_content_release(content, prefix.run);
    return true;
}

static void on_terminal(void *context, aisim_sim *sim, const aisim_request *request)
{
    traffic *t = context;
    (void)sim;
    aisim_pace_request_over(&t->pace, request);
    aisim_pace_unit_over(&t->pace);
}

static void on_start(void *context, aisim_sim *sim)
{
    (void)sim;
    aisim_pace_begin(&((traffic *)context)->pace, true);
}

static void on_free(void *context)
{
    traffic *t = context;
    aisim_pace_deinit(&t->pace);
    if (t->units.free != NULL) {
        t->units.free(t->units.context);
    }
    aisim_free(t);
}

aisim_status aisim_traffic(aisim_sim *sim, const aisim_traffic_config *config, aisim_error *err)
{
    traffic *t = aisim_alloc_zero(1, sizeof *t);
    aisim_status status = aisim_pace_init(&t->pace, sim, &config->pace, true, t, start, err);
    if (status != AISIM_OK) {
        aisim_free(t);
        return status;
    }
    t->sim = sim;
    t->units = config->units;
    t->pool = config->pool;
    t->class_id = aisim_sim_class(sim, config->class_name == NULL ? "" : config->class_name);
    aisim_client client = {
        .context = t, .start = on_start, .terminal = on_terminal, .free = on_free};
    t->client = aisim_sim_client_add(sim, &client);
    return AISIM_OK;
}

double aisim_units_in_capacity(const aisim_sim *sim, uint32_t pool, double fraction, double tokens)
{
    double capacity = 0.0;
    for (uint32_t i = 0; i < aisim_sim_ranks(sim); i++) {
        aisim_rank_view view;
        aisim_sim_rank(sim, i, &view);
        if (view.pool == pool) {
            capacity += (double)view.kv_total * aisim_sim_block_size(sim, pool);
        }
    }
    return fmax(1.0, round(fraction * capacity / tokens));
}
