/* trace_traffic.c - one client; sessions that are not over, and the rows they wait with.
 *
 * A session is *idle* (its next row is not known or waits for a time) or *busy* (a turn is at the
 * server). Invariant: rows of a session start in file order, one at a time. Units that have been
 * read but not started stand in the queue `fresh` (concurrency and gaps only). */
#include "sim/trace_traffic.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "sim/trace_traffic_parts.h"

/* A timer for one row. */
typedef struct due {
    aisim_trace_client *t;
    uint32_t row;
} due;

/* ---- sending ---- */

static void submit_row(aisim_trace_client *t, aisim_trace_pending *row, int64_t at_ns)
{
    aisim_content *content = aisim_sim_content(t->sim);
    uint32_t tokens = 0;
    aisim_node prompt = aisim_trace_prompt(t, row, &tokens);
    uint32_t index = t->free_sent;
    if (index != AISIM_NONE) {
        t->free_sent = t->sent.data[index].next;
    } else {
        index = t->sent.len;
        aisim_array_push(&t->sent, (aisim_trace_sent){0});
    }
    t->sent.data[index] = (aisim_trace_sent){.session = row->session,
                                             .ideal = aisim_trace_ideal(t, row, tokens),
                                             .name = row->name,
                                             .next = AISIM_NONE};
    row->name = NULL; /* taken */
    aisim_submit submit = {.at_ns = at_ns,
                           .content = prompt,
                           .prompt_tokens = tokens,
                           .output_tokens = row->output_tokens,
                           .priority = row->priority,
                           .client = t->client,
                           .cookie = index,
                           .pool = t->config.pool,
                           .class_id = t->class_id,
                           .phase =
                               aisim_pace_sent(&t->pace, (uint64_t)tokens + row->output_tokens)};
    aisim_node planned = {0};
    if (row->n_output_ids >
        0) { /* the answer is known: who generates it after it finds its blocks */
        planned = aisim_content_append_ids(content, prompt, row->ids + row->n_ids,
                                           row->n_output_ids, 1, row->output_tokens);
        submit.planned = planned;
    }
    if (row->session != AISIM_NONE) {
        aisim_trace_session *s = &t->sessions.data[row->session];
        submit.session = s->number;
        submit.turn = s->turns;
        if (row->delta || row->has_kept) {
            if (row->n_output_ids == 0) {
                planned = aisim_content_append_private(content, prompt, row->output_tokens);
                submit.planned = planned;
            } else {
                aisim_content_hold(content, planned.run);
            }
            aisim_trace_release(t, s->context);
            s->context = planned;
        }
        s->turns++;
        s->started = s->busy = true;
    }
    aisim_error err = {0};
    if (aisim_sim_submit(t->sim, &submit, NULL, &err) != AISIM_OK) {
        aisim_trace_give_up(t, &err);
    }
    if (row->n_output_ids > 0) {
        aisim_content_release(content, planned.run);
    }
    aisim_content_release(content, prompt.run);
}

static void row_due(void *context, aisim_sim *sim, int64_t t_ns);

static due *due_of(aisim_trace_client *t, uint32_t row)
{
    due *d = aisim_alloc(1, sizeof *d);
    *d = (due){t, row};
    return d;
}

/* Sends a row now; it leaves its session's queue. */
static void send_row(aisim_trace_client *t, uint32_t index)
{
    aisim_trace_pending row = t->rows.data[index];
    aisim_pace_answer answer = aisim_pace_ask(&t->pace);
    if (answer == AISIM_PACE_OVER) {
        return;
    }
    if (row.session != AISIM_NONE) {
        t->sessions.data[row.session].waiting = answer == AISIM_PACE_HOLD;
    }
    if (answer == AISIM_PACE_HOLD) {
        aisim_pace_hold(&t->pace, row_due, due_of(t, index), aisim_free);
        return;
    }
    if (row.session != AISIM_NONE) {
        t->sessions.data[row.session].first = row.next;
    }
    submit_row(t, &row, aisim_sim_now(t->sim));
    t->rows.data[index].name = row.name;
    aisim_trace_drop_row(t, index);
}

static void row_due(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)sim, (void)t_ns;
    due *d = context;
    aisim_trace_client *t = d->t;
    uint32_t row = d->row;
    aisim_free(d);
    send_row(t, row);
}

