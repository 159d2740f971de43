/* twin.c - life of the twin, commands, the second half of a pass, and read access. */
#include "twin.h"

#include "base/check.h"
#include "twin_host.h"

const char *twin_reason_name(twin_reason reason)
{
    static const char *const names[] = {
        "",
        "length",
        "context",
        "cancelled",
        "rejected:empty",
        "rejected:context",
        "rejected:capacity",
        "rejected:budget",
    };
    return names[reason];
}

twin *twin_new(const aisim_rank_config *config, uint32_t rank)
{
    AISIM_CHECK(config->kv.blocks >= 1 && config->kv.blocks < TWIN_NONE);
    AISIM_CHECK(config->kv.block_size >= 2);
    twin *t = aisim_alloc_zero(1, sizeof *t);
    t->config = *config;
    t->rank = rank;
    t->b = config->kv.block_size;
    t->n_blocks = (uint32_t)config->kv.blocks;
    t->budget_per_pass = config->scheduler.max_batched_tokens;
    uint64_t limit = config->scheduler.context_length;
    t->limit = limit == 0 || limit >= TWIN_NONE ? TWIN_NONE : (uint32_t)limit;
    t->native = config->speculation.mode == AISIM_SPECULATION_NATIVE;
    t->burst = config->speculation.mode == AISIM_SPECULATION_BURST;
    t->depth = t->native || t->burst ? config->speculation.depth : 0;
    t->lookahead = config->speculation.lookahead_slots; /* R15 */
    t->caching = config->kv.prefix_caching;
    t->stateful = config->kv.state_mode != AISIM_STATE_NONE;
    t->aligned = config->kv.state_mode == AISIM_STATE_ALIGNED;
    t->k = t->stateful ? config->kv.state_blocks : 0;
    t->worker_stream.state = aisim_mix64(config->speculation.seed + rank);
    if (config->host.scope != AISIM_HOST_NONE) {
        t->host = aisim_alloc_zero(1, sizeof *t->host);
    }
    twin_pool_init(t);
    return t;
}

static void request_free(twin_request *r)
{
    aisim_array_free(&r->tokens);
    aisim_array_free(&r->planned);
    aisim_array_free(&r->chain);
    aisim_array_free(&r->blocks);
    aisim_array_free(&r->readmit);
    aisim_array_free(&r->working);
    aisim_array_free(&r->previous);
    aisim_array_free(&r->copies);
    aisim_array_free(&r->step_checkpoints);
    aisim_free(r);
}

void twin_free(twin *t)
{
    if (t == NULL) {
        return;
    }
    twin_host_free(t);
    for (uint32_t i = 0; i < t->requests.len; i++) {
        request_free(t->requests.data[i]);
    }
    aisim_array_free(&t->requests);
    for (uint32_t i = 0; i < t->batches.len; i++) {
        aisim_array_free(&t->batches.data[i].rows);
        aisim_array_free(&t->batches.data[i].rejected);
    }
    aisim_array_free(&t->batches);
    aisim_map_free(&t->live);
    twin_dict_free(t);
    twin_pool_free(t);
    aisim_array_free(&t->running);
    aisim_array_free(&t->waiting);
    aisim_array_free(&t->skipped);
    aisim_array_free(&t->pending);
    aisim_array_free(&t->items);
    aisim_array_free(&t->preempted_list);
    aisim_array_free(&t->finished);
    aisim_array_free(&t->emitted);
    aisim_array_free(&t->evicted);
    aisim_array_free(&t->names);
    aisim_array_free(&t->flat);
    aisim_array_free(&t->events);
    aisim_free(t);
}

static void push_tokens(twin_request *r, const uint64_t *tokens, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        aisim_array_push(&r->tokens, tokens[i]);
    }
}

uint32_t twin_submit(twin *t, const twin_submit_args *args)
{
    if (aisim_map_get(&t->live, args->id, 0) != AISIM_NONE) {
        return TWIN_NONE; /* E-T4 */
    }
    twin_request *r = aisim_alloc_zero(1, sizeof *r);
    r->id = args->id;
    r->serial = t->requests.len;
    r->ordinal = t->next_ordinal++; /* E-L2 */
    r->prompt = args->prompt_len;
    r->output = args->output_len;
    r->priority = args->priority;
    r->salt = args->salt;
    r->no_read = args->no_read;
    r->hold = args->hold;
    r->blocked = args->blocked;
    r->reused = TWIN_NONE;
    r->pass_alias = r->working_checkpoint = r->snapshot = TWIN_NONE;
    push_tokens(r, args->prompt, args->prompt_len);
    for (uint32_t i = 0; i < args->n_output_ids; i++) {
        aisim_array_push(&r->planned, args->output_ids[i]);
    }
    aisim_array_push(&t->requests, r);
    aisim_map_set(&t->live, r->id, 0, r->serial);
    t->n_live++;
    if (r->blocked) {
        aisim_array_push(&t->skipped, r->serial);
    } else {
        twin_insert_waiting(t, r);
    }
    return r->serial;
}

