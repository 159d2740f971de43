/* test_host.c - the host pool in extents against a list of single blocks, and the two kinds of
 * links against their formulas (offload.md §4-§7). */
#include "host/host.h"

#include "base/clock.h"
#include "base/rng.h"
#include "check.h"

enum { B = 4, RUNS = 6, DEPTH = 40, MAX_BLOCKS = 400 };

/* ---- blocks one by one ------------------------------------------------------------------------
 */

typedef struct block {
    uint32_t run, index, pins;
    bool pending;
} block;

typedef struct model {
    block list[MAX_BLOCKS]; /* resident ones in eviction order; pending ones anywhere */
    uint32_t n, capacity;
    aisim_tie_break tie_break;
    bool refresh;
} model;

static block *find(model *m, uint32_t run, uint32_t index)
{
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->list[i].run == run && m->list[i].index == index) {
            return &m->list[i];
        }
    }
    return NULL;
}

static void renew(model *m, block *b)
{
    block copy = *b;
    for (block *p = b; p + 1 < m->list + m->n; p++) {
        p[0] = p[1];
    }
    m->list[m->n - 1] = copy;
}

static uint32_t expand(const aisim_host_stretch *s, uint32_t n, block *out)
{
    uint32_t len = 0;
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < s[k].count; i++) {
            out[len++] = (block){.run = s[k].run, .index = s[k].first + i};
        }
    }
    return len;
}

/* The cohort in the order in which its blocks will be evicted (R18). */
static uint32_t cohort_order(const model *m, const aisim_host_stretch *s, uint32_t n, block *out)
{
    uint32_t len = expand(s, n, out);
    if (m->tie_break == AISIM_TIE_DEEPEST_FIRST) {
        for (uint32_t i = 0, j = len; i + 1 < j; i++) {
            block swap = out[i];
            out[i] = out[--j];
            out[j] = swap;
        }
    } else if (m->tie_break == AISIM_TIE_KEY_ASC) {
        for (uint32_t i = 1; i < len; i++) {
            for (uint32_t j = i; j > 0; j--) {
                bool less = out[j].run != out[j - 1].run ? out[j].run < out[j - 1].run
                                                         : out[j].index < out[j - 1].index;
                if (less) {
                    block swap = out[j];
                    out[j] = out[j - 1];
                    out[j - 1] = swap;
                }
            }
        }
    }
    return len;
}

static bool in_range(const block *range, uint32_t n, const block *b)
{
    for (uint32_t i = 0; i < n; i++) {
        if (range[i].run == b->run && range[i].index == b->index) {
            return true;
        }
    }
    return false;
}

static aisim_host_admission admit(model *m, const aisim_host_stretch *s, uint32_t n,
                                  aisim_host_stretches *gone)
{
    block range[MAX_BLOCKS], absent[MAX_BLOCKS];
    uint32_t len = expand(s, n, range), wanted = 0, victims = 0;
    for (uint32_t i = 0; i < len; i++) {
        if (find(m, range[i].run, range[i].index) == NULL) {
            absent[wanted++] = range[i];
        }
    }
    if (wanted == 0) {
        return AISIM_HOST_PRESENT;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        const block *b = &m->list[i];
        victims += !b->pending && b->pins == 0 && !in_range(range, len, b);
    }
    uint32_t free = m->capacity - m->n;
    if (wanted > free + victims) {
        return len > m->capacity ? AISIM_HOST_UNFITTABLE : AISIM_HOST_RETRY;
    }
    for (uint32_t i = 0; wanted > free && i < m->n;) {
        block *b = &m->list[i];
        if (b->pending || b->pins > 0 || in_range(range, len, b)) {
            i++;
            continue;
        }
        aisim_array_push(gone, (aisim_host_stretch){b->run, b->index, 1});
        renew(m, b);
        m->n--;
        free++;
    }
    for (uint32_t i = 0; i < wanted; i++) {
        absent[i].pending = true;
        m->list[m->n++] = absent[i];
    }
    return AISIM_HOST_PREPARED;
}

