/* twin_connector.c - stores, lookups, loads and who waits for them (§5, §7, §8), looked up anew
 * each time. */
#include "base/check.h"
#include "base/clock.h"
#include "twin_host.h"

static bool shared(const twin *t)
{
    return t->config.host.scope == AISIM_HOST_CLUSTER_SHARED;
}

static twin_request *request_of(const twin *t, uint32_t serial)
{
    return t->requests.data[serial];
}

/* Identities of blocks [first, end) of the known tokens. */
static void keys_of(twin *t, twin_request *r, uint32_t first, uint32_t end, twin_ids *out)
{
    for (uint32_t i = first; i < end; i++) {
        aisim_array_push(out, twin_node_at(t, r, (i + 1) * t->b));
    }
}

static void touch_reverse(twin *t, const twin_ids *keys)
{
    for (uint32_t i = keys->len; i-- > 0;) {
        twin_host_touch(t, keys->data[i]);
    }
}

/* ---- the connector queue --------------------------------------------------------------------- */

twin_waiter *twin_waiter_of(const twin *t, uint32_t serial)
{
    for (uint32_t i = 0; t->host != NULL && i < t->host->waiters.len; i++) {
        if (t->host->waiters.data[i].serial == serial) {
            return &t->host->waiters.data[i];
        }
    }
    return NULL;
}

static bool ready(const twin_waiter *w)
{
    return w->stage == TWIN_AWAKE || w->stage == TWIN_LOADED;
}

uint32_t twin_connector_ready(const twin *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; t->host != NULL && i < t->host->waiters.len; i++) {
        n += ready(&t->host->waiters.data[i]);
    }
    return n;
}

/* §7.5: the first that is worth examining, TWIN_NONE = nobody. */
uint32_t twin_connector_head(const twin *t)
{
    for (uint32_t i = 0; t->host != NULL && i < t->host->waiters.len; i++) {
        if (ready(&t->host->waiters.data[i])) {
            return t->host->waiters.data[i].serial;
        }
    }
    return TWIN_NONE;
}

/* The place in the queue is that of the first deferral. */
static twin_waiter *enter(twin *t, twin_request *r, twin_stage stage)
{
    twin_waiter *w = twin_waiter_of(t, r->serial);
    if (w == NULL) {
        twin_waiter made = {.serial = r->serial};
        aisim_array_push(&t->host->waiters, made);
        w = &t->host->waiters.data[t->host->waiters.len - 1];
        twin_ids_remove(&t->waiting, r->serial);
        r->status = TWIN_WAITING;
        r->connected = true;
    }
    w->stage = stage;
    return w;
}

static twin_job *job_of(const twin *t, uint64_t id)
{
    for (uint32_t i = 0; i < t->host->jobs.len; i++) {
        if (t->host->jobs.data[i].id == id) {
            return &t->host->jobs.data[i];
        }
    }
    return NULL;
}

void twin_connector_leave(twin *t, twin_request *r)
{
    twin_waiter *w = twin_waiter_of(t, r->serial);
    if (w == NULL) {
        return;
    }
    if (w->stage == TWIN_LOADING) {
        job_of(t, w->job)->withdrawn = true;
        t->host_withdrawn = true;
        /* its blocks are anonymous again, a copy may still read them */
        t->host->taken_ns = w->start_ns > t->host->taken_ns ? w->start_ns : t->host->taken_ns;
    }
    aisim_array_remove(&t->host->waiters, (uint32_t)(w - t->host->waiters.data));
    r->connected = false;
}

/* ---- headroom (§7.3, E-R1, E-R2, E-R3) ------------------------------------------------------- */

uint32_t twin_footprint(const twin *t, const twin_request *r)
{
    uint32_t ahead = t->native ? t->lookahead : t->depth;
    return twin_ceil(twin_min(r->tokens.len + ahead, t->limit), t->b);
}

