/* traffic.c - one client each for open and closed traffic; one pending timer or arrival per source
 * of arrivals, so memory does not grow with the length of the run. */
#include "sim/traffic.h"

#include "base/alloc.h"
#include "base/clock.h"

typedef struct traffic {
    aisim_sim *sim;
    aisim_traffic_config config;
    aisim_gap_source gaps; /* between arrivals, or think time */
    uint16_t client, class_id;
    uint64_t issued;
    bool closed, first_at_start, over;
    uint32_t users;
} traffic;

static void give_up(traffic *t, const aisim_error *err)
{
    t->over = true;
    if (err->code != AISIM_OK) {
        aisim_sim_abort(t->sim, err);
    }
}

/* Sends one request arriving at at_ns, if the limits allow. */
static void send(traffic *t, int64_t at_ns)
{
    aisim_unit unit = {0};
    aisim_error err = {0};
    if (t->over || at_ns >= t->config.until_ns ||
        (t->config.requests > 0 && t->issued >= t->config.requests)) {
        t->over = true;
        return;
    }
    if (!t->config.units.next(t->config.units.context, &unit, &err)) {
        give_up(t, &err);
        return;
    }
    aisim_content *content = aisim_sim_content(t->sim);
    aisim_node prefix =
        aisim_content_append_named(content, AISIM_ROOT, unit.prefix, unit.prefix_tokens);
    aisim_node prompt =
        aisim_content_append_private(content, prefix, unit.prompt_tokens - unit.prefix_tokens);
    aisim_submit submit = {.at_ns = at_ns,
                           .content = prompt,
                           .prompt_tokens = unit.prompt_tokens,
                           .output_tokens = unit.output_tokens,
                           .priority = unit.priority,
                           .client = t->client,
                           .pool = t->config.pool,
                           .class_id = t->class_id,
                           .phase = t->config.phase};
    t->issued++;
    if (aisim_sim_submit(t->sim, &submit, NULL, &err) != AISIM_OK) {
        give_up(t, &err);
    }
    aisim_content_release(content, prompt.run);
    aisim_content_release(content, prefix.run);
}

/* ---- open ------------------------------------------------------------------------------------ */

static void plan_arrival(traffic *t);

static void arrival_due(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)sim;
    traffic *t = context;
    send(t, t_ns);
    plan_arrival(t);
}

static void plan_arrival(traffic *t)
{
    int64_t gap_ns = 0;
    aisim_error err = {0};
    if (t->over || (t->config.requests > 0 && t->issued >= t->config.requests)) {
        return;
    }
    if (!t->gaps.next(t->gaps.context, &gap_ns, &err)) {
        give_up(t, &err);
        return;
    }
    int64_t now = aisim_sim_now(t->sim);
    if (gap_ns < t->config.until_ns - now) { /* the arrival itself is the event */
        aisim_sim_timer(t->sim, now + gap_ns, AISIM_CLASS_ARRIVAL, false, arrival_due, t);
    }
}

/* ---- closed ---------------------------------------------------------------------------------- */

static void on_terminal(void *context, aisim_sim *sim, const aisim_request *request)
{
    traffic *t = context;
    int64_t think_ns = 0;
    aisim_error err = {0};
    (void)request;
    if (t->over) {
        return;
    }
    if (t->gaps.next != NULL && !t->gaps.next(t->gaps.context, &think_ns, &err)) {
        if (err.code != AISIM_OK) {
            give_up(t, &err);
        }
        return;
    }
    int64_t now = aisim_sim_now(sim);
    if (think_ns < t->config.until_ns - now) {
        send(t, now + think_ns);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_start(void *context, aisim_sim *sim)
{
    traffic *t = context;
    if (t->closed) {
        for (uint32_t i = 0; i < t->users; i++) {
            send(t, aisim_sim_now(sim));
        }
        return;
    }
    if (t->first_at_start) {
        send(t, aisim_sim_now(sim));
    }
    plan_arrival(t);
}

static void on_free(void *context)
{
    traffic *t = context;
    if (t->gaps.free != NULL) {
        t->gaps.free(t->gaps.context);
    }
    if (t->config.units.free != NULL) {
        t->config.units.free(t->config.units.context);
    }
    aisim_free(t);
}

static traffic *make(aisim_sim *sim, const aisim_traffic_config *config, aisim_gap_source gaps)
{
    traffic *t = aisim_alloc_zero(1, sizeof *t);
    t->sim = sim;
    t->config = *config;
    t->gaps = gaps;
    t->class_id = aisim_sim_class(sim, config->class_name == NULL ? "" : config->class_name);
    if (t->config.until_ns == 0) {
        t->config.until_ns = AISIM_NEVER;
    }
    return t;
}

static aisim_status check_limits(const aisim_traffic_config *config, aisim_error *err)
{
    if (config->requests == 0 && (config->until_ns == 0 || config->until_ns == AISIM_NEVER)) {
        return aisim_fail(err, AISIM_EINVAL,
                          "traffic without an end: give until_ms or requests (or stop the run)");
    }
    return AISIM_OK;
}

aisim_status aisim_traffic_open(aisim_sim *sim, const aisim_traffic_config *config,
                                aisim_gap_source gaps, bool first_at_start, aisim_error *err)
{
    if (check_limits(config, err) != AISIM_OK) {
        return AISIM_EINVAL;
    }
    traffic *t = make(sim, config, gaps);
    t->first_at_start = first_at_start;
    aisim_client client = {.context = t, .start = on_start, .free = on_free};
    t->client = aisim_sim_client_add(sim, &client);
    return AISIM_OK;
}

aisim_status aisim_traffic_closed(aisim_sim *sim, const aisim_traffic_config *config,
                                  uint32_t users, aisim_gap_source think, aisim_error *err)
{
    if (users < 1) {
        return aisim_fail(err, AISIM_ERANGE, "users = 0: must be ≥ 1");
    }
    if (check_limits(config, err) != AISIM_OK) {
        return AISIM_EINVAL;
    }
    traffic *t = make(sim, config, think);
    t->closed = true;
    t->users = users;
    aisim_client client = {
        .context = t, .start = on_start, .terminal = on_terminal, .free = on_free};
    t->client = aisim_sim_client_add(sim, &client);
    return AISIM_OK;
}