static void land(model *m, const aisim_host_stretch *s, uint32_t n)
{
    block order[MAX_BLOCKS];
    uint32_t len = cohort_order(m, s, n, order);
    for (uint32_t i = 0; i < len; i++) {
        block *b = find(m, order[i].run, order[i].index);
        b->pending = false;
        renew(m, b);
    }
}

static void unpin(model *m, const aisim_host_stretch *s, uint32_t n)
{
    block order[MAX_BLOCKS];
    uint32_t len = cohort_order(m, s, n, order);
    for (uint32_t i = 0; i < len; i++) {
        block *b = find(m, order[i].run, order[i].index);
        if (--b->pins == 0 && m->refresh) {
            renew(m, b);
        }
    }
}

static void touch(model *m, aisim_host_stretch s)
{
    for (uint32_t i = s.count; i-- > 0;) {
        block *b = find(m, s.run, s.first + i);
        if (b != NULL && !b->pending && b->pins == 0) {
            renew(m, b);
        }
    }
}

/* ---- random operations ------------------------------------------------------------------------
 */

typedef struct both {
    aisim_host_pool pool;
    model m;
    aisim_rng rng;
    uint32_t runs[RUNS];
    struct {
        aisim_host_stretches cohort;
        bool load;
    } jobs[8];
    uint32_t n_jobs;
} both;

static uint32_t below(both *t, uint32_t n)
{
    return (uint32_t)aisim_rng_below(&t->rng, n);
}

/* A piece of one run, or of two, in cohort order. */
static uint32_t draw_range(both *t, aisim_host_stretch *s)
{
    uint32_t n = 1 + (below(t, 4) == 0), a = below(t, RUNS), b = (a + 1 + below(t, 2)) % RUNS;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t first = below(t, DEPTH - 8);
        s[k] = (aisim_host_stretch){t->runs[k == 0 ? a : b], first, 1 + below(t, 8)};
    }
    return n;
}

/* The evictions told by the pool are those of the model, block by block. */
static void same_evictions(both *t, const aisim_host_stretches *gone)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->pool.changes.len; i++) {
        const aisim_host_change *c = &t->pool.changes.data[i];
        for (uint32_t k = 0; !c->stored && k < c->blocks.count; k++) {
            uint32_t index =
                c->deep_first ? c->blocks.first + c->blocks.count - 1 - k : c->blocks.first + k;
            CHECK(at < gone->len && gone->data[at].run == c->blocks.run &&
                  gone->data[at].first == index);
            at++;
        }
    }
    CHECK_EQ(at, gone->len);
    t->pool.changes.len = 0;
}

static void op_store(both *t)
{
    aisim_host_stretch range[2];
    uint32_t n = draw_range(t, range);
    aisim_host_stretches gone = {0};
    aisim_host_stretches *cohort = &t->jobs[t->n_jobs].cohort;
    aisim_host_admission want = admit(&t->m, range, n, &gone);
    CHECK_EQ(aisim_host_pool_admit(&t->pool, range, n, cohort), want);
    same_evictions(t, &gone);
    aisim_array_free(&gone);
    if (want == AISIM_HOST_PREPARED) {
        t->jobs[t->n_jobs++].load = false;
    }
}

static void op_load(both *t)
{
    aisim_host_stretch range[2];
    uint32_t n = draw_range(t, range);
    aisim_host_stretches *cohort = &t->jobs[t->n_jobs].cohort;
    cohort->len = 0;
    for (uint32_t k = 0; k < n; k++) { /* what is ready of it, from the first block on */
        uint32_t ready = 0;
        const block *b;
        while (ready < range[k].count &&
               (b = find(&t->m, range[k].run, range[k].first + ready)) != NULL && !b->pending) {
            ready++;
        }
        range[k].count = ready;
        if (ready > 0) {
            aisim_array_push(cohort, range[k]);
        }
    }
    if (cohort->len == 0) {
        return;
    }
    aisim_host_pool_pin(&t->pool, cohort->data, cohort->len);
    block all[MAX_BLOCKS];
    uint32_t len = expand(cohort->data, cohort->len, all);
    for (uint32_t i = 0; i < len; i++) {
        find(&t->m, all[i].run, all[i].index)->pins++;
    }
    t->jobs[t->n_jobs++].load = true;
}