static twin_request *live(const twin *t, uint32_t id)
{
    uint32_t serial = aisim_map_get(&t->live, id, 0);
    return serial == AISIM_NONE ? NULL : t->requests.data[serial];
}

bool twin_cancel(twin *t, uint32_t id)
{
    twin_request *r = live(t, id);
    if (r == NULL) {
        return false;
    }
    twin_leave(t, r, r->status == TWIN_HELD ? r->reason : TWIN_CANCELLED); /* E-T5, E-T6 */
    if (t->host_withdrawn && !t->flying) {
        twin_connector_tell(t);
    }
    twin_retry_reservations(t);
    return true;
}

bool twin_unblock(twin *t, uint32_t id)
{
    twin_request *r = live(t, id);
    if (r == NULL || !r->blocked) {
        return false;
    }
    r->blocked = false;
    twin_ids_remove(&t->skipped, r->serial);
    twin_insert_waiting(t, r);
    return true;
}

/* E-O2: its last token is out. A held source keeps its lease (E-K6). */
static void finish(twin *t, twin_request *r)
{
    twin_reason reason = r->generated >= r->output ? TWIN_LENGTH : TWIN_CONTEXT;
    twin_pair entry = {r->id, reason};
    aisim_array_push(&t->finished, entry);
    if (r->hold) {
        twin_ids_remove(&t->running, r->serial);
        twin_ids_remove(&t->waiting, r->serial);
        r->status = TWIN_HELD;
        r->reason = reason;
        return;
    }
    twin_leave(t, r, reason);
}

/* A token without a planned id occurs nowhere else. */
static void append(twin_request *r, const uint64_t *ids, uint32_t i)
{
    uint64_t token = UINT64_C(1) << 63 | (uint64_t)r->serial << 32 | r->generated;
    if (ids != NULL) {
        token = ids[i];
    } else if (r->generated < r->planned.len) {
        token = r->planned.data[r->generated];
    }
    aisim_array_push(&r->tokens, token);
    r->generated++;
}

static void after_tokens(twin *t, twin_request *r, const twin_row *row, uint32_t wanted,
                         uint32_t drafts)
{
    if (row->epoch != r->preemptions) {
        return; /* N1: preempted since; its tokens count, its progress does not */
    }
    if (t->burst) {
        r->computed = r->tokens.len - 1; /* E-M3 */
        twin_publish(t, r, r->computed);
        twin_burst_return(t, r);
        return;
    }
    if (t->config.scheduler.overlap == AISIM_OVERLAP_ASYNC) {
        uint32_t rejected = row->verified + 1 > wanted ? row->verified + 1 - wanted : 0;
        r->computed -= rejected;
        r->placeholders -= twin_min(r->placeholders, wanted + rejected);
        return;
    }
    if (t->depth > 0) {
        r->computed = r->tokens.len - 1; /* mtp.md §3, N7 */
        r->drafts = drafts;
        r->drafts_unknown = false;
    }
}

/* One sampled row (E-O1). */
static void deliver(twin *t, twin_request *r, const twin_row *row, const twin_result *result)
{
    uint32_t wanted;
    if (result != NULL) {
        wanted = result->tokens;
    } else {
        bool stale = row->epoch != r->preemptions;
        wanted = 1 + (stale ? 0 : twin_draw_row(t, r, row->verified));
    }
    if (wanted == 0) { /* the drafts of a row without output come off all the same */
        if (row->epoch == r->preemptions) {
            r->computed -= row->verified;
        }
        return;
    }
    twin_emitted entry = {.id = r->id, .serial = r->serial, .verified = row->verified};
    entry.tokens = twin_min(wanted, twin_remaining(t, r)); /* mtp.md §7 */
    entry.accepted = wanted - 1;
    entry.forward = t->depth > 0 && !row->prefill;
    for (uint32_t i = 0; i < entry.tokens; i++) {
        append(r, result == NULL ? NULL : result->ids, i);
    }
    if (entry.forward) {
        t->totals.decode_forwards++;
        t->totals.accepted_including_base += wanted;
    }
    aisim_array_push(&t->emitted, entry);
    uint32_t drafts = result == NULL || result->drafts == TWIN_NONE ? t->depth : result->drafts;
    after_tokens(t, r, row, wanted, drafts);
    if (twin_remaining(t, r) == 0) {
        finish(t, r);
    }
}

