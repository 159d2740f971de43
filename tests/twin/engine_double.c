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

static uint32_t serial_of(const twin *t, const aisim_request *r)
{
    (void)t;
    return (uint32_t)r->cookie;
}

/* Brings a row up to date with its live request. */
static void refresh(twin *t, uint32_t serial)
{
    engine_row *w = &t->rows.data[serial];
    const aisim_request *r = aisim_requests_at(&t->engine.requests, w->slot);
    if (r->generation != w->generation) {
        return;
    }
    twin_view *v = &w->view;
    v->ordinal = r->ordinal;
    v->status = r->state == AISIM_REQ_RUNNING     ? TWIN_RUNNING
                : r->state == AISIM_REQ_PREEMPTED ? TWIN_PREEMPTED
                : r->state == AISIM_REQ_DONE      ? TWIN_FINISHED
                                                  : TWIN_WAITING;
    v->reason = reason_of(r->end);
    v->generated = r->generated;
    v->known = aisim_known(r);
    v->computed = r->computed;
    v->watermark = r->lease.allocated;
    v->owned = (uint32_t)aisim_lease_owned(&t->rank.pool, &r->lease);
    v->opaque = r->lease.opaque;
    v->published = r->lease.published;
    v->preemptions = r->preemptions;
    v->readmit_reused = w->readmit.data;
    v->n_readmit = w->readmit.len;
}

static void on_ended(void *context, uint32_t slot)
{
    twin *t = context;
    const aisim_request *r = aisim_requests_at(&t->engine.requests, slot);
    uint32_t serial = serial_of(t, r);
    refresh(t, serial);
    aisim_map_remove(&t->live, t->rows.data[serial].view.id, 0);
    aisim_requests_give(&t->engine.requests, slot);
}

static void on_event(void *context, const aisim_event *event)
{
    twin *t = context;
    uint32_t serial = event->request == NULL ? 0 : serial_of(t, event->request);
    uint32_t id = event->request == NULL ? 0 : t->rows.data[serial].view.id;
    if (event->type == AISIM_EV_TOKENS) {
        twin_emitted e = {.id = id, .serial = serial, .tokens = event->u.tokens.n};
        aisim_array_push(&t->emitted, e);
    } else if (event->type == AISIM_EV_FINISH || event->type == AISIM_EV_REJECT) {
        aisim_array_push(&t->finished, (twin_pair){id, reason_of(event->request->end)});
    }
}

twin *twin_new(const aisim_rank_config *config, uint32_t rank)
{
    twin *t = aisim_alloc_zero(1, sizeof *t);
    (void)rank;
    t->engine.content = aisim_content_new();
    aisim_requests_init(&t->engine.requests);
    t->engine.ended = on_ended;
    t->engine.context = t;
    t->engine.observers.n = 1;
    t->engine.observers.list[0] =
        (aisim_observer){AISIM_EV_BIT(AISIM_EV_TOKENS) | AISIM_EV_BIT(AISIM_EV_FINISH) |
                             AISIM_EV_BIT(AISIM_EV_REJECT) | AISIM_EV_BIT(AISIM_EV_KV_STORE),
                         t, on_event};
    aisim_observers_update(&t->engine.observers);
    aisim_rank_init(&t->rank, &t->engine, 0, config);
    return t;
}