uint64_t twin_headroom(const twin *t)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->running.len; i++) {
        const twin_request *r = request_of(t, t->running.data[i]);
        uint32_t wanted = twin_footprint(t, r);
        if (r->computed < r->prompt && wanted > r->blocks.len) {
            sum += wanted - r->blocks.len;
        }
    }
    for (uint32_t i = 0; t->host != NULL && i < t->host->waiters.len; i++) {
        const twin_waiter *w = &t->host->waiters.data[i];
        uint32_t wanted = twin_footprint(t, request_of(t, w->serial));
        if (w->stage >= TWIN_LOADING && wanted > w->loaded) {
            sum += wanted - w->loaded;
        }
    }
    return sum + twin_external_headroom(t);
}

/* ---- lookup and load ------------------------------------------------------------------------- */

static bool loads_here(const twin *t, uint32_t node)
{
    for (uint32_t i = 0; i < t->host->jobs.len; i++) {
        const twin_job *job = &t->host->jobs.data[i];
        for (uint32_t k = 0; job->load && !job->peer && !job->arrived && k < job->nodes.len; k++) {
            if (job->nodes.data[k] == node) {
                return true;
            }
        }
    }
    return false;
}

static uint32_t on_device(twin *t, twin_request *r)
{
    uint32_t n = 0;
    while ((n + 1) * t->b <= r->tokens.len) {
        uint32_t node = twin_node_at(t, r, (n + 1) * t->b);
        if (t->nodes.data[node].copies.len == 0) {
            break;
        }
        n++;
    }
    return n;
}

/* §7.2 steps 3 to 6. @return 0 miss, 1 hit, 2 deferred */
static int lookup(twin *t, twin_request *r, uint32_t device, uint32_t *matched)
{
    *matched = 0;
    if (r->latest_store != 0 && job_of(t, r->latest_store - 1) != NULL) {
        return 2;
    }
    twin_ids keys = {0}, run = {0};
    uint32_t n = r->prompt / t->b;
    bool wait = false;
    keys_of(t, r, 0, n, &keys);
    for (uint32_t i = device; i < n; i++) {
        const twin_hosted *b = twin_hosted_find(t, keys.data[i]);
        if (b == NULL) {
            break;
        }
        wait = wait || b->pending || loads_here(t, keys.data[i]);
        aisim_array_push(&run, keys.data[i]);
    }
    touch_reverse(t, t->config.host.touch_prompt_on_lookup ? &keys : &run);
    *matched = run.len;
    int result = run.len == 0 ? 0 : wait ? 2 : 1;
    aisim_array_free(&keys);
    aisim_array_free(&run);
    return result;
}

/* §7.4 */
static bool start_load(twin *t, twin_request *r, uint32_t device, uint32_t matched)
{
    twin_ids pins = {0}, keys = {0};
    for (uint32_t i = 0; i < device; i++) {
        uint32_t node = twin_node_at(t, r, (i + 1) * t->b);
        aisim_array_push(&pins, t->nodes.data[node].copies.data[0]);
    }
    uint64_t kept = 0;
    if (!t->config.scheduler.reserve_full_prompt) {
        kept = twin_headroom(t) + twin_reserve_blocks(t);
    }
    bool fits = matched + twin_queued(t, &pins) + kept <= t->queue_len;
    if (fits) {
        int64_t taken_ns = t->host->taken_ns;
        for (uint32_t i = 0; i < pins.len; i++) {
            twin_ref(t, pins.data[i]);
            aisim_array_push(&r->blocks, pins.data[i]);
        }
        t->host->taken_ns = 0;
        twin_acquire(t, matched, &r->blocks);
        r->published = device;
        r->watermark = (device + matched) * t->b;
        keys_of(t, r, device, device + matched, &keys);
        twin_waiter *w = enter(t, r, TWIN_LOADING);
        w->start_ns = t->host->taken_ns > t->now_ns ? t->host->taken_ns : t->now_ns; /* §5.1 */
        w->device = device;
        w->loaded = device + matched;
        t->host->taken_ns = taken_ns;
        twin_job *job = twin_job_new(t, true, false, r->serial, &keys);
        w->job = job->id;
        job->start_ns = w->start_ns;
        twin_host_pin(t, &keys);
        twin_job_submit(t, job);
    }
    aisim_array_free(&pins);
    aisim_array_free(&keys);
    return fits;
}

