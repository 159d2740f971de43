/* engine_double.c - the product's rank driven through the interface of the twin, for tests.
 *
 * Prompts are token ids here: they enter the content tree as lists of blocks of one token. Every
 * run stays referenced until engine_free, so a run index never gets a second meaning and (run,
 * block index) can be named after whoever published it first. */
#include "base/check.h"
#include "engine_internal.h"
#include "sched/plan.h"

const char *twin_reason_name(twin_reason reason)
{
    static const char *const names[] = {"",
                                        "length",
                                        "context",
                                        "cancelled",
                                        "rejected:empty",
                                        "rejected:context",
                                        "rejected:capacity",
                                        "rejected:budget"};
    return names[reason];
}

static twin_reason reason_of(uint8_t end)
{
    switch ((aisim_end_reason)end) {
    case AISIM_END_LENGTH:
        return TWIN_LENGTH;
    case AISIM_END_CONTEXT:
        return TWIN_CONTEXT;
    case AISIM_END_CANCELLED:
        return TWIN_CANCELLED;
    case AISIM_END_REJECTED_EMPTY:
        return TWIN_REJECTED_EMPTY;
    case AISIM_END_REJECTED_CONTEXT:
        return TWIN_REJECTED_CONTEXT;
    case AISIM_END_REJECTED_CAPACITY:
        return TWIN_REJECTED_CAPACITY;
    default:
        return TWIN_LIVE;
    }
}

/* Blocks that a record of recurrent state holds: working, previous, held. */
static uint32_t state_blocks(const twin *t, uint32_t recurrent)
{
    const aisim_recurrent *s = &t->rank.recurrents.slots.data[recurrent];
    const aisim_extent *extents = t->rank.pool.extents.slots.data;
    uint32_t n = t->rank.config.kv.state_blocks;
    n += s->left + (s->previous.extent != AISIM_NONE ? extents[s->previous.extent].count : 0);
    for (uint32_t i = 0; i < s->n_held; i++) {
        n += extents[s->held[i]].count;
    }
    return n;
}

/* Brings a row up to date with its live request. */
void engine_refresh(twin *t, uint32_t serial)
{
    engine_row *w = &t->rows.data[serial];
    const aisim_request *r = aisim_requests_at(&t->engine.requests, w->slot);
    if (r->generation != w->generation) {
        return;
    }
    aisim_cruise_sync(&t->rank, w->slot);
    bool cruises =
        r->state == AISIM_REQ_RUNNING && t->rank.running.data[r->position].cruiser != AISIM_NONE;
    uint32_t planned = cruises && t->rank.in_flight > 0; /* its token of the pass in flight */
    twin_view *v = &w->view;
    v->ordinal = r->ordinal;
    static const twin_status statuses[] = {
        [AISIM_REQ_CREATED] = TWIN_WAITING,   [AISIM_REQ_WAITING] = TWIN_WAITING,
        [AISIM_REQ_RUNNING] = TWIN_RUNNING,   [AISIM_REQ_PREEMPTED] = TWIN_PREEMPTED,
        [AISIM_REQ_SKIPPED] = TWIN_WAITING,   [AISIM_REQ_PENDING] = TWIN_PENDING,
        [AISIM_REQ_RESERVED] = TWIN_RESERVED, [AISIM_REQ_HELD] = TWIN_HELD,
        [AISIM_REQ_DONE] = TWIN_FINISHED};
    v->status = statuses[r->state];
    v->reason = reason_of(r->end);
    v->generated = r->generated;
    v->known = aisim_known(r);
    v->computed = r->computed + planned;
    v->watermark = r->lease.allocated > v->computed ? r->lease.allocated : v->computed;
    v->watermark = planned ? v->watermark : r->lease.allocated;
    v->owned = (uint32_t)aisim_lease_owned(&t->rank.pool, &r->lease);
    v->opaque = r->lease.opaque;
    v->published = r->lease.published;
    v->preemptions = r->preemptions;
    v->drafts = r->drafts;
    v->placeholders = v->state_blocks = 0;
    if (r->state == AISIM_REQ_RESERVED) {
        v->missing = aisim_rank_missing(&t->rank, w->slot);
    }
    for (uint32_t i = 0; r->state == AISIM_REQ_HELD && i < t->rank.held.len; i++) {
        const aisim_running *held = &t->rank.held.data[i];
        if (held->slot == w->slot && held->recurrent != AISIM_NONE) {
            v->state_blocks = state_blocks(t, held->recurrent);
        }
    }
    for (uint32_t i = 0; i < t->rank.received.len; i++) {
        const aisim_running *received = &t->rank.received.data[i];
        if (received->slot == w->slot) {
            v->state_blocks = state_blocks(t, received->recurrent);
        }
    }
    if (r->state == AISIM_REQ_RUNNING) {
        const aisim_running *running = &t->rank.running.data[r->position];
        v->placeholders = running->placeholders;
        if (running->recurrent != AISIM_NONE) {
            v->state_blocks = state_blocks(t, running->recurrent);
        }
    }
    v->host_reused = r->host_reused;
    v->readmit_reused = w->readmit.data;
    v->n_readmit = w->readmit.len;
}