static const twin_result *result_of(const twin_result *results, uint32_t n, uint32_t serial)
{
    for (uint32_t i = 0; i < n; i++) {
        if (results[i].serial == serial) {
            return &results[i];
        }
    }
    return NULL;
}

/* E-T8: nothing was scheduled, emitted or decided; that is no pass. */
static bool in_vain(const twin *t)
{
    return t->items.len + t->preempted_list.len + t->emitted.len + t->finished.len == 0;
}

/* E-T8 */
static void count_streak(twin *t)
{
    if (t->emitted.len > 0 || t->preempted_list.len == 0) {
        t->streak = 0;
    } else {
        t->streak++;
    }
    uint32_t limit = t->config.scheduler.preempting_pass_limit;
    t->totals.livelock = limit > 0 && t->streak >= limit;
}

void twin_complete(twin *t, uint32_t batch_id, const twin_result *results, uint32_t n)
{
    twin_batch *batch = twin_batch_find(t, batch_id);
    AISIM_CHECK(batch != NULL);
    t->emitted.len = 0;
    t->finished.len = 0;
    /* E-O3: first what ends without a token */
    for (uint32_t i = 0; i < batch->rows.len; i++) {
        twin_request *r = t->requests.data[batch->rows.data[i].serial];
        if (batch->rows.data[i].samples && r->status == TWIN_RUNNING && twin_remaining(t, r) == 0) {
            finish(t, r);
        }
    }
    for (uint32_t i = 0; i < batch->rows.len; i++) {
        const twin_row *row = &batch->rows.data[i];
        twin_request *r = t->requests.data[row->serial];
        r->outstanding -= row->samples && r->outstanding > 0;
        if (!row->samples || r->status == TWIN_FINISHED || r->status == TWIN_HELD) {
            continue;
        }
        const twin_result *result = result_of(results, n, row->serial);
        if (results == NULL || result != NULL) {
            deliver(t, r, row, result);
        }
    }
    for (uint32_t i = 0; i < batch->rejected.len; i++) {
        const twin_request *r = t->requests.data[batch->rejected.data[i]];
        twin_pair entry = {r->id, r->reason};
        aisim_array_push(&t->finished, entry);
    }
    bool vain = in_vain(t);
    if (!vain) {
        count_streak(t);
    }
    aisim_array_free(&batch->rows);
    aisim_array_free(&batch->rejected);
    uint32_t at = (uint32_t)(batch - t->batches.data);
    aisim_array_remove(&t->batches, at);
    if (!vain) {
        twin_retry_reservations(t); /* §15: something may have come free */
    }
    if (t->host != NULL && t->flying) {
        t->flying = false;
        twin_connector_end(t);
    }
}

void twin_pass(twin *t, bool defer_prefill)
{
    twin_complete(t, twin_plan(t, defer_prefill), NULL, 0);
}

/* E-H7: neighbours of one publication or one acquisition form one event. */
static void build_events(twin *t)
{
    t->events.len = 0;
    t->names.len = 0;
    for (uint32_t i = 0; i < t->flat.len; i++) {
        const twin_flat_event *at = &t->flat.data[i];
        const twin_node *node = &t->nodes.data[at->node];
        const twin_flat_event *last = i == 0 ? NULL : &t->flat.data[i - 1];
        bool joins = last != NULL && last->stored == at->stored && last->batch == at->batch &&
                     (!at->stored || node->parent == last->node);
        if (!joins) {
            const twin_node *parent = &t->nodes.data[node->parent];
            twin_event event = {.stored = at->stored, .first = t->names.len};
            event.has_parent = at->stored && parent->parent != TWIN_NONE;
            event.parent = parent->name;
            aisim_array_push(&t->events, event);
        }
        aisim_array_push(&t->names, node->name);
        t->events.data[t->events.len - 1].len++;
    }
}