/* §7.6 point 3 */
static void freeze(const twin *t, const twin_request *r, twin_hit *hit)
{
    const twin_waiter *w = twin_waiter_of(t, r->serial);
    bool logits = twin_remaining(t, r) > 0;
    uint32_t bound = logits ? r->tokens.len - 1 : r->tokens.len;
    uint32_t blocks = twin_min(w->loaded, bound / t->b);
    if (t->depth > 0 && t->config.speculation.drop_matched_block && logits && blocks > 0 &&
        t->config.host.drop_applies_to_loads) {
        blocks--;
    }
    *hit = (twin_hit){.tokens = blocks * t->b,
                      .reserved = w->loaded,
                      .host = blocks > w->device ? (blocks - w->device) * t->b : 0,
                      .partial = TWIN_NONE,
                      .checkpoint = TWIN_NONE};
}

int twin_connector_examine(twin *t, twin_request *r, twin_hit *hit)
{
    const twin_waiter *w = twin_waiter_of(t, r->serial);
    if (w != NULL && w->stage == TWIN_LOADED) {
        twin_hit_free(hit);
        freeze(t, r, hit);
        return 0;
    }
    if (r->no_read) {
        return 0;
    }
    uint32_t device = on_device(t, r), matched;
    int outcome = lookup(t, r, device, &matched);
    if (outcome == 0) {
        return 0;
    }
    if (outcome == 2) {
        enter(t, r, TWIN_SLEEPING);
        return 1;
    }
    if (t->config.scheduler.reserve_full_prompt && !twin_gate(t, r, hit, true)) {
        return 2;
    }
    return start_load(t, r, device, matched) ? 1 : 2;
}

/* ---- stores ---------------------------------------------------------------------------------- */

static uint32_t index_of(const twin_ids *list, uint32_t value)
{
    uint32_t i = 0;
    while (list->data[i] != value) {
        i++;
    }
    return i;
}

static void store(twin *t, twin_request *r)
{
    uint32_t end = twin_min(r->computed, r->prompt) / t->b;
    if (end <= r->cursor) {
        return;
    }
    twin_ids range = {0}, missing = {0}, keys = {0};
    keys_of(t, r, r->cursor, end, &range);
    int result = twin_host_admit(t, &range, &missing);
    if (result == 1) {
        twin_job *job = twin_job_new(t, false, false, r->serial, &missing);
        for (uint32_t i = 0; i < missing.len; i++) {
            uint32_t block = r->blocks.data[r->cursor + index_of(&range, missing.data[i])];
            aisim_array_push(&job->sources, block);
            if (shared(t)) {
                twin_ref(t, block); /* §5.1: held until the copy has ended */
            }
        }
        r->latest_store = job->id + 1;
        if (t->config.host.touch_prompt_on_store) {
            keys_of(t, r, 0, r->prompt / t->b, &keys);
            touch_reverse(t, &keys);
        }
    }
    r->cursor = result == 2 ? r->cursor : end;
    aisim_array_free(&range);
    aisim_array_free(&missing);
    aisim_array_free(&keys);
}

/* The end of planning. */
void twin_connector_close(twin *t)
{
    for (uint32_t i = 0; i < t->items.len; i++) {
        twin_request *r = request_of(t, t->items.data[i].serial);
        if (r->status == TWIN_RUNNING && r->pass == t->pass) {
            store(t, r);
        }
    }
    twin_host *h = t->host;
    h->fence_ns = h->taken_ns > h->fence_ns ? h->taken_ns : h->fence_ns; /* §5.1 */
    h->taken_ns = 0;
}

/* A device block goes to a new owner while a copy may still read it. */
void twin_connector_handed_on(twin *t, uint32_t block)
{
    for (uint32_t i = 0; i < t->host->jobs.len; i++) {
        twin_job *job = &t->host->jobs.data[i];
        for (uint32_t k = 0; k < job->sources.len; k++) {
            if (job->sources.data[k] == block) {
                int64_t done_ns = job->done_ns;
                t->host->taken_ns = done_ns > t->host->taken_ns ? done_ns : t->host->taken_ns;
                twin_ids_remove(&job->sources, block);
                break;
            }
        }
    }
}

