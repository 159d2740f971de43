/* compare_run.c - one case through both sides, compared after every call.
 *
 * Blocks have no ids in the engine, so a block is compared by what it holds: (request, block index)
 * of either side becomes a hash over all tokens up to the end of that block. Outputs without a
 * planned id occur nowhere else on either side, here they are hashed by (request, position).
 *
 * Not compared: recomputed and slots of an item (the twin alone has them), the reason of a
 * rejection by the budget (the engine calls it capacity), and, between plan and complete, what only
 * becomes visible at the pass end (reasons, number of live requests). */
#include "compare.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "compare_engine.h"

enum { PASS_LIMIT = 400 };

typedef struct row {
    uint32_t serial; /* COMPARE_NONE = not accepted (yet) */
    bool submitted, ended, settled, admitted, resumed, was_running;
    uint32_t submitted_at, ended_at, handed_at;
    uint32_t before;   /* C before the plan */
    uint64_t *content; /* hash of the first i tokens */
} row;

typedef struct run {
    const compare_case *c;
    compare_result *out;
    twin *twin, *engine;
    uint32_t pass;
    bool in_flight;
    const char *where;
    row *rows;
    AISIM_ARRAY(uint32_t) by_serial; /* -> index of the request */
    uint32_t pending;                /* things that will still happen by themselves */
    twin_totals before;              /* of the twin, at the begin of the pass */
} run;

static void count(run *r, compare_counter counter, uint64_t n)
{
    r->out->counters[counter] += n;
}

/* The first difference ends the comparison. @return false */
static bool differ(run *r, const char *format, ...)
{
    char *at = r->out->difference;
    size_t room = sizeof r->out->difference;
    int n = snprintf(at, room, "pass %" PRIu32 ", %s: ", r->pass, r->where);
    va_list args;
    va_start(args, format);
    vsnprintf(at + n, room - (size_t)n, format, args);
    va_end(args);
    r->out->same = false;
    r->out->pass = r->pass;
    return false;
}

static bool equal(run *r, const char *what, uint64_t of, uint64_t want, uint64_t have)
{
    if (want == have) {
        return true;
    }
    return differ(r, "%s [%" PRIu64 "]: twin %" PRIu64 ", engine %" PRIu64, what, of, want, have);
}

/* ---- content of blocks ----------------------------------------------------------------------- */

static uint64_t token_hash(const compare_request *q, uint32_t i)
{
    if (i < q->prompt.len) {
        return aisim_mix64(q->prompt.data[i]);
    }
    uint32_t output = i - q->prompt.len;
    if (output < q->planned.len) {
        return aisim_mix64(q->planned.data[output]);
    }
    return aisim_mix64(aisim_mix64(UINT64_C(1) << 63 | q->id) + i);
}

static uint64_t *hash_content(const compare_request *q)
{
    uint32_t n = q->prompt.len + q->output;
    uint64_t *hashes = aisim_alloc(n + 1, sizeof *hashes);
    hashes[0] = aisim_mix64(q->salt + 17);
    for (uint32_t i = 0; i < n; i++) {
        hashes[i + 1] = aisim_mix64(hashes[i] ^ (token_hash(q, i) << 1));
    }
    return hashes;
}

/* What the block holds; 0 = no such block. */
static uint64_t content_of(const run *r, twin_name name)
{
    for (uint32_t i = 0; i < r->c->requests.len; i++) {
        const compare_request *q = &r->c->requests.data[i];
        uint64_t end = ((uint64_t)name.index + 1) * r->c->config.kv.block_size;
        if (q->id == name.id && end <= (uint64_t)q->prompt.len + q->output) {
            return r->rows[i].content[end];
        }
    }
    return 0;
}

