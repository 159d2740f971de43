/* twin_queues.c - the queues in which requests stand, how they leave them, and preemption (§5). */
#include "base/check.h"
#include "twin_host.h"

static twin_request *request_of(const twin *t, uint32_t serial)
{
    return t->requests.data[serial];
}

bool twin_has_priority(const twin *t)
{
    return t->config.scheduler.policy == AISIM_POLICY_PRIORITY;
}

bool twin_before(const twin_request *x, const twin_request *y)
{
    return x->priority != y->priority ? x->priority < y->priority : x->ordinal < y->ordinal;
}

static void insert_at(twin_ids *list, uint32_t at, uint32_t value)
{
    aisim_array_push(list, value);
    for (uint32_t i = list->len - 1; i > at; i--) {
        list->data[i] = list->data[i - 1];
    }
    list->data[at] = value;
}

/* E-L2, E-V2: under priority by key; otherwise preempted ones at the front, the others by
 * ordinal (an activated handoff keeps its place). */
void twin_insert_waiting(twin *t, twin_request *r)
{
    uint32_t at = 0;
    if (twin_has_priority(t)) {
        while (at < t->waiting.len && twin_before(request_of(t, t->waiting.data[at]), r)) {
            at++;
        }
    } else if (r->status != TWIN_PREEMPTED) {
        while (at < t->waiting.len &&
               (request_of(t, t->waiting.data[at])->status == TWIN_PREEMPTED ||
                request_of(t, t->waiting.data[at])->ordinal < r->ordinal)) {
            at++;
        }
    }
    insert_at(&t->waiting, at, r->serial);
}

/* Fact 11: the second queue keeps the order in which requests came to it; by key under priority. */
void twin_insert_skipped(twin *t, twin_request *r)
{
    uint32_t at = t->skipped.len;
    while (twin_has_priority(t) && at > 0 &&
           twin_before(r, request_of(t, t->skipped.data[at - 1]))) {
        at--;
    }
    insert_at(&t->skipped, at, r->serial);
}

twin_batch *twin_batch_find(twin *t, uint32_t id)
{
    for (uint32_t i = 0; i < t->batches.len; i++) {
        if (t->batches.data[i].id == id) {
            return &t->batches.data[i];
        }
    }
    return NULL;
}

/* The request leaves whatever holds it, gives its blocks back and is finished. */
void twin_leave(twin *t, twin_request *r, twin_reason reason)
{
    twin_ids_remove(&t->running, r->serial);
    twin_ids_remove(&t->waiting, r->serial);
    twin_ids_remove(&t->skipped, r->serial);
    twin_ids_remove(&t->pending, r->serial);
    twin_connector_leave(t, r);
    r->kept = twin_external_keeps(t, r);
    r->aside = r->loaded = false;
    if (!r->kept) {
        twin_release(t, r);
    }
    r->status = TWIN_FINISHED;
    r->reason = reason;
    aisim_map_remove(&t->live, r->id, 0);
    t->n_live--;
}

/* E-V1 */
twin_request *twin_victim(const twin *t)
{
    if (t->running.len == 0) {
        return NULL;
    }
    if (!twin_has_priority(t)) {
        bool fifo = t->config.scheduler.preemption == AISIM_PREEMPTION_FIFO;
        return request_of(t, t->running.data[fifo ? 0 : t->running.len - 1]);
    }
    twin_request *worst = request_of(t, t->running.data[0]);
    for (uint32_t i = 1; i < t->running.len; i++) {
        twin_request *r = request_of(t, t->running.data[i]);
        if (twin_before(worst, r)) {
            worst = r;
        }
    }
    return worst;
}

static void drop_row(twin *t, uint32_t serial)
{
    twin_batch *batch = &t->batches.data[t->batches.len - 1];
    for (uint32_t i = 0; i < batch->rows.len; i++) {
        if (batch->rows.data[i].serial == serial) {
            twin_request *r = request_of(t, serial);
            r->outstanding -= batch->rows.data[i].samples;
            aisim_array_remove(&batch->rows, i);
            return;
        }
    }
}

/* E-V3: the decision of this pass is taken back. */
static void undo(twin *t, twin_request *r)
{
    t->totals.undone++;
    for (uint32_t i = 0; i < t->items.len; i++) {
        if (t->items.data[i].serial == r->serial) {
            t->budget += t->items.data[i].tokens;
            t->prompt_planned -= t->items.data[i].chunk;
            aisim_array_remove(&t->items, i);
            break;
        }
    }
    drop_row(t, r->serial);
    twin_withdraw(t, r);
}

/* E-V2. `undone` = what it was given in this pass did not run (E-V3, E-S15). */
void twin_preempt(twin *t, twin_request *r, bool undone)
{
    bool scheduled = r->pass == t->pass;
    uint32_t computed = scheduled ? r->pass_computed : r->computed;
    twin_pair entry = {r->id, computed};
    aisim_array_push(&t->preempted_list, entry);
    if (scheduled && undone) {
        undo(t, r);
    } else if (scheduled) {
        drop_row(t, r->serial);
    }
    r->high = twin_max(r->high, undone ? computed : r->computed);
    r->pass = 0;
    if (t->stateful && undone) {
        twin_state_discard_step(t, r); /* E-S15 */
    }
    twin_ids_remove(&t->running, r->serial);
    twin_release(t, r);
    r->computed = 0;
    r->drafts = 0;
    r->drafts_unknown = false;
    r->placeholders = 0;
    r->preemptions++;
    t->totals.preemptions++;
    r->status = TWIN_PREEMPTED;
    twin_insert_waiting(t, r);
    t->preempted = true;
}
