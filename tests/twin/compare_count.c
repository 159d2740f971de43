/* compare_count.c - which rare paths a workload reached, so that equality says something. */
#include "compare_internal.h"

/* Whether the block before token `end` was filled by planned outputs of somebody else. */
static bool from_output(const compare_runner *r, uint32_t index, uint32_t end)
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

static void count_admission(compare_runner *r, const twin_item *item)
{
    uint32_t index = r->by_serial.data[item->serial];
    const compare_request *q = &r->c->requests.data[index];
    compare_row *w = &r->rows[index];
    uint32_t b = r->c->config.kv.block_size;
    compare_count(r, COMPARE_admissions_zero, item->tokens == 0);
    if (w->admitted) {
        compare_count(r, COMPARE_readmissions, 1);
        compare_count(r, COMPARE_readmission_hits, item->reused > 0);
        w->resumed = true;
        return;
    }
    w->admitted = true;
    uint32_t full = (q->output > 0 ? q->prompt.len - 1 : q->prompt.len) / b * b;
    compare_count(r, COMPARE_admissions, 1);
    compare_count(r, COMPARE_hits, item->reused > 0);
    compare_count(r, COMPARE_hits_partial, item->reused > 0 && item->reused < full);
    compare_count(r, COMPARE_hits_full, item->reused > 0 && item->reused == full);
    compare_count(r, COMPARE_hits_output, item->reused > 0 && from_output(r, index, item->reused));
}

void compare_count_plan(compare_runner *r, bool defer)
{
    const twin_record *record = twin_last(r->twin);
    const uint32_t *list;
    uint32_t waiting = twin_waiting(r->twin, &list);
    uint32_t running = twin_running(r->twin, &list);
    bool full = running >= r->c->config.scheduler.max_sequences;
    bool calm = record->n_preempted == 0 && !defer && record->budget_left > 0;
    compare_count(r, COMPARE_passes, 1);
    compare_count(r, COMPARE_deferred, defer);
    compare_count(r, COMPARE_deferred_blocked, defer && waiting > 0);
    compare_count(r, COMPARE_scheduled, record->n_items);
    compare_count(r, COMPARE_preemptions, record->n_preempted);
    compare_count(r, COMPARE_preemptions_many, record->n_preempted > 1);
    compare_count(r, COMPARE_evicted, record->n_evicted);
    compare_count(r, COMPARE_blocked_head, calm && !full && waiting > 0);
    compare_count(r, COMPARE_blocked_behind, calm && !full && waiting > 1);
    compare_count(r, COMPARE_blocked_by_slots, full && waiting > 0);
    for (uint32_t i = 0; i < record->n_items; i++) {
        const twin_item *item = &record->items[i];
        const compare_request *q = &r->c->requests.data[r->by_serial.data[item->serial]];
        compare_count(r, COMPARE_chunks_open,
                      item->chunk > 0 && item->prefix + item->chunk < q->prompt.len);
        if (item->admitted) {
            count_admission(r, item);
        }
    }
}

void compare_forget_victims(compare_runner *r)
{
    const twin_record *record = twin_last(r->twin);
    for (uint32_t i = 0; i < record->n_preempted; i++) {
        for (uint32_t j = 0; j < r->by_serial.len; j++) {
            compare_row *w = &r->rows[r->by_serial.data[j]];
            bool is = r->c->requests.data[r->by_serial.data[j]].id == record->preempted[i].id;
            w->resumed = w->resumed && !is;
        }
    }
}