static bool same_blocks(run *r, const char *what, const twin_name *want, uint32_t n_want,
                        const twin_name *have, uint32_t n_have)
{
    for (uint32_t i = 0; i < n_want && i < n_have; i++) {
        bool none = want[i].id == TWIN_NONE && have[i].id == TWIN_NONE;
        if (!none &&
            (content_of(r, want[i]) != content_of(r, have[i]) || content_of(r, want[i]) == 0)) {
            return differ(
                r, "%s [%" PRIu32 "]: twin %" PRIu32 ":%" PRIu32 ", engine %" PRIu32 ":%" PRIu32,
                what, i, want[i].id, want[i].index, have[i].id, have[i].index);
        }
    }
    return equal(r, what, UINT64_MAX, n_want, n_have);
}

/* ---- records --------------------------------------------------------------------------------- */

static bool same_item(run *r, const twin_item *want, const twin_item *have)
{
    return equal(r, "item id", want->serial, want->id, have->id) &&
           equal(r, "item serial", want->id, want->serial, have->serial) &&
           equal(r, "item tokens", want->id, want->tokens, have->tokens) &&
           equal(r, "item prefix", want->id, want->prefix, have->prefix) &&
           equal(r, "item chunk", want->id, want->chunk, have->chunk) &&
           equal(r, "item generated", want->id, want->generated, have->generated) &&
           equal(r, "item drafts", want->id, want->drafts, have->drafts) &&
           equal(r, "item known", want->id, want->known, have->known) &&
           equal(r, "item admitted", want->id, want->admitted, have->admitted) &&
           equal(r, "item reused", want->id, want->reused, have->reused);
}

static bool same_pairs(run *r, const char *what, const twin_pair *want, uint32_t n_want,
                       const twin_pair *have, uint32_t n_have)
{
    for (uint32_t i = 0; i < n_want && i < n_have; i++) {
        if (!equal(r, what, i, want[i].id, have[i].id) ||
            !equal(r, what, want[i].id, want[i].value, have[i].value)) {
            return false;
        }
    }
    return equal(r, what, UINT64_MAX, n_want, n_have);
}

/* Timing inputs of the pass (E-O4, D3), from the items of the twin. */
static bool same_shape(run *r, const twin_record *record)
{
    aisim_pass_shape want = {0};
    const aisim_pass_shape *have = engine_shape(r->engine);
    for (uint32_t i = 0; i < record->n_items; i++) {
        const twin_item *item = &record->items[i];
        const row *w = &r->rows[r->by_serial.data[item->serial]];
        uint32_t prompt = r->c->requests.data[r->by_serial.data[item->serial]].prompt.len;
        uint32_t before = item->admitted ? item->reused : w->before;
        if (item->tokens == 0) {
            continue; /* nothing to compute, no token either (E-T2) */
        }
        if (before < prompt || w->resumed) {
            want.n_prefill++;
            want.new_tokens += item->tokens;
            want.past_tokens += before;
        } else {
            want.n_decode++;
            want.context_tokens += item->known;
        }
    }
    return equal(r, "shape n_prefill", 0, want.n_prefill, have->n_prefill) &&
           equal(r, "shape new_tokens", 0, want.new_tokens, have->new_tokens) &&
           equal(r, "shape past_tokens", 0, want.past_tokens, have->past_tokens) &&
           equal(r, "shape n_decode", 0, want.n_decode, have->n_decode) &&
           equal(r, "shape context_tokens", 0, want.context_tokens, have->context_tokens);
}

static bool same_plan(run *r)
{
    const twin_record *want = twin_last(r->twin), *have = engine_last(r->engine);
    for (uint32_t i = 0; i < want->n_items && i < have->n_items; i++) {
        if (!same_item(r, &want->items[i], &have->items[i])) {
            return false;
        }
    }
    return equal(r, "number of items", 0, want->n_items, have->n_items) &&
           same_pairs(r, "preempted", want->preempted, want->n_preempted, have->preempted,
                      have->n_preempted) &&
           equal(r, "budget left", 0, want->budget_left, have->budget_left) &&
           same_blocks(r, "evicted", want->evicted, want->n_evicted, have->evicted,
                       have->n_evicted);
}