static void on_ended(void *context, uint32_t slot)
{
    twin *t = context;
    const aisim_request *r = aisim_requests_at(&t->engine.requests, slot);
    uint32_t serial = serial_of(t, r);
    engine_refresh(t, serial);
    aisim_map_remove(&t->live, t->rows.data[serial].view.id, 0);
    aisim_requests_give(&t->engine.requests, slot);
}

static void on_held(void *context, uint32_t slot)
{
    twin *t = context;
    const aisim_request *r = aisim_requests_at(&t->engine.requests, slot);
    aisim_array_push(&t->finished,
                     (twin_pair){t->rows.data[serial_of(t, r)].view.id, reason_of(r->end)});
}

static void on_event(void *context, const aisim_event *event)
{
    twin *t = context;
    uint32_t serial = event->request == NULL ? 0 : serial_of(t, event->request);
    uint32_t id = event->request == NULL ? 0 : t->rows.data[serial].view.id;
    if (event->type == AISIM_EV_VERIFY) {
        t->verified = event->u.verify.drafted;
        t->accepted = event->u.verify.accepted;
    } else if (event->type == AISIM_EV_TOKENS) {
        twin_emitted e = {.id = id,
                          .serial = serial,
                          .tokens = event->u.tokens.n,
                          .accepted = t->accepted,
                          .verified = t->verified};
        aisim_array_push(&t->emitted, e);
        t->accepted = t->verified = 0;
    } else if (event->type == AISIM_EV_FINISH || event->type == AISIM_EV_REJECT) {
        aisim_array_push(&t->finished, (twin_pair){id, reason_of(event->request->end)});
    }
}

twin *twin_new(const aisim_rank_config *config, uint32_t rank)
{
    twin *t = aisim_alloc_zero(1, sizeof *t);
    t->engine.content = aisim_content_new();
    aisim_requests_init(&t->engine.requests);
    t->engine.ended = on_ended;
    t->engine.held = on_held;
    t->engine.context = t;
    /* a listener for each token would keep requests from cruising (sched/cruise.h) */
    t->derive = config->speculation.mode == AISIM_SPECULATION_NONE &&
                config->scheduler.overlap == AISIM_OVERLAP_NONE;
    t->engine.observers.n = 1;
    t->engine.observers.list[0] =
        (aisim_observer){.mask = (t->derive ? 0 : AISIM_EV_BIT(AISIM_EV_TOKENS)) |
                                 AISIM_EV_BIT(AISIM_EV_FINISH) | AISIM_EV_BIT(AISIM_EV_REJECT) |
                                 AISIM_EV_BIT(AISIM_EV_VERIFY) | AISIM_EV_BIT(AISIM_EV_KV_STORE),
                         .context = t,
                         .fn = on_event};
    aisim_observers_update(&t->engine.observers);
    aisim_rank_init(&t->rank, &t->engine, 0, config);
    aisim_rank_set_index_in_worker(&t->rank, rank);
    t->rank.pool.tracing = true;
    engine_tier_new(t);
    return t;
}

void twin_free(twin *t)
{
    if (t == NULL) {
        return;
    }
    aisim_array_free(&t->parts);
    aisim_array_free(&t->hashes);
    for (uint32_t i = 0; i < t->copies.len; i++) {
        aisim_array_free(&t->copies.data[i].by);
    }
    aisim_array_free(&t->copies);
    for (uint32_t i = 0; i < t->rows.len; i++) {
        aisim_array_free(&t->rows.data[i].readmit);
    }
    engine_tier_free(t);
    aisim_rank_deinit(&t->rank);
    for (uint32_t i = 0; i < t->held.len; i++) {
        aisim_content_release(t->engine.content, t->held.data[i]);
    }
    aisim_requests_deinit(&t->engine.requests);
    aisim_content_free(t->engine.content);
    aisim_map_free(&t->live);
    aisim_map_free(&t->publishers);
    aisim_map_free(&t->pages);
    aisim_array_free(&t->rows);
    aisim_array_free(&t->held);
    aisim_array_free(&t->names_ever);
    aisim_array_free(&t->items);
    aisim_array_free(&t->preempted);
    aisim_array_free(&t->finished);
    aisim_array_free(&t->emitted);
    aisim_array_free(&t->evicted);
    aisim_array_free(&t->names);
    aisim_array_free(&t->events);
    aisim_array_free(&t->serials);
    aisim_array_free(&t->batches);
    aisim_array_free(&t->order);
    aisim_free(t);
}

