/* test_extent_score.c - eviction by score against a model that knows single blocks (E-B7 with the
 * point evict): random prompts over a tree of runs, random scores, every block that goes. */
#include "base/rng.h"
#include "check.h"
#include "kv/extent.h"

enum { BLOCK = 4, RUNS = 24, DEPTH = 40, MAX_BLOCKS = 4096, LEASES = 12 };

/* ---- the model: one record per resident block ------------------------------------------------ */

typedef struct block {
    uint32_t run, index;
    uint32_t refs, reuse;
    int64_t since_ns;
    uint64_t released; /* place in the order of release */
} block;

typedef struct lease {
    bool used;
    uint32_t leaf, blocks;
} lease;

static struct {
    aisim_content *content;
    aisim_extents extents;
    block blocks[MAX_BLOCKS];
    uint32_t n;
    lease leases[LEASES];
    uint32_t leaves[RUNS], ends[RUNS]; /* run, tokens of the path to its end */
    uint32_t n_runs;
    int64_t clock_ns;
    uint64_t releases;
    uint32_t law; /* of the scores */
    aisim_rng rng;
    uint32_t gone_run[MAX_BLOCKS], gone_index[MAX_BLOCKS], n_gone;
} w;

static uint32_t draw(uint32_t n)
{
    return (uint32_t)(aisim_rng_unit(&w.rng) * n);
}

static double score(void *context, int64_t age_ns, uint32_t depth, uint32_t reuse)
{
    (void)context;
    switch (w.law) {
    case 0:
        return -(double)age_ns;
    case 1:
        return (double)age_ns;
    case 2:
        return (double)depth;
    case 3:
        return (double)reuse - 0.1 * depth;
    case 4:
        return 1.0;
    default:
        return (double)(aisim_mix64((uint64_t)age_ns * 31 + depth * 7 + reuse) % 13);
    }
}

/* Run of block `index` on the path that ends in `leaf`. */
static uint32_t run_of(uint32_t leaf, uint32_t index)
{
    uint32_t run = leaf;
    while (aisim_content_start(w.content, run) / BLOCK > index) {
        run = aisim_content_parent(w.content, run);
    }
    return run;
}

static block *find(uint32_t run, uint32_t index)
{
    for (uint32_t i = 0; i < w.n; i++) {
        if (w.blocks[i].run == run && w.blocks[i].index == index) {
            return &w.blocks[i];
        }
    }
    return NULL;
}

/* An unused cached block continues b. */
static bool continued(const block *b)
{
    for (uint32_t i = 0; i < w.n; i++) {
        const block *c = &w.blocks[i];
        if (c->refs == 0 && c->index == b->index + 1 && run_of(c->run, b->index) == b->run) {
            return true;
        }
    }
    return false;
}

static uint32_t next_victim(void)
{
    uint32_t best = UINT32_MAX;
    double lowest = 0.0;
    for (uint32_t i = 0; i < w.n; i++) {
        const block *b = &w.blocks[i];
        if (b->refs > 0 || continued(b)) {
            continue;
        }
        double s = score(NULL, w.clock_ns - b->since_ns, b->index, b->reuse);
        if (best == UINT32_MAX || s < lowest ||
            (s == lowest && b->released < w.blocks[best].released)) {
            best = i;
            lowest = s;
        }
    }
    return best;
}

/* ---- both sides ------------------------------------------------------------------------------ */

static void made(void *context, uint32_t run, uint32_t first, uint32_t count, bool first_copy)
{
    (void)context;
    CHECK(first_copy);
    for (uint32_t i = first; i < first + count; i++) {
        w.blocks[w.n++] = (block){.run = run, .index = i, .refs = 1};
    }
}

static void gone(void *context, uint32_t run, uint32_t first, uint32_t count, aisim_gone how,
                 uint32_t age)
{
    (void)context, (void)age;
    CHECK(how == AISIM_GONE_LAST);
    for (uint32_t i = first + count; i-- > first;) {
        w.gone_run[w.n_gone] = run;
        w.gone_index[w.n_gone++] = i;
    }
}

/* Part of [from, end) that belongs to the run of block `from`. */
static uint32_t stretch(uint32_t leaf, uint32_t from, uint32_t end)
{
    uint32_t run = run_of(leaf, from), upto = from;
    while (upto < end && run_of(leaf, upto) == run) {
        upto++;
    }
    return upto;
}