static void op_end(both *t)
{
    uint32_t i = below(t, t->n_jobs);
    aisim_host_stretches cohort = t->jobs[i].cohort;
    if (t->jobs[i].load) {
        aisim_host_pool_unpin(&t->pool, cohort.data, cohort.len);
        unpin(&t->m, cohort.data, cohort.len);
    } else {
        aisim_host_pool_land(&t->pool, cohort.data, cohort.len);
        land(&t->m, cohort.data, cohort.len);
        t->pool.changes.len = 0;
    }
    t->jobs[i] = t->jobs[--t->n_jobs];
    t->jobs[t->n_jobs].cohort = cohort;
}

static void op_touch(both *t)
{
    aisim_host_stretch range[2];
    uint32_t n = draw_range(t, range);
    for (uint32_t k = n; k-- > 0;) {
        range[k].count += below(t, 2) * (DEPTH - range[k].first - range[k].count);
        aisim_host_pool_touch(&t->pool, range[k]);
        touch(&t->m, range[k]);
    }
}

static void same_match(both *t)
{
    aisim_host_stretch s[2];
    draw_range(t, s);
    aisim_host_match have =
        aisim_host_pool_match(&t->pool, s[0].run, s[0].first, s[0].first + s[0].count);
    aisim_host_match want = {0};
    const block *b;
    while (want.blocks < s[0].count &&
           (b = find(&t->m, s[0].run, s[0].first + want.blocks)) != NULL) {
        want.pending = want.pending || b->pending;
        want.pinned = want.pinned || b->pins > 0;
        want.blocks++;
    }
    CHECK(have.blocks == want.blocks && have.pending == want.pending && have.pinned == want.pinned);
}

/* Everything evictable goes, in the same order. */
static void drain(both *t)
{
    while (t->n_jobs > 0) {
        op_end(t);
    }
    uint32_t spare = 0;
    for (uint32_t k = 0; k < t->m.capacity; k++) {
        aisim_host_stretch one = {t->runs[RUNS - 1], DEPTH + spare++, 1};
        aisim_host_stretches gone = {0};
        CHECK_EQ(admit(&t->m, &one, 1, &gone), AISIM_HOST_PREPARED);
        CHECK_EQ(aisim_host_pool_admit(&t->pool, &one, 1, &t->jobs[0].cohort), AISIM_HOST_PREPARED);
        same_evictions(t, &gone);
        aisim_array_free(&gone);
    }
}

static void random_pool(uint64_t seed)
{
    both t = {.rng = {aisim_mix64(seed)}};
    aisim_content *content = aisim_content_new();
    for (uint32_t i = 0; i < RUNS; i++) {
        t.runs[i] = aisim_content_namespace(content, i).run;
    }
    t.m.capacity = 3 + below(&t, 60);
    t.m.tie_break = (aisim_tie_break)below(&t, 3);
    t.m.refresh = below(&t, 3) > 0;
    aisim_host_pool_init(&t.pool, content, t.m.capacity, t.m.tie_break, t.m.refresh);
    t.pool.listening = true;
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t what = below(&t, 10);
        bool room = t.n_jobs < 8;
        if (what < 4 && room) {
            op_store(&t);
        } else if (what == 4 && room) {
            op_load(&t);
        } else if (what < 8 && t.n_jobs > 0) {
            op_end(&t);
        } else {
            op_touch(&t);
        }
        same_match(&t);
        aisim_host_pool_verify(&t.pool);
        CHECK_EQ(t.pool.used, t.m.n);
    }
    drain(&t);
    for (uint32_t i = 0; i < 8; i++) {
        aisim_array_free(&t.jobs[i].cohort);
    }
    aisim_host_pool_deinit(&t.pool);
    for (uint32_t i = 0; i < RUNS; i++) {
        aisim_content_release(content, t.runs[i]);
    }
    aisim_content_free(content);
}