/* ---- commands ---------------------------------------------------------------------------------
 */

static aisim_node append_tokens(twin *t, aisim_node at, const uint64_t *tokens, uint32_t n)
{
    aisim_id_run *runs = aisim_alloc(n, sizeof *runs);
    uint32_t len = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (len > 0 && runs[len - 1].first + runs[len - 1].count == tokens[i]) {
            runs[len - 1].count++;
        } else {
            runs[len++] = (aisim_id_run){tokens[i], 1};
        }
    }
    aisim_node node = aisim_content_append_ids(t->engine.content, at, runs, len, 1, n);
    aisim_free(runs);
    aisim_array_push(&t->held, node.run);
    return node;
}

/* A record with its content; in no queue yet. AISIM_NONE when the id is live (E-T4). */
static uint32_t create(twin *t, const twin_submit_args *args)
{
    if (aisim_map_get(&t->live, args->id, 0) != AISIM_NONE) {
        return AISIM_NONE;
    }
    aisim_node node = aisim_content_namespace(t->engine.content, args->salt);
    aisim_array_push(&t->held, node.run);
    node = append_tokens(t, node, args->prompt, args->prompt_len);
    uint32_t planned =
        args->n_output_ids < args->output_len ? args->n_output_ids : args->output_len;
    node = append_tokens(t, node, args->output_ids, planned);
    node = aisim_content_append_private(t->engine.content, node, args->output_len - planned);
    aisim_array_push(&t->held, node.run);
    uint32_t slot = aisim_requests_take(&t->engine.requests);
    aisim_request *r = aisim_requests_at(&t->engine.requests, slot);
    r->lease.run = node.run;
    r->prompt_tokens = args->prompt_len;
    r->output_tokens = args->output_len;
    r->priority = (int32_t)args->priority;
    r->cookie = t->rows.len;
    r->arrival_ns = r->waiting_since_ns = t->now_ns;
    r->flags =
        (uint8_t)((args->no_read ? AISIM_REQF_NO_READ : 0) | (args->hold ? AISIM_REQF_HOLD : 0));
    engine_row w = {.slot = slot, .generation = r->generation, .run = node.run};
    w.view.id = args->id;
    w.view.serial = t->rows.len;
    w.view.prompt = args->prompt_len;
    w.view.output = args->output_len;
    w.view.reused = TWIN_NONE;
    aisim_array_push(&t->rows, w);
    aisim_map_set(&t->live, args->id, 0, w.view.serial);
    return slot;
}

uint32_t twin_submit(twin *t, const twin_submit_args *args)
{
    uint32_t slot = create(t, args);
    if (slot == AISIM_NONE) {
        return TWIN_NONE;
    }
    if (args->blocked) {
        aisim_rank_submit_blocked(&t->rank, slot);
    } else {
        aisim_rank_submit(&t->rank, slot);
    }
    return t->rows.len - 1;
}

static uint32_t live_slot(const twin *t, uint32_t id)
{
    uint32_t serial = aisim_map_get(&t->live, id, 0);
    return serial == AISIM_NONE ? AISIM_NONE : t->rows.data[serial].slot;
}

bool twin_cancel(twin *t, uint32_t id)
{
    uint32_t slot = live_slot(t, id);
    if (slot == AISIM_NONE) {
        return false;
    }
    aisim_request *r = aisim_requests_at(&t->engine.requests, slot);
    engine_refresh(t, serial_of(t, r));
    if (r->state != AISIM_REQ_HELD) {
        r->end = AISIM_END_CANCELLED;
    }
    aisim_rank_cancel(&t->rank, slot);
    aisim_offload_settle_cancel(&t->rank, t->now_ns);
    engine_read_log(t);
    on_ended(t, slot);
    return true;
}

bool twin_unblock(twin *t, uint32_t id)
{
    uint32_t slot = live_slot(t, id);
    if (slot == AISIM_NONE ||
        aisim_requests_at(&t->engine.requests, slot)->state != AISIM_REQ_SKIPPED) {
        return false;
    }
    aisim_rank_unblock(&t->rank, slot);
    return true;
}

