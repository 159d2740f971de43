/* compare_run.c - one case through both sides, compared after every call. */
#include "base/check.h"
#include "compare_internal.h"

enum { PASS_LIMIT = 400 };

/* ---- commands -------------------------------------------------------------------------------- */

static bool submit(compare_runner *r, uint32_t index)
{
    const compare_request *q = &r->c->requests.data[index];
    compare_row *w = &r->rows[index];
    twin_submit_args args = {.id = q->id,
                             .prompt = q->prompt.data,
                             .prompt_len = q->prompt.len,
                             .output_len = q->output,
                             .output_ids = q->planned.data,
                             .n_output_ids = q->planned.len,
                             .priority = q->priority,
                             .salt = q->salt,
                             .no_read = q->no_read,
                             .hold = q->role == COMPARE_SOURCE,
                             .blocked = q->role == COMPARE_BLOCKED};
    twin_view old;
    bool untold = engine_find(r->engine, q->id, &old) && !twin_find(r->twin, q->id, &old);
    if (untold) {
        return true; /* its rejection is decided and not yet visible: next time */
    }
    w->submitted = true;
    w->submitted_at = r->pass;
    compare_count(r, COMPARE_submit_in_flight, r->in_flight);
    if (q->role == COMPARE_DESTINATION) {
        bool done = twin_reserve(r->twin, &args);
        w->ended = !done;
        if (!compare_equal(r, "reserve", q->id, done, engine_reserve(r->engine, &args))) {
            return false;
        }
        w->serial = done ? r->by_serial.len : COMPARE_NONE;
    } else {
        w->serial = twin_submit(r->twin, &args);
        if (!compare_equal(r, "submit", q->id, w->serial, engine_submit(r->engine, &args))) {
            return false;
        }
    }
    if (q->role == COMPARE_BLOCKED) {
        w->handed_at = r->pass;
    }
    if (w->serial == COMPARE_NONE) {
        w->handed_at = COMPARE_NONE;
        w->ended = true;
        w->ended_at = r->pass;
        compare_count(r, COMPARE_refused_id, 1);
    } else {
        AISIM_CHECK(w->serial == r->by_serial.len);
        aisim_array_push(&r->by_serial, index);
    }
    return true;
}

static bool is_due(const compare_runner *r, uint32_t index)
{
    const compare_request *q = &r->c->requests.data[index];
    if (r->rows[index].submitted || q->arrive_in_flight != r->in_flight) {
        return false;
    }
    if (q->after == COMPARE_NONE) {
        return q->arrive <= r->pass;
    }
    return r->rows[q->after].ended && r->rows[q->after].ended_at + 1 + q->arrive <= r->pass;
}

static bool cancel(compare_runner *r, uint32_t index)
{
    const compare_request *q = &r->c->requests.data[index];
    twin_view view, other;
    bool lives = twin_find(r->twin, q->id, &view);
    if (!lives && engine_find(r->engine, q->id, &other)) {
        return true; /* as above */
    }
    if (lives) {
        compare_count_cancel(r, &view);
    }
    return compare_equal(r, "cancel", q->id, twin_cancel(r->twin, q->id),
                         engine_cancel(r->engine, q->id));
}

/* The second half of a handoff, or the end of a stay in the second queue. */
static bool hand_over(compare_runner *r, uint32_t index)
{
    const compare_request *q = &r->c->requests.data[index];
    compare_row *w = &r->rows[index];
    if (w->handed_at == COMPARE_NONE || w->handed_at + q->hand > r->pass) {
        return true;
    }
    w->handed_at = COMPARE_NONE;
    if (q->role == COMPARE_BLOCKED) {
        bool done = twin_unblock(r->twin, q->id);
        compare_count(r, COMPARE_unblocked, done);
        return compare_equal(r, "unblock", q->id, done, engine_unblock(r->engine, q->id));
    }
    if (q->role == COMPARE_SOURCE) {
        bool done = twin_release_source(r->twin, q->id);
        compare_count(r, COMPARE_held, done);
        return compare_equal(r, "release", q->id, done, engine_release_source(r->engine, q->id));
    }
    bool done = twin_activate(r->twin, q->id);
    compare_count(r, COMPARE_activated, done);
    return compare_equal(r, "activate", q->id, done, engine_activate(r->engine, q->id));
}