/* ---- a prompt is one extent again after a touch ------------------------------------------------
 */

static void long_prompt(void)
{
    aisim_content *content = aisim_content_new();
    uint32_t run = aisim_content_append_private(content, AISIM_ROOT, 120000).run;
    aisim_host_pool pool;
    aisim_host_stretches cohort = {0};
    aisim_host_pool_init(&pool, content, 10000, AISIM_TIE_DEEPEST_FIRST, true);
    for (uint32_t first = 0; first < 7500; first += 125) {
        aisim_host_stretch chunk = {run, first, 125};
        CHECK_EQ(aisim_host_pool_admit(&pool, &chunk, 1, &cohort), AISIM_HOST_PREPARED);
        aisim_host_pool_touch(&pool, (aisim_host_stretch){run, 0, 7500});
        aisim_host_pool_land(&pool, cohort.data, cohort.len);
    }
    CHECK(pool.slots.len <= 3); /* 7,500 blocks */
    CHECK_EQ(pool.resident, 7500);
    aisim_array_free(&cohort);
    aisim_host_pool_deinit(&pool);
    aisim_content_release(content, run);
    aisim_content_free(content);
}

/* ---- lanes ------------------------------------------------------------------------------------
 */

static void lanes(void)
{
    aisim_host_lane lane;
    aisim_host_lane_init(&lane, 1.0, 1e6, 500000); /* 1 MB at 1 GB/s, 0.5 ms to the first byte */
    CHECK_EQ(aisim_host_lane_submit(&lane, 1, 0), 1500000);
    CHECK_EQ(aisim_host_lane_submit(&lane, 1, 0), 2500000); /* hidden behind the busy lane */
    CHECK_EQ(aisim_host_lane_submit(&lane, 1, 10000000), 11500000);
    CHECK_EQ(lane.busy_ns, 3000000);
    aisim_host_lane_init(&lane, 0.0, 1e6, 0); /* unlimited */
    CHECK_EQ(aisim_host_lane_submit(&lane, 1000, 7250000), 7250000);
    aisim_host_lane_init(&lane, 3.0, 1.0, 0); /* a third of a nanosecond each: no drift */
    int64_t done = 0;
    for (uint32_t i = 0; i < 3000000; i++) {
        done = aisim_host_lane_submit(&lane, 1, 5);
    }
    CHECK_EQ(done, 5 + 1000000);
}