static bool in_use(uint32_t leaf, uint32_t from, uint32_t end)
{
    for (uint32_t i = from; i < end; i++) {
        if (find(run_of(leaf, i), i) != NULL) {
            return true; /* somebody computes it: it would become a copy */
        }
    }
    return false;
}

static void begin(lease *l)
{
    uint32_t i = draw(w.n_runs), hit = 0, at;
    l->leaf = w.leaves[i];
    l->blocks = 1 + draw(w.ends[i] / BLOCK);
    while (hit < l->blocks && find(run_of(l->leaf, hit), hit) != NULL) {
        hit++;
    }
    if (in_use(l->leaf, hit, l->blocks)) {
        return;
    }
    for (at = 0; at < hit; at = stretch(l->leaf, at, hit)) {
        aisim_extents_hold(&w.extents, run_of(l->leaf, at), at, stretch(l->leaf, at, hit));
    }
    for (at = 0; at < hit; at++) {
        find(run_of(l->leaf, at), at)->refs++;
        find(run_of(l->leaf, at), at)->reuse++;
    }
    for (at = hit; at < l->blocks; at = stretch(l->leaf, at, l->blocks)) {
        aisim_extents_publish(&w.extents, run_of(l->leaf, at), at, stretch(l->leaf, at, l->blocks),
                              0, made, NULL);
    }
    l->used = true;
}

static void end(lease *l)
{
    uint32_t upto = l->blocks;
    while (upto > 0) { /* deepest run first, E-B4 */
        uint32_t run = run_of(l->leaf, upto - 1);
        uint32_t first = aisim_content_start(w.content, run) / BLOCK;
        aisim_extents_release(&w.extents, run, first, upto, 0);
        for (uint32_t i = upto; i-- > first;) {
            block *b = find(run, i);
            if (--b->refs == 0) {
                b->since_ns = w.clock_ns;
                b->released = ++w.releases;
            }
        }
        upto = first;
    }
    l->used = false;
}

static void evict(uint32_t n)
{
    w.n_gone = 0;
    aisim_extents_evict_scored(&w.extents, n, gone, NULL);
    CHECK_EQ(w.n_gone, n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = next_victim();
        bool same = i != UINT32_MAX && w.blocks[i].run == w.gone_run[k] &&
                    w.blocks[i].index == w.gone_index[k];
        CHECK(same);
        if (!same) {
            return;
        }
        w.blocks[i] = w.blocks[--w.n];
    }
}

static void make_tree(void)
{
    w.n_runs = 0;
    while (w.n_runs < RUNS) {
        aisim_node at = AISIM_ROOT;
        if (w.n_runs > 0) {
            uint32_t p = draw(w.n_runs);
            at.run = w.leaves[p];
            uint32_t start = aisim_content_start(w.content, at.run);
            at.tokens = start + draw(w.ends[p] - start) + 1;
        }
        aisim_node leaf = aisim_content_branch(w.content, at, 1 + draw(DEPTH));
        w.leaves[w.n_runs] = leaf.run;
        w.ends[w.n_runs++] = leaf.tokens;
    }
}

static void compare(uint64_t seed, uint32_t law)
{
    memset(&w, 0, sizeof w);
    w.law = law;
    w.rng = aisim_rng_named(seed, "extents");
    w.content = aisim_content_new();
    aisim_extents_init(&w.extents, w.content);
    aisim_extents_score(&w.extents, BLOCK, score, NULL, &w.clock_ns);
    make_tree();
    int failed = check_failed;
    for (uint32_t step = 0; step < 300 && check_failed == failed; step++) {
        lease *l = &w.leases[draw(LEASES)];
        w.clock_ns += draw(3);
        if (l->used) {
            end(l);
        } else if (w.n + DEPTH * 8 < MAX_BLOCKS) {
            begin(l);
        }
        if (draw(3) == 0 && w.extents.inactive > 0) {
            evict(1 + draw((uint32_t)w.extents.inactive));
        }
        aisim_extents_verify(&w.extents);
    }
    for (uint32_t i = 0; i < LEASES; i++) {
        if (w.leases[i].used) {
            end(&w.leases[i]);
        }
    }
    if (check_failed == failed) {
        evict((uint32_t)w.extents.inactive); /* nothing is out of reach */
    }
    CHECK_EQ(w.extents.inactive, 0);
    aisim_extents_deinit(&w.extents);
    aisim_content_free(w.content);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        for (uint32_t law = 0; law < 6; law++) {
            compare(seed, law);
        }
    }
    return check_done();
}