bool twin_reserve(twin *t, const twin_submit_args *args)
{
    uint32_t slot = create(t, args);
    if (slot == AISIM_NONE) {
        return false;
    }
    if (!aisim_rank_reserve(&t->rank, slot)) {
        aisim_map_remove(&t->live, args->id, 0);
        aisim_requests_give(&t->engine.requests, slot);
        t->rows.len--;
        return false;
    }
    engine_read_log(t);
    return true;
}

bool twin_activate(twin *t, uint32_t id)
{
    uint32_t slot = live_slot(t, id);
    bool done = slot != AISIM_NONE && aisim_rank_activate(&t->rank, slot);
    engine_read_log(t);
    return done;
}

bool twin_release_source(twin *t, uint32_t id)
{
    uint32_t slot = live_slot(t, id);
    if (slot == AISIM_NONE || !aisim_rank_release_source(&t->rank, slot)) {
        return false;
    }
    engine_read_log(t);
    on_ended(t, slot);
    return true;
}

void twin_set_external(twin *t, uint32_t matched)
{
    t->rank.connector_tokens = matched;
}

/* ---- passes -------------------------------------------------------------------------------------
 */

/* Steady decoders have no entries: one token each, before all others. */
static void read_cruisers(twin *t, const aisim_batch *batch)
{
    for (uint32_t i = 0; i < batch->cruised; i++) {
        uint32_t slot = t->rank.running.data[i].slot;
        const aisim_request *r = aisim_requests_at(&t->engine.requests, slot);
        aisim_cruise_sync(&t->rank, slot);
        const engine_row *w = &t->rows.data[serial_of(t, r)];
        twin_item item = {.id = w->view.id,
                          .serial = w->view.serial,
                          .tokens = 1,
                          .prefix = r->prompt_tokens,
                          .generated = 1,
                          .known = aisim_known(r),
                          .slots = r->computed + 1};
        aisim_array_push(&t->items, item);
    }
}

/* Who runs, in order, with what each has: the difference afterwards is what was delivered. */
static void remember_order(twin *t)
{
    t->order.len = 0;
    for (uint32_t i = 0; t->derive && i < t->rank.running.len; i++) {
        uint32_t slot = t->rank.running.data[i].slot;
        const aisim_request *r = aisim_requests_at(&t->engine.requests, slot);
        aisim_cruise_sync(&t->rank, slot);
        aisim_array_push(&t->order, (twin_pair){serial_of(t, r), r->generated});
    }
}

static void derive_emitted(twin *t)
{
    for (uint32_t i = 0; i < t->order.len; i++) {
        twin_view view;
        if (twin_read(t, t->order.data[i].id, &view) && view.generated > t->order.data[i].value) {
            twin_emitted e = {.id = view.id,
                              .serial = view.serial,
                              .tokens = view.generated - t->order.data[i].value};
            aisim_array_push(&t->emitted, e);
        }
    }
    t->order.len = 0;
}

static void read_items(twin *t, const aisim_batch *batch)
{
    read_cruisers(t, batch);
    for (uint32_t i = 0; i < batch->plan.len; i++) {
        const aisim_plan_entry *p = &batch->plan.data[i];
        const aisim_request *r = aisim_requests_at(&t->engine.requests, p->slot);
        const engine_row *w = &t->rows.data[serial_of(t, r)];
        if (p->undone) {
            continue;
        }
        uint32_t end = p->before + p->tokens, real = end < p->known ? end : p->known;
        uint32_t prompt = r->prompt_tokens;
        twin_item item = {.id = w->view.id,
                          .serial = w->view.serial,
                          .tokens = p->tokens,
                          .prefix = p->before < prompt ? p->before : prompt,
                          .known = p->known,
                          .slots = p->slots,
                          .drafts = p->drafts,
                          .admitted = p->admitted,
                          .reused = p->reused};
        item.chunk = (real < prompt ? real : prompt) - item.prefix;
        item.generated = real - (p->before < real ? p->before : real) - item.chunk;
        uint32_t again = p->before > prompt ? p->before : prompt;
        uint32_t high = real < r->computed_high ? real : r->computed_high;
        item.recomputed = high > again ? high - again : 0;
        aisim_array_push(&t->items, item);
    }
}