/* Three clients 3/3/1 GB/s, pool 4, jobs 6/6/2 MB at 0/1/2 ms (offload.md §4.2). */
static void shares(void)
{
    static const double rates[3] = {3, 3, 1}, bytes[3] = {6e6, 6e6, 2e6};
    static const int64_t want_ns[3] = {2750000, 4166667, 4000000};
    aisim_fair_link link;
    aisim_fair_dones done = {0};
    int64_t at_ns, seen[3] = {0};
    aisim_fair_link_init(&link, 4.0, 4.0);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(aisim_fair_link_join(&link, rates[i], rates[i], 0), i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        while (aisim_fair_link_step(&link, (int64_t)i * AISIM_NS_PER_MS, &at_ns, &done)) {
            CHECK_EQ(done.len, 0); /* first bytes only */
        }
        aisim_fair_link_submit(&link, (int64_t)i * AISIM_NS_PER_MS, i, i, i, AISIM_LINK_WRITE,
                               bytes[i]);
    }
    while (aisim_fair_link_step(&link, AISIM_NS_PER_S, &at_ns, &done)) {
        for (uint32_t i = 0; i < done.len; i++) {
            seen[done.data[i].id] = at_ns;
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(seen[i], want_ns[i]);
    }
    CHECK_EQ(aisim_fair_link_next(&link), AISIM_NEVER);
    aisim_array_free(&done);
    aisim_fair_link_deinit(&link);
}

/* ---- clients ----------------------------------------------------------------------------------
 */

static aisim_host_config host_config(aisim_host_scope scope, uint64_t blocks)
{
    aisim_rank_config config;
    aisim_rank_config_default(&config);
    config.host.scope = scope;
    config.host.blocks = blocks;
    config.host.d2h_gbps = config.host.h2d_gbps = 1.0;
    return config.host;
}

/* A participant of another contract is refused and gets no number. */
static void contracts(void)
{
    aisim_content *content = aisim_content_new();
    aisim_host_config config = host_config(AISIM_HOST_CLUSTER_SHARED, 8), other = config;
    aisim_host_group *group = aisim_host_group_new(content, &config, B, 1e6);
    aisim_error err = {0};
    CHECK(aisim_host_join(group, &config, B, 1e6, &err) != NULL);
    other.blocks = 9;
    CHECK(aisim_host_join(group, &other, B, 1e6, &err) == NULL);
    CHECK(strstr(err.text, "incompatible") != NULL && strstr(err.text, "8,") != NULL);
    CHECK_EQ(group->clients.len, 1);
    other.blocks = 8;
    other.d2h_gbps = 5.0; /* access may differ */
    err = (aisim_error){0};
    CHECK(aisim_host_join(group, &other, B, 1e6, &err) != NULL);
    aisim_host_group_free(group);
    aisim_content_free(content);
}

/* Stores become visible to all clients of a shared pool, their owner hears of them; a cancelled
 * load gives its rate back (§3, §8). */
static void shared(void)
{
    aisim_content *content = aisim_content_new();
    aisim_host_config config = host_config(AISIM_HOST_CLUSTER_SHARED, 8);
    aisim_host_group *group = aisim_host_group_new(content, &config, B, 1e6);
    aisim_host *a = aisim_host_join(group, &config, B, 1e6, NULL);
    aisim_host *b = aisim_host_join(group, &config, B, 1e6, NULL);
    uint32_t run = aisim_content_append_private(content, AISIM_ROOT, 4 * B).run, job, blocks;
    CHECK_EQ(aisim_host_prepare(a, run, 0, 2, 4, 7, 70, 0, &job), AISIM_HOST_PREPARED);
    CHECK_EQ(aisim_host_submit(a, 0), job);
    aisim_host_query query = {run, 4, 0, 71};
    CHECK_EQ(aisim_host_lookup(b, &query, &blocks), AISIM_HOST_DEFERRED);
    CHECK_EQ(aisim_host_group_next(group), 0); /* the first byte */
    aisim_host_group_advance(group, 2000000);
    CHECK_EQ(aisim_host_lookup(b, &query, &blocks), AISIM_HOST_HIT);
    CHECK_EQ(blocks, 2);
    CHECK_EQ(aisim_host_done(b, 2000000), AISIM_NONE);
    CHECK_EQ(aisim_host_done(a, 2000000), job);
    aisim_host_forget(a, job);
    uint32_t load = aisim_host_load(b, run, 0, 2, 8, 71, 2000000, 2000000);
    CHECK_EQ(aisim_host_lookup(b, &query, &blocks), AISIM_HOST_DEFERRED); /* this rank loads it */
    CHECK_EQ(aisim_host_lookup(a, &query, &blocks), AISIM_HOST_HIT);      /* not this one */
    aisim_host_withdraw(b, load);
    CHECK_EQ(aisim_host_cancel_withdrawn(b, 2500000), 1);
    CHECK_EQ(aisim_host_group_next(group), AISIM_NEVER);
    aisim_host_verify(a);
    aisim_host_verify(b);
    aisim_host_leave(a, 2500000);
    CHECK_EQ(group->pool.resident, 2);
    aisim_host_group_free(group);
    aisim_content_release(content, run);
    aisim_content_free(content);
}

int main(void)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        random_pool(seed);
    }
    long_prompt();
    lanes();
    shares();
    contracts();
    shared();
    return check_done();
}