const twin_record *twin_last(twin *t)
{
    build_events(t);
    twin_record *record = &t->record;
    *record = (twin_record){
        .pass = t->pass,
        .batch = t->next_batch - 1,
        .deferred = t->deferred,
        .budget_left = t->budget,
        .items = t->items.data,
        .n_items = t->items.len,
        .preempted = t->preempted_list.data,
        .n_preempted = t->preempted_list.len,
        .emitted = t->emitted.data,
        .n_emitted = t->emitted.len,
        .finished = t->finished.data,
        .n_finished = t->finished.len,
        .evicted = t->evicted.data,
        .n_evicted = t->evicted.len,
        .events = t->events.data,
        .n_events = t->events.len,
        .names = t->names.data,
        .n_names = t->names.len,
    };
    record->changed = record->n_items > 0 || record->n_preempted > 0 || record->n_emitted > 0 ||
                      record->n_finished > 0;
    return record;
}

bool twin_read(const twin *t, uint32_t serial, twin_view *out)
{
    if (serial >= t->requests.len) {
        return false;
    }
    const twin_request *r = t->requests.data[serial];
    *out = (twin_view){
        .id = r->id,
        .serial = r->serial,
        .ordinal = r->ordinal,
        .status = r->status,
        .reason = r->reason,
        .prompt = r->prompt,
        .output = r->output,
        .generated = r->generated,
        .known = r->tokens.len,
        .computed = r->computed,
        .watermark = r->watermark,
        .owned = r->blocks.len,
        .published = r->published,
        .state_blocks = r->working.len + r->previous.len + r->copies.len,
        .drafts = r->drafts,
        .placeholders = r->placeholders,
        .reused = r->reused,
        .preemptions = r->preemptions,
        .readmit_reused = r->readmit.data,
        .n_readmit = r->readmit.len,
        .tokens = r->tokens.data,
        .blocks = r->blocks.data,
        .missing = r->missing,
        .host_reused = r->host_reused,
    };
    uint32_t bound = twin_ceil(r->watermark, t->b);
    out->opaque = r->blocks.len > bound ? r->blocks.len - bound : 0;
    return true;
}

bool twin_find(const twin *t, uint32_t id, twin_view *out)
{
    uint32_t serial = aisim_map_get(&t->live, id, 0);
    return serial != AISIM_NONE && twin_read(t, serial, out);
}

uint32_t twin_running(const twin *t, const uint32_t **serials)
{
    *serials = t->running.data;
    return t->running.len;
}

uint32_t twin_waiting(const twin *t, const uint32_t **serials)
{
    *serials = t->waiting.data;
    return t->waiting.len;
}

uint32_t twin_skipped(const twin *t, const uint32_t **serials)
{
    *serials = t->skipped.data;
    return t->skipped.len;
}

twin_totals twin_sum(const twin *t)
{
    twin_totals totals = t->totals;
    totals.inactive = t->keyed_len;
    totals.free = t->queue_len - t->keyed_len;
    totals.active = t->n_blocks - t->queue_len; /* E-B1 */
    totals.live = t->n_live;
    totals.ready =
        t->running.len + t->waiting.len + twin_connector_ready(t) + twin_external_ready(t) > 0;
    totals.drained = t->n_live == 0;
    totals.capacity_bound = t->capacity_bound;
    return totals;
}

bool twin_defers(const twin *t, uint32_t ranks, uint64_t wave_step)
{
    uint32_t interval = t->config.scheduler.prefill_schedule_interval;
    if (ranks <= 1 || wave_step % interval == 0 || t->capacity_bound) {
        return false;
    }
    for (uint32_t i = 0; i < t->running.len; i++) {
        const twin_request *r = t->requests.data[t->running.data[i]];
        if (r->computed >= r->prompt) {
            return true;
        }
    }
    return false;
}

void twin_set_budget(twin *t, uint32_t tokens)
{
    t->budget_per_pass = tokens;
}

void twin_set_external(twin *t, uint32_t matched)
{
    t->external = matched;
}

bool twin_reset(twin *t, bool force)
{
    while (force && t->running.len > 0) {
        twin_request *newest = t->requests.data[t->running.data[t->running.len - 1]];
        newest->pass = 0; /* not a part of any pass: results under way still land */
        twin_preempt(t, newest, false);
    }
    if (t->queue_len < t->n_blocks) {
        return false;
    }
    t->acquisition++;
    if (t->host != NULL) {
        twin_connector_reset(t);
    }
    for (uint32_t i = t->head; i != TWIN_NONE; i = t->blocks[i].next) {
        twin_index_remove(t, i);
    }
    return true;
}
