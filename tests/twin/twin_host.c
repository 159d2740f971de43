/* twin_host.c - host blocks one by one, and when transfers end (§4, §5, §6). */
#include "twin_host.h"

#include <math.h>

#include "base/check.h"
#include "base/clock.h"

void twin_host_free(twin *t)
{
    twin_host *h = t->host;
    if (h == NULL) {
        return;
    }
    for (uint32_t i = 0; i < h->jobs.len; i++) {
        aisim_array_free(&h->jobs.data[i].nodes);
        aisim_array_free(&h->jobs.data[i].sources);
    }
    aisim_array_free(&h->blocks);
    aisim_array_free(&h->jobs);
    aisim_array_free(&h->waiters);
    aisim_array_free(&h->changes);
    aisim_array_free(&h->order);
    aisim_array_free(&h->told);
    aisim_array_free(&h->queue);
    aisim_free(h);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

twin_hosted *twin_hosted_find(const twin *t, uint32_t node)
{
    for (uint32_t i = 0; i < t->host->blocks.len; i++) {
        if (t->host->blocks.data[i].node == node) {
            return &t->host->blocks.data[i];
        }
    }
    return NULL;
}

static bool listed(const twin_ids *list, uint32_t value)
{
    for (uint32_t i = 0; i < list->len; i++) {
        if (list->data[i] == value) {
            return true;
        }
    }
    return false;
}

static bool earlier(const twin_hosted *x, const twin_hosted *y)
{
    return x->epoch != y->epoch ? x->epoch < y->epoch : x->place < y->place;
}

/* §5, §6: the next victim that is no part of the range; blocks.len = none. */
static uint32_t victim(const twin *t, const twin_ids *range)
{
    const twin_host *h = t->host;
    uint32_t best = h->blocks.len;
    for (uint32_t i = 0; i < h->blocks.len; i++) {
        const twin_hosted *b = &h->blocks.data[i];
        if (!b->pending && b->pins == 0 && !listed(range, b->node) &&
            (best == h->blocks.len || earlier(b, &h->blocks.data[best]))) {
            best = i;
        }
    }
    return best;
}

static void note(twin *t, bool stored, uint32_t node)
{
    twin_host_change change = {stored, node};
    aisim_array_push(&t->host->changes, change);
}

int twin_host_admit(twin *t, const twin_ids *nodes, twin_ids *missing)
{
    twin_host *h = t->host;
    uint32_t capacity = (uint32_t)t->config.host.blocks, victims = 0;
    for (uint32_t i = 0; i < nodes->len; i++) {
        if (twin_hosted_find(t, nodes->data[i]) == NULL) {
            aisim_array_push(missing, nodes->data[i]);
        }
    }
    if (missing->len == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < h->blocks.len; i++) {
        const twin_hosted *b = &h->blocks.data[i];
        victims += !b->pending && b->pins == 0 && !listed(nodes, b->node);
    }
    if (missing->len > capacity - h->blocks.len + victims) {
        return 2;
    }
    while (missing->len > capacity - h->blocks.len) {
        uint32_t at = victim(t, nodes);
        note(t, false, h->blocks.data[at].node);
        aisim_array_remove(&h->blocks, at);
        h->evicted++;
    }
    for (uint32_t i = 0; i < missing->len; i++) {
        twin_hosted made = {.node = missing->data[i], .pending = true};
        aisim_array_push(&h->blocks, made);
    }
    return 1;
}

/* R18: place inside the cohort, victims first. */
static uint32_t place_of(const twin *t, uint32_t i, uint32_t n)
{
    return t->config.host.tie_break == AISIM_TIE_LISTED ? i : n - 1 - i;
}

static void land(twin *t, const twin_ids *nodes)
{
    t->host->epoch++;
    for (uint32_t i = 0; i < nodes->len; i++) {
        twin_hosted *b = twin_hosted_find(t, nodes->data[i]);
        b->pending = false;
        b->epoch = t->host->epoch;
        b->place = place_of(t, i, nodes->len);
        note(t, true, b->node);
        t->host->stored++;
    }
}

void twin_host_pin(twin *t, const twin_ids *nodes)
{
    for (uint32_t i = 0; i < nodes->len; i++) {
        twin_hosted_find(t, nodes->data[i])->pins++;
    }
}

void twin_host_unpin(twin *t, const twin_ids *nodes)
{
    t->host->epoch++;
    for (uint32_t i = 0; i < nodes->len; i++) {
        twin_hosted *b = twin_hosted_find(t, nodes->data[i]);
        if (--b->pins == 0 && t->config.host.refresh_on_load) { /* R19 */
            b->epoch = t->host->epoch;
            b->place = place_of(t, i, nodes->len);
        }
    }
}

void twin_host_touch(twin *t, uint32_t node)
{
    twin_hosted *b = twin_hosted_find(t, node);
    if (b != NULL && !b->pending && b->pins == 0) {
        b->epoch = ++t->host->epoch;
        b->place = 0;
    }
}

/* ---- transfers ------------------------------------------------------------------------------- */

static bool shared(const twin *t)
{
    return t->config.host.scope == AISIM_HOST_CLUSTER_SHARED;
}

twin_job *twin_job_new(twin *t, bool load, bool peer, uint32_t serial, const twin_ids *nodes)
{
    twin_job job = {.id = t->host->next_id++,
                    .load = load,
                    .peer = peer,
                    .serial = serial,
                    .done_ns = AISIM_NEVER};
    for (uint32_t i = 0; i < nodes->len; i++) {
        aisim_array_push(&job.nodes, nodes->data[i]);
    }
    aisim_array_push(&t->host->jobs, job);
    return &t->host->jobs.data[t->host->jobs.len - 1];
}

void twin_job_drop(twin *t, uint32_t at)
{
    aisim_array_free(&t->host->jobs.data[at].nodes);
    aisim_array_free(&t->host->jobs.data[at].sources);
    aisim_array_remove(&t->host->jobs, at);
}

static double bytes_of(const twin *t, const twin_job *job)
{
    return (double)job->nodes.len * (t->config.kv.bytes_per_token * t->b);
}

/* ---- the shared link (§4.2) ------------------------------------------------------------------ */

static double rate_of(const twin *t, const twin_job *job)
{
    const aisim_host_config *c = &t->config.host;
    double client = job->load ? c->h2d_gbps : c->d2h_gbps;
    double pool = job->load ? c->shared_h2d_gbps : c->shared_d2h_gbps;
    uint32_t of_client = 0, of_pool = 0;
    for (uint32_t i = 0; i < t->host->jobs.len; i++) {
        const twin_job *other = &t->host->jobs.data[i];
        bool moves = other->moving && other->load == job->load;
        of_pool += moves;
        of_client += moves && other->peer == job->peer;
    }
    double mine = client > 0.0 ? client / of_client : HUGE_VAL;
    double all = pool > 0.0 ? pool / of_pool : HUGE_VAL;
    return mine < all ? mine : all;
}

static double event_of(const twin *t, const twin_job *job)
{
    if (!job->moving) {
        return job->first_byte_ns > t->host->link_ns ? job->first_byte_ns : t->host->link_ns;
    }
    return t->host->link_ns + job->left / rate_of(t, job);
}

static bool in_link(const twin_job *job)
{
    return job->submitted && !job->arrived;
}

/* Of several at one time the one that was submitted first. */
static uint32_t next_job(const twin *t, double *when_ns)
{
    uint32_t best = TWIN_NONE;
    *when_ns = HUGE_VAL;
    for (uint32_t i = 0; i < t->host->jobs.len; i++) {
        const twin_job *job = &t->host->jobs.data[i];
        bool first = best == TWIN_NONE || event_of(t, job) < *when_ns ||
                     (event_of(t, job) == *when_ns && job->order < t->host->jobs.data[best].order);
        if (in_link(job) && first) {
            *when_ns = event_of(t, job);
            best = i;
        }
    }
    return best;
}

static void move_to(twin *t, double to_ns)
{
    double dt_ns = to_ns - t->host->link_ns;
    if (dt_ns <= 0.0) {
        return;
    }
    for (uint32_t i = 0; i < t->host->jobs.len; i++) {
        twin_job *job = &t->host->jobs.data[i];
        if (job->moving) {
            job->left = fmax(0.0, job->left - rate_of(t, job) * dt_ns);
        }
    }
    t->host->link_ns = to_ns;
}

void twin_link_cancel(twin *t, const twin_job *job)
{
    (void)job;
    move_to(t, (double)t->now_ns);
}

void twin_job_submit(twin *t, twin_job *job)
{
    const aisim_host_config *c = &t->config.host;
    int64_t latency_ns = aisim_ns_from_ms(c->latency_ms);
    job->submitted = true;
    job->order = t->host->submissions++;
    if (shared(t)) {
        move_to(t, (double)job->start_ns);
        job->left = bytes_of(t, job);
        job->first_byte_ns = (double)(job->start_ns + latency_ns);
        return;
    }
    double rate = job->load ? c->h2d_gbps : c->d2h_gbps; /* §4.1 */
    int64_t *tail = &t->host->lane_ns[job->load];
    int64_t start = job->start_ns + latency_ns > *tail ? job->start_ns + latency_ns : *tail;
    *tail = start + (rate > 0.0 ? llround(bytes_of(t, job) / rate) : 0);
    job->done_ns = *tail;
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void settle(twin *t, uint32_t at, int64_t at_ns)
{
    twin_job *job = &t->host->jobs.data[at];
    job->arrived = true;
    job->moving = false;
    job->done_ns = at_ns;
    job->arrival = t->host->arrivals++;
    if (job->load) {
        twin_host_unpin(t, &job->nodes);
    } else {
        land(t, &job->nodes);
    }
}

/* Of those that end at one time: stores first, then by id (§4.1). */
static void settle_all(twin *t, const twin_ids *ended, int64_t at_ns)
{
    for (uint32_t load = 0; load < 2; load++) {
        for (uint32_t i = 0; i < t->host->jobs.len; i++) { /* ids ascend in the list */
            if (listed(ended, i) && t->host->jobs.data[i].load == load) {
                settle(t, i, at_ns);
            }
        }
    }
}

static void flow_shared(twin *t, int64_t t_ns)
{
    double when_ns;
    uint32_t at;
    while ((at = next_job(t, &when_ns)) != TWIN_NONE && llround(when_ns) <= t_ns) {
        int64_t at_ns = llround(when_ns);
        twin_ids ended = {0};
        while (at != TWIN_NONE && llround(when_ns) <= at_ns) {
            move_to(t, when_ns);
            twin_job *job = &t->host->jobs.data[at];
            if (!job->moving) {
                job->moving = true;
            } else {
                job->moving = false;
                job->arrived = true;
                aisim_array_push(&ended, at);
            }
            at = next_job(t, &when_ns);
        }
        settle_all(t, &ended, at_ns);
        aisim_array_free(&ended);
    }
    move_to(t, (double)t_ns);
}

static void flow_private(twin *t, int64_t t_ns)
{
    for (;;) {
        int64_t first_ns = AISIM_NEVER;
        for (uint32_t i = 0; i < t->host->jobs.len; i++) {
            const twin_job *job = &t->host->jobs.data[i];
            if (in_link(job) && job->done_ns < first_ns) {
                first_ns = job->done_ns;
            }
        }
        if (first_ns > t_ns) {
            return;
        }
        twin_ids ended = {0};
        for (uint32_t i = 0; i < t->host->jobs.len; i++) {
            if (in_link(&t->host->jobs.data[i]) && t->host->jobs.data[i].done_ns == first_ns) {
                aisim_array_push(&ended, i);
            }
        }
        settle_all(t, &ended, first_ns);
        aisim_array_free(&ended);
    }
}

void twin_host_flow(twin *t, int64_t t_ns)
{
    if (shared(t)) {
        flow_shared(t, t_ns);
    } else {
        flow_private(t, t_ns);
    }
}

int64_t twin_next_transfer(const twin *t)
{
    int64_t first_ns = AISIM_NEVER;
    if (t->host == NULL) {
        return first_ns;
    }
    if (shared(t)) {
        double when_ns;
        return next_job(t, &when_ns) == TWIN_NONE ? AISIM_NEVER : llround(when_ns);
    }
    for (uint32_t i = 0; i < t->host->jobs.len; i++) {
        const twin_job *job = &t->host->jobs.data[i];
        if (in_link(job) && job->done_ns < first_ns) {
            first_ns = job->done_ns;
        }
    }
    return first_ns;
}