/* What the case says for this pass besides requests. */
static bool steer(compare_runner *r)
{
    for (uint32_t i = 0; i < r->c->reset.len; i++) {
        if (r->c->reset.data[i] == r->pass) {
            bool done = twin_reset(r->twin, false);
            compare_count(r, done ? COMPARE_resets : COMPARE_resets_refused, 1);
            if (!compare_equal(r, "reset", 0, done, engine_reset(r->engine, false))) {
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < r->c->flush.len; i++) {
        if (r->c->flush.data[i] == r->pass && r->flight.len == 0) {
            const uint32_t *list;
            compare_count(r, COMPARE_flushes, twin_running(r->twin, &list) > 0);
            if (!compare_equal(r, "flush", 0, twin_reset(r->twin, true),
                               engine_reset(r->engine, true))) {
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < r->c->budgets.len; i++) {
        if (r->c->budgets.data[i].pass == r->pass) {
            twin_set_budget(r->twin, r->c->budgets.data[i].tokens);
            engine_set_budget(r->engine, r->c->budgets.data[i].tokens);
        }
    }
    return true;
}

static bool command(compare_runner *r, const char *where)
{
    r->where = where;
    bool ok = r->in_flight || steer(r);
    r->pending = 0;
    for (uint32_t i = 0; ok && i < r->c->requests.len; i++) {
        const compare_request *q = &r->c->requests.data[i];
        compare_row *w = &r->rows[i];
        if (is_due(r, i)) {
            ok = submit(r, i);
        }
        if (ok && w->submitted && !w->ended && q->cancel != COMPARE_NONE &&
            w->submitted_at + q->cancel == r->pass && q->cancel_in_flight == r->in_flight) {
            ok = cancel(r, i);
        }
        if (ok && w->submitted && !w->ended && !r->in_flight && q->role != COMPARE_PLAIN) {
            ok = hand_over(r, i);
        }
        r->pending += !w->submitted && (q->after == COMPARE_NONE || r->rows[q->after].ended);
        r->pending += w->handed_at != COMPARE_NONE && !w->ended;
    }
    return ok && compare_peers(r) && compare_same_state(r);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static bool listed(const compare_passes *passes, uint32_t pass)
{
    for (uint32_t i = 0; i < passes->len; i++) {
        if (passes->data[i] == pass) {
            return true;
        }
    }
    return false;
}

static bool choose_defer(compare_runner *r, bool *defer)
{
    *defer = listed(&r->c->defer, r->pass);
    if (!r->c->waves) {
        return true;
    }
    *defer = twin_defers(r->twin, r->c->config.group_ranks, r->pass);
    return compare_equal(r, "defers", 0, *defer,
                         engine_defers(r->engine, r->c->config.group_ranks, r->pass));
}

static void remember(compare_runner *r)
{
    r->before = twin_sum(r->twin);
    for (uint32_t i = 0; i < r->by_serial.len; i++) {
        compare_row *w = &r->rows[r->by_serial.data[i]];
        twin_view view;
        if (!w->settled && twin_read(r->twin, i, &view)) {
            w->before = view.computed;
            w->was_running = view.status == TWIN_RUNNING;
        }
    }
}

static bool plan(compare_runner *r)
{
    bool defer;
    r->where = "plan";
    if (!choose_defer(r, &defer)) {
        return false;
    }
    remember(r);
    r->quiet = r->c->look_every > 0 && r->pass % r->c->look_every != 0;
    compare_count(r, COMPARE_quiet_passes, r->quiet);
    engine_set_quiet(r->engine, r->quiet);
    if (r->c->listen) {
        engine_listen(r->engine, (r->pass >> 3 & 1) != 0);
    }
    compare_flight flight;
    flight.of_twin = twin_plan(r->twin, defer);
    flight.of_engine = engine_plan(r->engine, defer);
    aisim_array_push(&r->flight, flight);
    if (!compare_same_plan(r)) {
        return false;
    }
    compare_count_plan(r, defer);
    if (!compare_same_shape(r)) {
        return false;
    }
    compare_forget_victims(r);
    return compare_same_state(r);
}

/* The oldest pass in flight ends. */
static bool complete(compare_runner *r)
{
    r->where = "complete";
    compare_flight flight = r->flight.data[0];
    aisim_array_remove(&r->flight, 0);
    twin_complete(r->twin, flight.of_twin, NULL, 0);
    engine_complete(r->engine, flight.of_engine, NULL, 0);
    if (!compare_same_end(r)) {
        return false;
    }
    compare_count_end(r);
    return compare_same_state(r);
}

/* Plans if anybody is there, and completes what may not stay in flight (R7: one pass may). */
static bool one_pass(compare_runner *r, bool *vain)
{
    bool ready = twin_sum(r->twin).ready;
    uint32_t may_stay = r->c->config.scheduler.overlap == AISIM_OVERLAP_NONE ? 0 : 1;
    *vain = true;
    if (ready) {
        if (!plan(r)) {
            return false;
        }
        const twin_record *record = twin_last(r->twin);
        *vain = record->n_items + record->n_preempted == 0;
        if (!compare_begin_flight(r, *vain)) {
            return false;
        }
    }
    r->in_flight = true;
    if (!command(r, "commands in flight")) {
        return false;
    }
    r->in_flight = false;
    if (ready) {
        compare_end_flight(r);
    }
    while (r->flight.len > (*vain ? 0 : may_stay)) {
        if (!complete(r)) {
            return false;
        }
        *vain = *vain && twin_last(r->twin)->n_finished + twin_last(r->twin)->n_emitted == 0;
    }
    return true;
}

/* Nothing in the lists of the case comes later than this. */
static uint32_t last_listed(const compare_case *c)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < c->defer.len; i++) {
        last = c->defer.data[i] > last ? c->defer.data[i] : last;
    }
    for (uint32_t i = 0; i < c->reset.len; i++) {
        last = c->reset.data[i] > last ? c->reset.data[i] : last;
    }
    for (uint32_t i = 0; i < c->flush.len; i++) {
        last = c->flush.data[i] > last ? c->flush.data[i] : last;
    }
    for (uint32_t i = 0; i < c->budgets.len; i++) {
        last = c->budgets.data[i].pass > last ? c->budgets.data[i].pass : last;
    }
    return last;
}

static void drive(compare_runner *r)
{
    uint32_t vain = 0, last = last_listed(r->c);
    for (r->pass = 0; r->pass < PASS_LIMIT; r->pass++) {
        if (!command(r, "commands")) {
            return;
        }
        bool nothing;
        if (!one_pass(r, &nothing)) {
            return;
        }
        bool moves = nothing && twin_next_transfer(r->twin) != INT64_MAX;
        if (!compare_rest(r, nothing)) {
            return;
        }
        vain = nothing && !moves ? vain + 1 : 0;
        if (r->pending == 0 && vain > 12 && r->pass > last) {
            return; /* idle, or a head that waits for ever (R1) */
        }
    }
    compare_count(r, COMPARE_cut_short, 1);
}

void compare_run(const compare_case *c, compare_result *result)
{
    *result = (compare_result){.same = true};
    compare_runner r = {.c = c, .out = result};
    r.rows = aisim_alloc_zero(c->requests.len, sizeof *r.rows);
    for (uint32_t i = 0; i < c->requests.len; i++) {
        r.rows[i].serial = r.rows[i].handed_at = COMPARE_NONE;
        r.rows[i].content = compare_hash_content(&c->requests.data[i]);
    }
    r.twin = twin_new(&c->config, 0);
    r.engine = engine_new(&c->config, 0);
    twin_set_external(r.twin, c->connector);
    engine_set_external(r.engine, c->connector);
    drive(&r);
    aisim_array_free(&r.flight);
    twin_free(r.twin);
    engine_free(r.engine);
    for (uint32_t i = 0; i < c->requests.len; i++) {
        aisim_free(r.rows[i].content);
    }
    aisim_free(r.rows);
    aisim_array_free(&r.by_serial);
}