static int64_t scaled(const aisim_trace_client *t, int64_t ns)
{
    return t->config.timestamps && t->config.speedup != 1
               ? (int64_t)llround((double)ns / t->config.speedup)
               : ns;
}

static int64_t recorded(const aisim_trace_client *t, const aisim_trace_pending *row)
{
    int64_t after = row->arrival_ns < 0 ? 0 : row->arrival_ns - t->origin_ns;
    return scaled(t, after > 0 ? after : 0);
}

/* The next row of an idle session: now, or at its time. */
static void next_turn(aisim_trace_client *t, uint32_t index)
{
    aisim_trace_session *s = &t->sessions.data[index];
    int64_t now = aisim_sim_now(t->sim);
    if (s->busy || s->waiting || s->first == AISIM_NONE) {
        return;
    }
    const aisim_trace_pending *row = &t->rows.data[s->first];
    int64_t at = now;
    int64_t delay_ns = row->delay_ns;
    if (s->turns > 0 && t->pace.config.think.next != NULL &&
        !aisim_pace_think(&t->pace, &delay_ns)) {
        return;
    }
    if (s->turns > 0 && delay_ns > 0) {
        int64_t ready = s->end_ns + scaled(t, delay_ns);
        at = ready > at ? ready : at;
    }
    if (t->config.timestamps && row->arrival_ns >= 0 && (s->turns == 0 || row->delay_ns < 0)) {
        int64_t gate = recorded(t, row);
        at = gate > at ? gate : at;
    }
    if (at <= now) {
        send_row(t, s->first);
        return;
    }
    if (at >= t->pace.config.until_ns) {
        return;
    }
    s->waiting = true;
    aisim_sim_timer(t->sim, at, AISIM_CLASS_ARRIVAL, false, row_due, due_of(t, s->first));
}

/* ---- timestamps ---- */

static void pump(void *context, aisim_sim *sim, int64_t t_ns);

static void drop_rows(aisim_trace_client *t, aisim_trace_session *s)
{
    for (uint32_t i = s->first; i != AISIM_NONE;) {
        uint32_t next = t->rows.data[i].next;
        aisim_trace_drop_row(t, i);
        i = next;
    }
    s->first = AISIM_NONE;
}

/* The row's time has come: its unit begins, goes on, or is one too many. */
static void start_row(aisim_trace_client *t, uint32_t index)
{
    uint32_t session = t->rows.data[index].session;
    aisim_trace_session *s = session == AISIM_NONE ? NULL : &t->sessions.data[session];
    bool begins = s == NULL || (!s->started && !s->waiting && !s->refused);
    if (begins && !aisim_pace_unit_allowed(&t->pace)) {
        if (s == NULL) {
            aisim_trace_drop_row(t, index);
            return;
        }
        s->refused = true;
    } else if (begins) {
        aisim_pace_unit_begun(&t->pace);
    }
    if (s == NULL) {
        send_row(t, index);
    } else if (s->refused) {
        drop_rows(t, s);
    } else {
        next_turn(t, session);
    }
}

/* Reads up to the first row that is not due. Rows of sessions without a time wait with theirs. */
static void pump(void *context, aisim_sim *sim, int64_t t_ns)
{
    aisim_trace_client *t = context;
    if (t->fresh.len > 0) { /* the row whose time this is */
        uint32_t index = t->fresh.data[0];
        t->fresh.len = 0;
        start_row(t, index);
    }
    while (!t->pace.over) {
        bool begins;
        uint32_t index;
        if (t->in_memory) {
            index = t->sorted_at < t->sorted.len ? t->sorted.data[t->sorted_at++] : AISIM_NONE;
        } else {
            index = aisim_trace_read_row(t, &begins);
        }
        if (index == AISIM_NONE) {
            return;
        }
        const aisim_trace_pending *row = &t->rows.data[index];
        int64_t at = recorded(t, row);
        bool own_time = row->arrival_ns >= 0 || row->session == AISIM_NONE;
        if (own_time && at > t_ns) {
            aisim_array_push(&t->fresh, index);
            if (at < t->pace.config.until_ns) {
                aisim_sim_timer(sim, at, AISIM_CLASS_ARRIVAL, false, pump, t);
            }
            return;
        }
        start_row(t, index);
    }
}

typedef struct by_time {
    int64_t arrival_ns;
    uint32_t row;
} by_time;