static void read_decisions(twin *t, const aisim_batch *batch)
{
    for (uint32_t i = 0; i < batch->decisions.len; i++) {
        const aisim_decision *d = &batch->decisions.data[i];
        const aisim_request *r = aisim_requests_at(&t->engine.requests, d->slot);
        engine_row *w = &t->rows.data[serial_of(t, r)];
        if (d->kind == AISIM_DECIDED_PREEMPT) {
            aisim_array_push(&t->preempted, (twin_pair){w->view.id, d->tokens});
            t->preemptions++;
        } else if (d->kind == AISIM_DECIDED_ADMIT) {
            if (w->view.reused == TWIN_NONE) {
                w->view.reused = d->tokens;
                if (t->rank.config.kv.prefix_caching) {
                    t->lookups++;
                    t->lookup_tokens += r->prompt_tokens + r->generated;
                    t->hit_tokens += d->tokens > t->rank.connector_tokens ? d->tokens : 0;
                }
            } else {
                aisim_array_push(&w->readmit, d->tokens);
            }
        }
    }
}

static void clear_record(twin *t)
{
    t->items.len = t->preempted.len = t->finished.len = 0;
    t->emitted.len = t->evicted.len = t->names.len = t->events.len = 0;
}

void engine_set_quiet(twin *t, bool on)
{
    t->quiet = on;
}

void engine_listen(twin *t, bool on)
{
    const aisim_rank_config *config = &t->rank.config;
    uint32_t tokens = AISIM_EV_BIT(AISIM_EV_TOKENS);
    bool can_derive = config->speculation.mode == AISIM_SPECULATION_NONE &&
                      config->scheduler.overlap == AISIM_OVERLAP_NONE;
    if (can_derive) {
        aisim_observer *observer = &t->engine.observers.list[0];
        observer->mask = on ? observer->mask | tokens : observer->mask & ~tokens;
        aisim_observers_update(&t->engine.observers);
        t->derive = !on;
    }
}

/* Batches of the record count from 0; the engine has slots, and none for a plan in vain. */
uint32_t twin_plan(twin *t, bool defer_prefill)
{
    clear_record(t);
    t->rank.blocked = false;
    uint32_t batch = aisim_rank_plan(&t->rank, t->now_ns, defer_prefill);
    t->record.pass++;
    t->record.batch = t->batches.len;
    t->record.deferred = defer_prefill;
    t->record.changed = batch != AISIM_NONE;
    t->record.budget_left = t->rank.budget_left;
    aisim_array_push(&t->batches, batch);
    if (batch != AISIM_NONE) {
        if (!t->quiet) {
            read_items(t, aisim_rank_batch(&t->rank, batch));
            remember_order(t);
        }
        read_decisions(t, aisim_rank_batch(&t->rank, batch));
    }
    engine_read_log(t);
    return t->record.batch;
}

void twin_complete(twin *t, uint32_t index, const twin_result *results, uint32_t n)
{
    AISIM_CHECK(index < t->batches.len);
    uint32_t batch = t->batches.data[index];
    t->finished.len = t->emitted.len = 0;
    t->now_ns += t->rank.offload.host == NULL; /* else the caller has a clock */
    if (batch == AISIM_NONE) {
        engine_read_log(t);
        return;
    }
    aisim_result *own = aisim_alloc(n + 1, sizeof *own);
    for (uint32_t i = 0; i < n; i++) {
        own[i] = (aisim_result){t->rows.data[results[i].serial].slot, results[i].tokens,
                                results[i].drafts == TWIN_NONE ? AISIM_NONE : results[i].drafts};
        for (uint32_t j = 0; results[i].ids != NULL && j < results[i].tokens; j++) {
            t->given = true; /* tokens that the content did not plan: lengths agree, hits may not */
        }
    }
    aisim_rank_complete(&t->rank, batch, t->now_ns, results == NULL ? NULL : own, n);
    derive_emitted(t);
    engine_read_log(t);
    aisim_free(own);
}

void twin_pass(twin *t, bool defer_prefill)
{
    twin_complete(t, twin_plan(t, defer_prefill), NULL, 0);
}

const twin_record *twin_last(twin *t)
{
    twin_record *r = &t->record;
    r->items = t->items.data;
    r->n_items = t->items.len;
    r->preempted = t->preempted.data;
    r->n_preempted = t->preempted.len;
    r->emitted = t->emitted.data;
    r->n_emitted = t->emitted.len;
    r->finished = t->finished.data;
    r->n_finished = t->finished.len;
    r->evicted = t->evicted.data;
    r->n_evicted = t->evicted.len;
    r->events = t->events.data;
    r->n_events = t->events.len;
    r->names = t->names.data;
    r->n_names = t->names.len;
    return r;
}