/* After a flush nobody knows any more which free block is still read: all of them are waited for.
 */
void twin_connector_reset(twin *t)
{
    for (uint32_t i = t->head; i != TWIN_NONE; i = t->blocks[i].next) {
        twin_connector_handed_on(t, i);
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void deliver_one(twin *t, uint32_t at)
{
    twin_job *job = &t->host->jobs.data[at];
    if (!job->load && shared(t)) {
        twin_unref_all(t, &job->sources); /* deepest first */
    }
    if (job->load && !job->withdrawn) {
        twin_waiter *w = twin_waiter_of(t, job->serial);
        w->stage = TWIN_LOADED;
        twin_publish(t, request_of(t, job->serial), w->loaded * t->b); /* §7.6 */
    }
}

/* The next in order of arrival, TWIN_NONE = nothing has arrived. */
static uint32_t arrived(const twin *t, bool peer)
{
    uint32_t best = TWIN_NONE;
    for (uint32_t i = 0; i < t->host->jobs.len; i++) {
        const twin_job *job = &t->host->jobs.data[i];
        if (job->arrived && job->peer == peer &&
            (best == TWIN_NONE || job->arrival < t->host->jobs.data[best].arrival)) {
            best = i;
        }
    }
    return best;
}

static bool cancel_withdrawn(twin *t)
{
    bool any = t->host_withdrawn;
    for (uint32_t i = 0; any && i < t->host->jobs.len; i++) {
        twin_job *job = &t->host->jobs.data[i];
        if (job->withdrawn && !job->arrived) {
            twin_host_unpin(t, &job->nodes);
            twin_link_cancel(t, job);
            twin_job_drop(t, i--);
        }
    }
    t->host_withdrawn = false;
    return any;
}

bool twin_transfers(twin *t, int64_t t_ns)
{
    twin_host_flow(t, t_ns);
    return twin_connector_tell(t);
}

bool twin_connector_tell(twin *t)
{
    uint32_t at;
    bool any = false;
    if (!shared(t)) {
        twin_host_flow(t, t->now_ns);
    }
    while ((at = arrived(t, true)) != TWIN_NONE) {
        twin_job_drop(t, at);
    }
    while ((at = arrived(t, false)) != TWIN_NONE) {
        any = any || !t->host->jobs.data[at].withdrawn;
        deliver_one(t, at);
        twin_job_drop(t, at);
    }
    any = cancel_withdrawn(t) || any;
    for (uint32_t i = 0; any && i < t->host->waiters.len; i++) {
        if (t->host->waiters.data[i].stage == TWIN_SLEEPING) {
            t->host->waiters.data[i].stage = TWIN_AWAKE;
        }
    }
    if (any) {
        twin_retry_reservations(t);
    }
    return any;
}

bool twin_connector_preparing(const twin *t)
{
    for (uint32_t i = 0; t->host != NULL && i < t->host->jobs.len; i++) {
        if (!t->host->jobs.data[i].submitted) {
            return true;
        }
    }
    return false;
}

void twin_connector_end(twin *t)
{
    if (shared(t)) {
        twin_host_flow(t, t->now_ns);
    }
    for (uint32_t i = 0; i < t->host->jobs.len; i++) {
        if (!t->host->jobs.data[i].submitted) {
            t->host->jobs.data[i].start_ns = t->now_ns;
            twin_job_submit(t, &t->host->jobs.data[i]);
        }
    }
    twin_retry_reservations(t);
    twin_transfers(t, t->now_ns);
}

/* ---- the caller's side ----------------------------------------------------------------------- */

void twin_set_time(twin *t, int64_t t_ns)
{
    t->now_ns = t_ns;
}

void twin_flow(twin *t, int64_t t_ns)
{
    uint32_t at;
    if (shared(t)) {
        twin_host_flow(t, t_ns);
        while ((at = arrived(t, true)) != TWIN_NONE) {
            twin_job_drop(t, at);
        }
    }
}

int64_t twin_fence(const twin *t)
{
    return t->host->fence_ns;
}

bool twin_peer_store(twin *t, uint32_t serial, uint32_t first, uint32_t end)
{
    twin_request *r = request_of(t, serial);
    twin_ids range = {0}, missing = {0};
    keys_of(t, r, first, end, &range);
    bool done = twin_host_admit(t, &range, &missing) == 1;
    for (uint32_t i = 0; i < range.len; i++) {
        twin_node *node = &t->nodes.data[range.data[i]];
        if (!node->named) {
            node->named = true;
            node->name = (twin_name){r->id, first + i};
        }
    }
    if (done) {
        twin_job *job = twin_job_new(t, false, true, serial, &missing);
        job->start_ns = t->now_ns;
        twin_job_submit(t, job);
    }
    aisim_array_free(&range);
    aisim_array_free(&missing);
    return done;
}

bool twin_peer_load(twin *t, uint32_t serial, uint32_t first, uint32_t end)
{
    twin_request *r = request_of(t, serial);
    twin_ids range = {0};
    keys_of(t, r, first, end, &range);
    bool here = range.len > 0;
    for (uint32_t i = 0; i < range.len; i++) {
        const twin_hosted *b = twin_hosted_find(t, range.data[i]);
        here = here && b != NULL && !b->pending;
    }
    if (here) {
        twin_job *job = twin_job_new(t, true, true, serial, &range);
        job->start_ns = t->now_ns;
        twin_host_pin(t, &range);
        twin_job_submit(t, job);
    }
    aisim_array_free(&range);
    return here;
}

static twin_name name_of(const twin *t, uint32_t node)
{
    return t->nodes.data[node].name;
}

/* Resident blocks in the order in which they would go, pinned ones left out. */
static void list_order(twin *t)
{
    twin_host *h = t->host;
    h->order.len = 0;
    uint64_t epoch = 0;
    for (;;) { /* selection by (epoch, place) */
        const twin_hosted *best = NULL;
        for (uint32_t i = 0; i < h->blocks.len; i++) {
            const twin_hosted *b = &h->blocks.data[i];
            uint64_t key = b->epoch << 20 | b->place;
            if (!b->pending && b->pins == 0 && key >= epoch &&
                (best == NULL || key < (best->epoch << 20 | best->place))) {
                best = b;
            }
        }
        if (best == NULL) {
            return;
        }
        epoch = (best->epoch << 20 | best->place) + 1;
        aisim_array_push(&h->order, name_of(t, best->node));
    }
}

void twin_host_look(twin *t, twin_host_view *out)
{
    twin_host *h = t->host;
    *out = (twin_host_view){0};
    h->told.len = h->queue.len = 0;
    list_order(t);
    for (uint32_t i = 0; i < h->blocks.len; i++) {
        out->pending += h->blocks.data[i].pending;
        out->pinned += h->blocks.data[i].pins > 0;
    }
    for (uint32_t i = 0; i < h->changes.len; i++) {
        twin_host_event event = {h->changes.data[i].stored, name_of(t, h->changes.data[i].node)};
        aisim_array_push(&h->told, event);
    }
    for (uint32_t i = 0; i < h->waiters.len; i++) {
        const twin_waiter *w = &h->waiters.data[i];
        aisim_array_push(&h->queue, (twin_pair){request_of(t, w->serial)->id, (uint32_t)w->stage});
    }
    h->changes.len = 0;
    out->used = h->blocks.len;
    out->headroom = twin_headroom(t);
    out->evicted = h->evicted;
    out->stored = h->stored;
    out->order = h->order.data;
    out->n_order = h->order.len;
    out->changes = h->told.data;
    out->n_changes = h->told.len;
    out->queue = h->queue.data;
    out->n_queue = h->queue.len;
}

void twin_host_verify(const twin *t, uint32_t *refs)
{
    const twin_host *h = t->host;
    AISIM_CHECK(h->blocks.len <= t->config.host.blocks);
    for (uint32_t i = 0; i < h->jobs.len; i++) {
        for (uint32_t k = 0; shared(t) && k < h->jobs.data[i].sources.len; k++) {
            refs[h->jobs.data[i].sources.data[k]]++;
        }
    }
}