static int compare_times(const void *a, const void *b)
{
    const by_time *x = a;
    const by_time *y = b;
    if (x->arrival_ns != y->arrival_ns) {
        return x->arrival_ns < y->arrival_ns ? -1 : 1;
    }
    return x->row < y->row ? -1 : x->row > y->row;
}

/* A first pass over the file: is it in order of time? If not, it is kept and sorted. */
static aisim_status look_ahead(aisim_trace_client *t, const aisim_trace *trace, aisim_error *err)
{
    aisim_trace *scan = NULL;
    aisim_status status = aisim_trace_again(trace, &scan, err);
    int64_t last = -1;
    bool any = false;
    bool ordered = true;
    bool found = true;
    int64_t first = AISIM_NEVER;
    while (status == AISIM_OK && found) {
        aisim_trace_row row;
        status = aisim_trace_next(scan, &row, &found, err);
        if (status != AISIM_OK || !found) {
            break;
        }
        any = any || row.arrival_ns >= 0;
        int64_t at = row.arrival_ns < 0 && row.session == NULL ? 0 : row.arrival_ns;
        if (at >= 0) {
            ordered = ordered && at >= last;
            last = at;
        }
        if (row.arrival_ns >= 0 && row.arrival_ns < first) {
            first = row.arrival_ns;
        }
    }
    aisim_trace_close(scan);
    if (status == AISIM_OK && !any) {
        return aisim_fail(err, AISIM_EINVAL,
                          "the trace has no timestamps; give a load: concurrency or arrivals");
    }
    t->origin_ns = any ? first : 0;
    t->in_memory = !ordered;
    return status;
}

static void read_all(aisim_trace_client *t)
{
    AISIM_ARRAY(by_time) times = {0};
    bool begins;
    int64_t last = 0;
    for (uint32_t i = aisim_trace_read_row(t, &begins); i != AISIM_NONE;
         i = aisim_trace_read_row(t, &begins)) {
        const aisim_trace_pending *row = &t->rows.data[i];
        /* a turn without a time comes behind the row before it */
        last = row->arrival_ns >= 0 ? row->arrival_ns : row->session == AISIM_NONE ? 0 : last;
        aisim_array_push(&times, (by_time){last, i});
    }
    if (times.len > 0) {
        qsort(times.data, times.len, sizeof *times.data, compare_times);
    }
    for (uint32_t i = 0; i < times.len; i++) {
        aisim_array_push(&t->sorted, times.data[i].row);
    }
    aisim_array_free(&times);
}

/* ---- concurrency and gaps ---- */

/* The row that begins the next unit, AISIM_NONE at the end. */
static uint32_t next_unit(aisim_trace_client *t)
{
    while (t->fresh_at == t->fresh.len) {
        bool begins;
        uint32_t index = aisim_trace_read_row(t, &begins);
        if (index == AISIM_NONE) {
            return AISIM_NONE;
        }
        if (begins) {
            return index;
        }
    }
    uint32_t index = t->fresh.data[t->fresh_at++];
    if (t->fresh_at == t->fresh.len) {
        t->fresh.len = t->fresh_at = 0;
    }
    return index;
}

/* @return false when there is none left */
static bool start_unit(void *context)
{
    aisim_trace_client *t = context;
    uint32_t index = next_unit(t);
    if (index == AISIM_NONE) {
        return false;
    }
    send_row(t, index);
    return true;
}

/* Reads until the session has a row or the file ends; what else comes up waits. */
static void read_for(aisim_trace_client *t, uint32_t s)
{
    while (t->sessions.data[s].first == AISIM_NONE) {
        bool begins;
        uint32_t index = aisim_trace_read_row(t, &begins);
        if (index == AISIM_NONE) {
            return;
        }
        if (begins) {
            aisim_array_push(&t->fresh, index);
        }
    }
}

/* ---- client ---- */

static void end_session(aisim_trace_client *t, uint32_t index)
{
    aisim_trace_session *s = &t->sessions.data[index];
    drop_rows(t, s);
    aisim_trace_release(t, s->context);
    aisim_map_remove(&t->by_name, s->hash, 0);
    aisim_free(s->name);
    s->name = NULL;
    s->context = AISIM_ROOT;
    s->next = t->free_session;
    t->free_session = index;
}