void compare_count_end(compare_runner *r)
{
    const twin_record *record = twin_last(r->twin);
    twin_totals now = twin_sum(r->twin);
    uint64_t stored = 0, removed = 0;
    for (uint32_t i = 0; i < record->n_events; i++) {
        *(record->events[i].stored ? &stored : &removed) += record->events[i].len;
    }
    uint64_t copies = now.duplicates - r->before.duplicates;
    compare_count(r, COMPARE_published, stored + copies);
    compare_count(r, COMPARE_duplicates, copies);
    compare_count(r, COMPARE_undone, now.undone - r->before.undone);
    compare_count(r, COMPARE_withdrawn, now.withdrawn - r->before.withdrawn);
    compare_count(r, COMPARE_withdrawn_promoted,
                  now.withdrawn_promoted - r->before.withdrawn_promoted);
    compare_count(r, COMPARE_promoted, now.promoted - r->before.promoted);
    compare_count(r, COMPARE_self_preemptions, now.self_preemptions - r->before.self_preemptions);
    compare_count(r, COMPARE_evicted_copy,
                  record->n_evicted > removed ? record->n_evicted - removed : 0);
    compare_count(r, COMPARE_livelocks, now.livelock);
    compare_count(r, COMPARE_passes_in_vain, !record->changed);
    for (uint32_t i = 0; i < record->n_preempted; i++) { /* victims of a burst ran in this pass */
        for (uint32_t j = 0; j < r->by_serial.len; j++) {
            compare_row *w = &r->rows[r->by_serial.data[j]];
            bool is = r->c->requests.data[r->by_serial.data[j]].id == record->preempted[i].id;
            w->resumed = w->resumed && !is;
        }
    }
    for (uint32_t i = 0; i < record->n_emitted; i++) {
        r->rows[r->by_serial.data[record->emitted[i].serial]].resumed = false;
        compare_count(r, COMPARE_accepted_drafts, record->emitted[i].accepted);
        twin_view view;
        twin_read(r->twin, record->emitted[i].serial, &view);
        compare_count(r, COMPARE_late_results, view.status == TWIN_PREEMPTED);
    }
    for (uint32_t i = 0; i < record->n_finished; i++) {
        bool ran = false;
        for (uint32_t j = 0; j < r->by_serial.len; j++) {
            const compare_row *w = &r->rows[r->by_serial.data[j]];
            bool is = r->c->requests.data[r->by_serial.data[j]].id == record->finished[i].id;
            ran = ran || (is && w->was_running);
        }
        uint32_t reason = compare_reason_class(record->finished[i].value);
        bool silent = true;
        for (uint32_t j = 0; j < record->n_emitted; j++) {
            silent = silent && record->emitted[j].id != record->finished[i].id;
        }
        compare_count(r, COMPARE_finished_length, reason == TWIN_LENGTH);
        compare_count(r, COMPARE_finished_context, reason == TWIN_CONTEXT);
        compare_count(r, COMPARE_finished_silent, reason <= TWIN_CONTEXT && silent);
        compare_count(r, COMPARE_rejected_empty, reason == TWIN_REJECTED_EMPTY);
        compare_count(r, COMPARE_rejected_context, reason == TWIN_REJECTED_CONTEXT);
        compare_count(r, COMPARE_rejected_queued, reason == TWIN_REJECTED_CAPACITY && !ran);
        compare_count(r, COMPARE_rejected_running, reason == TWIN_REJECTED_CAPACITY && ran);
    }
}

void compare_count_cancel(compare_runner *r, const twin_view *view)
{
    bool scheduled = false;
    const twin_record *record = twin_last(r->twin);
    for (uint32_t i = 0; r->in_flight && i < record->n_items; i++) {
        scheduled = scheduled || record->items[i].id == view->id;
    }
    compare_count(r, COMPARE_cancel_waiting, view->status == TWIN_WAITING);
    compare_count(r, COMPARE_cancel_preempted, view->status == TWIN_PREEMPTED);
    compare_count(r, COMPARE_cancel_running, view->status == TWIN_RUNNING && !scheduled);
    compare_count(r, COMPARE_cancel_in_flight, scheduled);
}

const char *const compare_counter_texts[COMPARE_COUNTER_COUNT] = {
#define X(name, text) text,
    COMPARE_COUNTERS(X)
#undef X
};