static bool same_events(run *r, const twin_record *want, const twin_record *have)
{
    for (uint32_t i = 0; i < want->n_events && i < have->n_events; i++) {
        const twin_event *a = &want->events[i], *b = &have->events[i];
        if (!equal(r, "event stored", i, a->stored, b->stored) ||
            !equal(r, "event has parent", i, a->has_parent, b->has_parent) ||
            !equal(r, "event length", i, a->len, b->len)) {
            return false;
        }
        if (a->has_parent && !same_blocks(r, "event parent", &a->parent, 1, &b->parent, 1)) {
            return false;
        }
    }
    return equal(r, "number of events", 0, want->n_events, have->n_events) &&
           same_blocks(r, "event blocks", want->names, want->n_names, have->names, have->n_names);
}

static uint32_t reason_class(uint32_t reason)
{
    return reason == TWIN_REJECTED_BUDGET ? TWIN_REJECTED_CAPACITY : reason;
}

static bool same_end(run *r)
{
    const twin_record *want = twin_last(r->twin), *have = engine_last(r->engine);
    for (uint32_t i = 0; i < want->n_emitted && i < have->n_emitted; i++) {
        const twin_emitted *a = &want->emitted[i], *b = &have->emitted[i];
        if (!equal(r, "emitted id", i, a->id, b->id) ||
            !equal(r, "emitted tokens", a->id, a->tokens, b->tokens) ||
            !equal(r, "emitted accepted", a->id, a->accepted, b->accepted) ||
            !equal(r, "emitted verified", a->id, a->verified, b->verified)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < want->n_finished && i < have->n_finished; i++) {
        if (!equal(r, "finished id", i, want->finished[i].id, have->finished[i].id) ||
            !equal(r, "finished reason", want->finished[i].id,
                   reason_class(want->finished[i].value), reason_class(have->finished[i].value))) {
            return false;
        }
    }
    return equal(r, "number of emitted", 0, want->n_emitted, have->n_emitted) &&
           equal(r, "number of finished", 0, want->n_finished, have->n_finished) &&
           equal(r, "changed", 0, want->changed, have->changed) && same_events(r, want, have);
}

/* ---- state ----------------------------------------------------------------------------------- */

static bool same_view(run *r, const twin_view *want, const twin_view *have)
{
    uint64_t id = want->id;
    bool ok = equal(r, "id", want->serial, want->id, have->id) &&
              equal(r, "ordinal", id, want->ordinal, have->ordinal) &&
              equal(r, "status", id, want->status, have->status) &&
              equal(r, "generated", id, want->generated, have->generated) &&
              equal(r, "known", id, want->known, have->known) &&
              equal(r, "owned", id, want->owned, have->owned) &&
              equal(r, "opaque", id, want->opaque, have->opaque) &&
              equal(r, "watermark", id, want->watermark, have->watermark) &&
              equal(r, "published", id, want->published, have->published) &&
              equal(r, "state blocks", id, want->state_blocks, have->state_blocks) &&
              equal(r, "reused", id, want->reused, have->reused) &&
              equal(r, "preemptions", id, want->preemptions, have->preemptions) &&
              equal(r, "missing", id, want->missing, have->missing) &&
              equal(r, "readmissions", id, want->n_readmit, have->n_readmit);
    for (uint32_t i = 0; ok && i < want->n_readmit; i++) {
        ok = equal(r, "readmission reused", id, want->readmit_reused[i], have->readmit_reused[i]);
    }
    if (ok && want->status != TWIN_FINISHED) {
        ok = equal(r, "computed", id, want->computed, have->computed);
    }
    if (ok && !r->in_flight) {
        ok = equal(r, "reason", id, reason_class(want->reason), reason_class(have->reason));
    }
    return ok;
}

static bool same_views(run *r)
{
    for (uint32_t serial = 0; serial < r->by_serial.len; serial++) {
        row *w = &r->rows[r->by_serial.data[serial]];
        twin_view want, have;
        if (w->settled) {
            continue;
        }
        twin_read(r->twin, serial, &want);
        engine_read(r->engine, serial, &have);
        if (!same_view(r, &want, &have)) {
            return false;
        }
        if (want.status == TWIN_FINISHED && !r->in_flight) {
            w->settled = true;
            w->ended = true;
            w->ended_at = r->pass;
        } else if (want.status == TWIN_HELD || want.status == TWIN_RESERVED) {
            w->handed_at = w->handed_at == COMPARE_NONE ? r->pass : w->handed_at;
        }
    }
    return true;
}

static bool same_list(run *r, const char *what,
                      uint32_t (*twin_list)(const twin *, const uint32_t **),
                      uint32_t (*engine_list)(const twin *, const uint32_t **))
{
    const uint32_t *want, *have;
    uint32_t n = twin_list(r->twin, &want), m = engine_list(r->engine, &have);
    for (uint32_t i = 0; i < n && i < m; i++) {
        if (!equal(r, what, i, want[i], have[i])) {
            return false;
        }
    }
    return equal(r, what, UINT64_MAX, n, m);
}

static bool same_state(run *r)
{
    twin_totals want = twin_sum(r->twin), have = engine_sum(r->engine);
    bool ok = same_list(r, "running", twin_running, engine_running) &&
              same_list(r, "waiting", twin_waiting, engine_waiting) && same_views(r) &&
              equal(r, "active", 0, want.active, have.active) &&
              equal(r, "inactive", 0, want.inactive, have.inactive) &&
              equal(r, "free", 0, want.free, have.free) &&
              equal(r, "ready", 0, want.ready, have.ready) &&
              equal(r, "capacity_bound", 0, want.capacity_bound, have.capacity_bound) &&
              equal(r, "total preemptions", 0, want.preemptions, have.preemptions);
    if (ok && !r->in_flight) {
        ok = equal(r, "live", 0, want.live, have.live) &&
             equal(r, "drained", 0, want.drained, have.drained) &&
             equal(r, "livelock", 0, want.livelock, have.livelock);
    }
    twin_verify(r->twin);
    engine_verify(r->engine);
    return ok;
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool submit(run *r, uint32_t index)
{
    const compare_request *q = &r->c->requests.data[index];
    row *w = &r->rows[index];
    twin_submit_args args = {.id = q->id,
                             .prompt = q->prompt.data,
                             .prompt_len = q->prompt.len,
                             .output_len = q->output,
                             .output_ids = q->planned.data,
                             .n_output_ids = q->planned.len,
                             .priority = q->priority,
                             .salt = q->salt,
                             .no_read = q->no_read,
                             .hold = q->role == COMPARE_SOURCE};
    twin_view old;
    bool untold = engine_find(r->engine, q->id, &old) && !twin_find(r->twin, q->id, &old);
    if (untold) {
        return true; /* its rejection is decided and not yet visible: next time */
    }
    w->submitted = true;
    w->submitted_at = r->pass;
    count(r, COMPARE_submit_in_flight, r->in_flight);
    if (q->role == COMPARE_DESTINATION) {
        bool done = twin_reserve(r->twin, &args);
        w->ended = !done;
        if (!equal(r, "reserve", q->id, done, engine_reserve(r->engine, &args))) {
            return false;
        }
        w->serial = done ? r->by_serial.len : COMPARE_NONE;
    } else {
        w->serial = twin_submit(r->twin, &args);
        if (!equal(r, "submit", q->id, w->serial, engine_submit(r->engine, &args))) {
            return false;
        }
    }
    if (w->serial == COMPARE_NONE) {
        w->ended = true;
        w->ended_at = r->pass;
        count(r, COMPARE_refused_id, 1);
    } else {
        AISIM_CHECK(w->serial == r->by_serial.len);
        aisim_array_push(&r->by_serial, index);
    }
    return true;
}

static bool is_due(const run *r, uint32_t index)
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

static void count_cancel(run *r, const twin_view *view)
{
    bool scheduled = false;
    const twin_record *record = twin_last(r->twin);
    for (uint32_t i = 0; r->in_flight && i < record->n_items; i++) {
        scheduled = scheduled || record->items[i].id == view->id;
    }
    count(r, COMPARE_cancel_waiting, view->status == TWIN_WAITING);
    count(r, COMPARE_cancel_preempted, view->status == TWIN_PREEMPTED);
    count(r, COMPARE_cancel_running, view->status == TWIN_RUNNING && !scheduled);
    count(r, COMPARE_cancel_in_flight, scheduled);
}

static bool cancel(run *r, uint32_t index)
{
    const compare_request *q = &r->c->requests.data[index];
    twin_view view, other;
    bool lives = twin_find(r->twin, q->id, &view);
    if (!lives && engine_find(r->engine, q->id, &other)) {
        return true; /* as above */
    }
    if (lives) {
        count_cancel(r, &view);
    }
    return equal(r, "cancel", q->id, twin_cancel(r->twin, q->id), engine_cancel(r->engine, q->id));
}

/* The second half of a handoff. */
static bool hand_over(run *r, uint32_t index)
{
    const compare_request *q = &r->c->requests.data[index];
    row *w = &r->rows[index];
    if (w->handed_at == COMPARE_NONE || w->handed_at + q->hand > r->pass) {
        return true;
    }
    w->handed_at = COMPARE_NONE;
    if (q->role == COMPARE_SOURCE) {
        bool done = twin_release_source(r->twin, q->id);
        count(r, COMPARE_held, done);
        return equal(r, "release", q->id, done, engine_release_source(r->engine, q->id));
    }
    bool done = twin_activate(r->twin, q->id);
    count(r, COMPARE_activated, done);
    return equal(r, "activate", q->id, done, engine_activate(r->engine, q->id));
}

/* What the case says for this pass besides requests. */
static bool steer(run *r)
{
    for (uint32_t i = 0; i < r->c->reset.len; i++) {
        if (r->c->reset.data[i] == r->pass) {
            bool done = twin_reset(r->twin, false);
            count(r, done ? COMPARE_resets : COMPARE_resets_refused, 1);
            if (!equal(r, "reset", 0, done, engine_reset(r->engine, false))) {
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

static bool command(run *r, const char *where)
{
    r->where = where;
    bool ok = r->in_flight || steer(r);
    r->pending = 0;
    for (uint32_t i = 0; ok && i < r->c->requests.len; i++) {
        const compare_request *q = &r->c->requests.data[i];
        row *w = &r->rows[i];
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
        r->pending += w->submitted && !w->ended && q->role != COMPARE_PLAIN;
    }
    return ok && same_state(r);
}

/* ---- coverage -------------------------------------------------------------------------------- */

/* Whether the block before token `end` was filled by planned outputs of somebody else. */
static bool from_output(const run *r, uint32_t index, uint32_t end)
{
    for (uint32_t i = 0; i < r->c->requests.len; i++) {
        const compare_request *q = &r->c->requests.data[i];
        if (i != index && r->rows[i].admitted && q->prompt.len < end &&
            q->prompt.len + q->output >= end &&
            r->rows[i].content[end] == r->rows[index].content[end]) {
            return true;
        }
    }
    return false;
}

static void count_admission(run *r, const twin_item *item)
{
    uint32_t index = r->by_serial.data[item->serial];
    const compare_request *q = &r->c->requests.data[index];
    row *w = &r->rows[index];
    uint32_t b = r->c->config.kv.block_size;
    count(r, COMPARE_admissions_zero, item->tokens == 0);
    if (w->admitted) {
        count(r, COMPARE_readmissions, 1);
        count(r, COMPARE_readmission_hits, item->reused > 0);
        w->resumed = true;
        return;
    }
    w->admitted = true;
    uint32_t full = (q->output > 0 ? q->prompt.len - 1 : q->prompt.len) / b * b;
    count(r, COMPARE_admissions, 1);
    count(r, COMPARE_hits, item->reused > 0);
    count(r, COMPARE_hits_partial, item->reused > 0 && item->reused < full);
    count(r, COMPARE_hits_full, item->reused > 0 && item->reused == full);
    count(r, COMPARE_hits_output, item->reused > 0 && from_output(r, index, item->reused));
}

static void count_plan(run *r, bool defer)
{
    const twin_record *record = twin_last(r->twin);
    const uint32_t *list;
    uint32_t waiting = twin_waiting(r->twin, &list);
    uint32_t running = twin_running(r->twin, &list);
    bool full = running >= r->c->config.scheduler.max_sequences;
    bool calm = record->n_preempted == 0 && !defer && record->budget_left > 0;
    count(r, COMPARE_passes, 1);
    count(r, COMPARE_deferred, defer);
    count(r, COMPARE_deferred_blocked, defer && waiting > 0);
    count(r, COMPARE_scheduled, record->n_items);
    count(r, COMPARE_preemptions, record->n_preempted);
    count(r, COMPARE_preemptions_many, record->n_preempted > 1);
    count(r, COMPARE_evicted, record->n_evicted);
    count(r, COMPARE_blocked_head, calm && !full && waiting > 0);
    count(r, COMPARE_blocked_behind, calm && !full && waiting > 1);
    count(r, COMPARE_blocked_by_slots, full && waiting > 0);
    for (uint32_t i = 0; i < record->n_preempted; i++) {
        for (uint32_t j = 0; j < r->by_serial.len; j++) {
            row *w = &r->rows[r->by_serial.data[j]];
            bool is = r->c->requests.data[r->by_serial.data[j]].id == record->preempted[i].id;
            w->resumed = w->resumed && !is;
        }
    }
    for (uint32_t i = 0; i < record->n_items; i++) {
        const twin_item *item = &record->items[i];
        const compare_request *q = &r->c->requests.data[r->by_serial.data[item->serial]];
        count(r, COMPARE_chunks_open,
              item->chunk > 0 && item->prefix + item->chunk < q->prompt.len);
        if (item->admitted) {
            count_admission(r, item);
        }
    }
}

static void count_end(run *r)
{
    const twin_record *record = twin_last(r->twin);
    twin_totals now = twin_sum(r->twin);
    uint64_t stored = 0, removed = 0;
    for (uint32_t i = 0; i < record->n_events; i++) {
        *(record->events[i].stored ? &stored : &removed) += record->events[i].len;
    }
    uint64_t copies = now.duplicates - r->before.duplicates;
    count(r, COMPARE_published, stored + copies);
    count(r, COMPARE_duplicates, copies);
    count(r, COMPARE_undone, now.undone - r->before.undone);
    count(r, COMPARE_withdrawn, now.withdrawn - r->before.withdrawn);
    count(r, COMPARE_promoted, now.promoted - r->before.promoted);
    count(r, COMPARE_self_preemptions, now.self_preemptions - r->before.self_preemptions);
    count(r, COMPARE_evicted_copy, record->n_evicted > removed ? record->n_evicted - removed : 0);
    count(r, COMPARE_livelocks, now.livelock);
    count(r, COMPARE_passes_in_vain, !record->changed);
    for (uint32_t i = 0; i < record->n_emitted; i++) {
        r->rows[r->by_serial.data[record->emitted[i].serial]].resumed = false;
        count(r, COMPARE_accepted_drafts, record->emitted[i].accepted);
    }
    for (uint32_t i = 0; i < record->n_finished; i++) {
        bool ran = false;
        for (uint32_t j = 0; j < r->by_serial.len; j++) {
            const row *w = &r->rows[r->by_serial.data[j]];
            bool is = r->c->requests.data[r->by_serial.data[j]].id == record->finished[i].id;
            ran = ran || (is && w->was_running);
        }
        uint32_t reason = reason_class(record->finished[i].value);
        bool silent = true;
        for (uint32_t j = 0; j < record->n_emitted; j++) {
            silent = silent && record->emitted[j].id != record->finished[i].id;
        }
        count(r, COMPARE_finished_length, reason == TWIN_LENGTH);
        count(r, COMPARE_finished_context, reason == TWIN_CONTEXT);
        count(r, COMPARE_finished_silent, reason <= TWIN_CONTEXT && silent);
        count(r, COMPARE_rejected_empty, reason == TWIN_REJECTED_EMPTY);
        count(r, COMPARE_rejected_context, reason == TWIN_REJECTED_CONTEXT);
        count(r, COMPARE_rejected_queued, reason == TWIN_REJECTED_CAPACITY && !ran);
        count(r, COMPARE_rejected_running, reason == TWIN_REJECTED_CAPACITY && ran);
    }
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

static bool choose_defer(run *r, bool *defer)
{
    *defer = listed(&r->c->defer, r->pass);
    if (!r->c->waves) {
        return true;
    }
    *defer = twin_defers(r->twin, r->c->config.group_ranks, r->pass);
    return equal(r, "defers", 0, *defer,
                 engine_defers(r->engine, r->c->config.group_ranks, r->pass));
}

static void remember(run *r)
{
    r->before = twin_sum(r->twin);
    for (uint32_t i = 0; i < r->by_serial.len; i++) {
        row *w = &r->rows[r->by_serial.data[i]];
        twin_view view;
        if (!w->settled && twin_read(r->twin, i, &view)) {
            w->before = view.computed;
            w->was_running = view.status == TWIN_RUNNING;
        }
    }
}

static bool one_pass(run *r)
{
    bool defer;
    r->where = "plan";
    if (!choose_defer(r, &defer)) {
        return false;
    }
    remember(r);
    uint32_t a = twin_plan(r->twin, defer), b = engine_plan(r->engine, defer);
    r->in_flight = true;
    if (!same_plan(r)) {
        return false;
    }
    count_plan(r, defer);
    if (!same_shape(r, twin_last(r->twin)) || !same_state(r) || !command(r, "commands in flight")) {
        return false;
    }
    r->where = "complete";
    twin_complete(r->twin, a, NULL, 0);
    engine_complete(r->engine, b, NULL, 0);
    r->in_flight = false;
    if (!same_end(r)) {
        return false;
    }
    count_end(r);
    return same_state(r);
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
    for (uint32_t i = 0; i < c->budgets.len; i++) {
        last = c->budgets.data[i].pass > last ? c->budgets.data[i].pass : last;
    }
    return last;
}

static void drive(run *r)
{
    uint32_t vain = 0, last = last_listed(r->c);
    for (r->pass = 0; r->pass < PASS_LIMIT; r->pass++) {
        if (!command(r, "commands")) {
            return;
        }
        if (twin_sum(r->twin).ready) {
            if (!one_pass(r)) {
                return;
            }
            vain = twin_last(r->twin)->changed ? 0 : vain + 1;
        } else {
            r->in_flight = true; /* commands that wanted a pass in flight come all the same */
            bool ok = command(r, "commands while idle");
            r->in_flight = false;
            if (!ok) {
                return;
            }
            vain++;
        }
        if (r->pending == 0 && vain > 12 && r->pass > last) {
            return; /* idle, or a head that waits for ever (R1) */
        }
    }
    count(r, COMPARE_cut_short, 1);
}

void compare_run(const compare_case *c, compare_result *result)
{
    *result = (compare_result){.same = true};
    run r = {.c = c, .out = result};
    r.rows = aisim_alloc_zero(c->requests.len, sizeof *r.rows);
    for (uint32_t i = 0; i < c->requests.len; i++) {
        r.rows[i].serial = r.rows[i].handed_at = COMPARE_NONE;
        r.rows[i].content = hash_content(&c->requests.data[i]);
    }
    r.twin = twin_new(&c->config, 0);
    r.engine = engine_new(&c->config, 0);
    drive(&r);
    twin_free(r.twin);
    engine_free(r.engine);
    for (uint32_t i = 0; i < c->requests.len; i++) {
        aisim_free(r.rows[i].content);
    }
    aisim_free(r.rows);
    aisim_array_free(&r.by_serial);
}

const char *const compare_counter_texts[COMPARE_COUNTER_COUNT] = {
#define X(name, text) text,
    COMPARE_COUNTERS(X)
#undef X
};