static void on_terminal(void *context, aisim_sim *sim, const aisim_request *request)
{
    aisim_trace_client *t = context;
    aisim_trace_sent *e = &t->sent.data[request->cookie];
    uint32_t index = e->session;
    aisim_free(e->name);
    e->name = NULL;
    e->next = t->free_sent;
    t->free_sent = (uint32_t)request->cookie;
    aisim_pace_request_over(&t->pace, request);
    bool unit_over = true;
    bool timestamps = t->config.timestamps;
    if (index != AISIM_NONE) {
        aisim_trace_session *s = &t->sessions.data[index];
        s->busy = false;
        s->end_ns = aisim_sim_now(sim);
        if (!timestamps) {
            read_for(t, index);
            s = &t->sessions.data[index];
        }
        unit_over = s->first == AISIM_NONE && !timestamps;
        if (unit_over) {
            end_session(t, index);
        } else {
            next_turn(t, index);
        }
    }
    if (unit_over && !timestamps) {
        aisim_pace_unit_over(&t->pace);
    }
}

static int64_t on_ideal(void *context, const aisim_request *request)
{
    const aisim_trace_client *t = context;
    return t->sent.data[request->cookie].ideal;
}

static void on_descent(void *context, const aisim_request *request, aisim_descent *out)
{
    const aisim_trace_client *t = context;
    const aisim_trace_sent *e = &t->sent.data[request->cookie];
    out->request = e->name;
    out->session = e->session == AISIM_NONE ? NULL : t->sessions.data[e->session].name;
}

static void on_start(void *context, aisim_sim *sim)
{
    aisim_trace_client *t = context;
    aisim_pace_begin(&t->pace, !t->config.timestamps);
    if (t->config.timestamps) {
        if (t->in_memory) {
            read_all(t);
        }
        pump(t, sim, aisim_sim_now(sim));
    }
}

static void on_free(void *context)
{
    aisim_trace_client *t = context;
    for (uint32_t i = 0; i < t->sessions.len; i++) {
        aisim_trace_release(t, t->sessions.data[i].context);
        aisim_free(t->sessions.data[i].name);
    }
    for (uint32_t i = 0; i < t->sent.len; i++) {
        aisim_free(t->sent.data[i].name);
    }
    aisim_content_release(aisim_sim_content(t->sim), t->space.run);
    for (uint32_t i = 0; i < t->rows.len; i++) {
        aisim_free(t->rows.data[i].ids);
        aisim_free(t->rows.data[i].name);
    }
    aisim_pace_deinit(&t->pace);
    aisim_trace_close(t->trace);
    aisim_reuse_free(t->ideal);
    aisim_array_free(&t->rows);
    aisim_array_free(&t->sessions);
    aisim_array_free(&t->sent);
    aisim_array_free(&t->fresh);
    aisim_array_free(&t->sorted);
    aisim_map_free(&t->by_name);
    aisim_free(t);
}

aisim_status aisim_trace_traffic(aisim_sim *sim, aisim_trace *trace,
                                 const aisim_trace_traffic_config *config, aisim_error *err)
{
    if (aisim_trace_is_graph(trace)) {
        return aisim_fail(err, AISIM_EINVAL,
                          "a graph of requests is replayed as plays, not as rows");
    }
    aisim_trace_client *t = aisim_alloc_zero(1, sizeof *t);
    t->sim = sim;
    t->config = *config;
    t->free_row = t->free_session = t->free_sent = AISIM_NONE;
    aisim_status status = AISIM_OK;
    if (config->timestamps) {
        status = config->speedup > 0 && isfinite(config->speedup)
                     ? look_ahead(t, trace, err)
                     : aisim_fail(err, AISIM_ERANGE, "speedup = %g: must be > 0", config->speedup);
    }
    if (status == AISIM_OK) {
        status = aisim_pace_init(&t->pace, sim, &config->pace, false, t, start_unit, err);
    }
    if (status != AISIM_OK) {
        aisim_free(t);
        return status;
    }
    t->trace = trace;
    t->space = aisim_content_namespace(aisim_sim_content(sim), aisim_trace_space(trace));
    t->class_id = aisim_sim_class(sim, config->class_name == NULL ? "" : config->class_name);
    aisim_reuse_config ideal = {
        .block_size = aisim_sim_block_size(sim, config->pool), .servers = 1, .full_only = true};
    t->ideal = aisim_reuse_new(&ideal);
    aisim_client client = {.context = t,
                           .start = on_start,
                           .terminal = on_terminal,
                           .free = on_free,
                           .ideal = on_ideal,
                           .descent = on_descent};
    t->client = aisim_sim_client_add(sim, &client);
    return AISIM_OK;
}