void twin_free(twin *t)
{
    if (t == NULL) {
        return;
    }
    aisim_array_free(&t->parts);
    aisim_array_free(&t->hashes);
    for (uint32_t i = 0; i < t->rows.len; i++) {
        aisim_array_free(&t->rows.data[i].readmit);
    }
    aisim_rank_deinit(&t->rank);
    for (uint32_t i = 0; i < t->held.len; i++) {
        aisim_content_release(t->engine.content, t->held.data[i]);
    }
    aisim_requests_deinit(&t->engine.requests);
    aisim_content_free(t->engine.content);
    aisim_map_free(&t->live);
    aisim_map_free(&t->publishers);
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

uint32_t twin_submit(twin *t, const twin_submit_args *args)
{
    if (aisim_map_get(&t->live, args->id, 0) != AISIM_NONE) {
        return TWIN_NONE; /* E-T4 */
    }
    if (args->hold || args->blocked) {
        return TWIN_NONE; /* not in the product yet */
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
    r->flags = args->no_read ? AISIM_REQF_NO_READ : 0;
    engine_row w = {.slot = slot, .generation = r->generation};
    w.view.id = args->id;
    w.view.serial = t->rows.len;
    w.view.prompt = args->prompt_len;
    w.view.output = args->output_len;
    w.view.reused = TWIN_NONE;
    aisim_array_push(&t->rows, w);
    aisim_map_set(&t->live, args->id, 0, w.view.serial);
    aisim_rank_submit(&t->rank, slot);
    return w.view.serial;
}

bool twin_cancel(twin *t, uint32_t id)
{
    uint32_t serial = aisim_map_get(&t->live, id, 0);
    if (serial == AISIM_NONE) {
        return false;
    }
    uint32_t slot = t->rows.data[serial].slot;
    aisim_rank_cancel(&t->rank, slot);
    aisim_lease_release(&t->rank.pool, &aisim_requests_at(&t->engine.requests, slot)->lease,
                        AISIM_NONE); /* of the lease vectors: allocated without running */
    aisim_requests_at(&t->engine.requests, slot)->end = AISIM_END_CANCELLED;
    on_ended(t, slot);
    return true;
}

/* ---- names of blocks ----------------------------------------------------------------------------
 */

static twin_name name_of(twin *t, uint32_t run, uint32_t block, uint32_t publisher)
{
    uint32_t at = aisim_map_get(&t->publishers, run, block);
    if (at == AISIM_NONE) {
        at = t->names_ever.len;
        aisim_array_push(&t->names_ever, (twin_name){publisher, block});
        aisim_map_set(&t->publishers, run, block, at);
    }
    return t->names_ever.data[at];
}

/* The run of the block before `block` on the path of `run`. */
static uint32_t run_before(const twin *t, uint32_t run, uint32_t block)
{
    uint32_t last = block * t->rank.pool.block_size - 1;
    while (aisim_content_start(t->engine.content, run) > last) {
        run = aisim_content_parent(t->engine.content, run);
    }
    return run;
}

static void read_log(twin *t)
{
    const aisim_block_pool *pool = &t->rank.pool;
    uint32_t event = AISIM_NONE;
    for (uint32_t i = 0; i < pool->log.len; i++) {
        const aisim_kv_log_entry *e = &pool->log.data[i];
        bool stored = e->kind == AISIM_KV_STORED;
        uint32_t publisher = TWIN_NONE;
        if (stored) {
            const aisim_request *r = aisim_requests_at(&t->engine.requests, e->owner);
            publisher = t->rows.data[serial_of(t, r)].view.id;
        }
        if (e->event != event) {
            twin_event made = {.stored = stored, .first = t->names.len};
            if (stored && e->first > 0) {
                made.has_parent = true;
                made.parent = name_of(t, run_before(t, e->run, e->first), e->first - 1, publisher);
            }
            aisim_array_push(&t->events, made);
            event = e->event;
        }
        for (uint32_t j = 0; j < e->count; j++) {
            uint32_t block = stored ? e->first + j : e->first + e->count - 1 - j;
            twin_name name = name_of(t, e->run, block, publisher);
            if (!stored) {
                aisim_array_push(&t->evicted, name);
            }
            if (stored || e->last_copy) {
                aisim_array_push(&t->names, name);
                t->events.data[t->events.len - 1].len++;
            }
        }
        if (t->events.data[t->events.len - 1].len == 0 &&
            (i + 1 == pool->log.len || pool->log.data[i + 1].event != event)) {
            t->events.len--; /* only further copies went: nobody hears of it */
        }
    }
}

/* ---- passes -------------------------------------------------------------------------------------
 */

static void read_items(twin *t)
{
    for (uint32_t i = 0; i < t->rank.plan.len; i++) {
        const aisim_plan_entry *p = &t->rank.plan.data[i];
        const aisim_request *r = aisim_requests_at(&t->engine.requests, p->slot);
        const engine_row *w = &t->rows.data[serial_of(t, r)];
        twin_item item = {.id = w->view.id,
                          .serial = w->view.serial,
                          .tokens = p->tokens,
                          .known = aisim_known(r)};
        for (uint32_t j = 0; j < t->rank.decisions.len; j++) {
            const aisim_decision *d = &t->rank.decisions.data[j];
            if (d->slot == p->slot && d->kind == AISIM_DECIDED_ADMIT) {
                item.admitted = true;
                item.reused = d->tokens;
            }
        }
        if (p->tokens == 0 && !item.admitted) {
            continue; /* undone */
        }
        uint32_t after = p->before + p->tokens;
        item.prefix = p->before < r->prompt_tokens ? p->before : r->prompt_tokens;
        uint32_t upto = after < r->prompt_tokens ? after : r->prompt_tokens;
        item.chunk = upto > p->before ? upto - p->before : 0;
        item.generated = p->tokens - item.chunk;
        aisim_array_push(&t->items, item);
    }
}

static void read_decisions(twin *t)
{
    for (uint32_t i = 0; i < t->rank.decisions.len; i++) {
        const aisim_decision *d = &t->rank.decisions.data[i];
        const aisim_request *r = aisim_requests_at(&t->engine.requests, d->slot);
        engine_row *w = &t->rows.data[serial_of(t, r)];
        if (d->kind == AISIM_DECIDED_PREEMPT) {
            aisim_array_push(&t->preempted, (twin_pair){w->view.id, d->tokens});
            t->preemptions++;
        } else if (d->kind == AISIM_DECIDED_ADMIT) {
            if (w->view.reused == TWIN_NONE) {
                w->view.reused = d->tokens;
                t->lookups++;
                t->lookup_tokens += r->prompt_tokens;
                t->hit_tokens += d->tokens;
            } else {
                aisim_array_push(&w->readmit, d->tokens);
            }
        }
    }
}

uint32_t twin_plan(twin *t, bool defer_prefill)
{
    t->items.len = t->preempted.len = t->finished.len = 0;
    t->emitted.len = t->evicted.len = t->names.len = t->events.len = 0;
    t->rank.blocked = false;
    t->planned = aisim_rank_ready(&t->rank) && aisim_rank_plan(&t->rank, t->now_ns, defer_prefill);
    t->record.pass++;
    t->record.batch = (uint32_t)t->record.pass;
    t->record.deferred = defer_prefill;
    t->record.changed = t->planned;
    t->record.budget_left = t->rank.budget_left;
    if (t->planned) {
        read_items(t);
        read_decisions(t);
        read_log(t);
    }
    return t->record.batch;
}

void twin_complete(twin *t, uint32_t batch, const twin_result *results, uint32_t n)
{
    AISIM_CHECK(batch == t->record.batch && results == NULL && n == 0);
    t->now_ns++;
    if (t->planned) {
        aisim_rank_complete(&t->rank, t->now_ns);
    }
    t->planned = false;
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

/* ---- state
 * --------------------------------------------------------------------------------------- */

bool twin_find(const twin *t, uint32_t id, twin_view *out)
{
    uint32_t serial = aisim_map_get(&t->live, id, 0);
    return serial != AISIM_NONE && twin_read(t, serial, out);
}

bool twin_read(const twin *t, uint32_t serial, twin_view *out)
{
    if (serial >= t->rows.len) {
        return false;
    }
    twin *writable = (twin *)(uintptr_t)t;
    refresh(writable, serial);
    *out = t->rows.data[serial].view;
    return true;
}

uint32_t twin_running(const twin *t, const uint32_t **serials)
{
    twin *w = (twin *)(uintptr_t)t;
    w->serials.len = 0;
    for (uint32_t i = 0; i < t->rank.running.len; i++) {
        aisim_array_push(
            &w->serials,
            serial_of(t, aisim_requests_at(&t->engine.requests, t->rank.running.data[i].slot)));
    }
    *serials = w->serials.data;
    return w->serials.len;
}

uint32_t twin_waiting(const twin *t, const uint32_t **serials)
{
    twin *w = (twin *)(uintptr_t)t;
    uint32_t n = t->rank.waiting.slots.len;
    aisim_array_reserve(&w->serials, n);
    aisim_queue_sorted(&t->rank.waiting, w->serials.data);
    w->serials.len = n;
    for (uint32_t i = 0; i < n; i++) {
        w->serials.data[i] =
            serial_of(t, aisim_requests_at(&t->engine.requests, w->serials.data[i]));
    }
    *serials = w->serials.data;
    return n;
}

uint32_t twin_skipped(const twin *t, const uint32_t **serials)
{
    *serials = t->serials.data;
    return 0;
}

twin_totals twin_sum(const twin *t)
{
    const aisim_block_pool *pool = &t->rank.pool;
    return (twin_totals){
        .active = (uint32_t)aisim_block_pool_active(pool),
        .inactive = (uint32_t)pool->extents.inactive,
        .free = (uint32_t)pool->free,
        .live = t->engine.requests.live,
        .ready = t->rank.running.len > 0 || t->rank.waiting.slots.len > 0,
        .drained = t->engine.requests.live == 0,
        .capacity_bound = t->rank.capacity_bound,
        .livelock = t->rank.config.scheduler.preempting_pass_limit > 0 &&
                    t->rank.preempting_passes >= t->rank.config.scheduler.preempting_pass_limit,
        .preemptions = t->preemptions,
        .lookups = t->lookups,
        .lookup_tokens = t->lookup_tokens,
        .hit_tokens = t->hit_tokens,
    };
}

bool twin_defers(const twin *t, uint32_t ranks, uint64_t wave_step)
{
    uint32_t interval = t->rank.config.scheduler.prefill_schedule_interval;
    return ranks > 1 && wave_step % interval != 0 && !t->rank.capacity_bound &&
           aisim_rank_has_decode(&t->rank);
}

void twin_set_budget(twin *t, uint32_t tokens)
{
    t->rank.config.scheduler.max_batched_tokens = tokens;
}

bool twin_reset(twin *t, bool force)
{
    if (force) {
        while (t->rank.running.len > 0) {
            aisim_rank_preempt(&t->rank, t->rank.running.len - 1);
        }
    }
    return aisim_block_pool_reset(&t->rank.pool);
}

void twin_verify(const twin *t)
{
    aisim_rank_verify(&t->rank);
}

/* ---- not in the product yet: the vectors that need them fail
 * ---------------------------------------- */

bool twin_unblock(twin *t, uint32_t id)
{
    (void)t, (void)id;
    return false;
}

void twin_set_external(twin *t, uint32_t matched)
{
    (void)t, (void)matched;
}

bool twin_reserve(twin *t, const twin_submit_args *args)
{
    (void)t, (void)args;
    return false;
}

bool twin_activate(twin *t, uint32_t id)
{
    (void)t, (void)id;
    return false;
}

bool twin_release_source(twin *t, uint32_t id)
{
    (void)t, (void)id;
    return false;
}

uint32_t twin_align_split(aisim_align_split kind, uint32_t b, uint32_t u, uint32_t cap, bool drop,
                          uint32_t junction, uint32_t start, uint32_t prompt, uint32_t known,
                          uint32_t desired)
{
    (void)kind, (void)b, (void)u, (void)cap, (void)drop, (void)junction, (void)start;
    (void)prompt, (void)known, (void)desired;
    return TWIN_NONE;
}

uint32_t twin_draw(uint64_t seed, uint32_t rank, uint64_t request, uint64_t step,
                   const double *rates, uint32_t drafts)
{
    (void)seed, (void)rank, (void)request, (void)step, (void)rates, (void)drafts;
    return TWIN_NONE;
}
