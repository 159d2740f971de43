/* test_route_span.c - blocks in spans against one value per block (routing 1: books and views). */
#include "base/rng.h"
#include "check.h"
#include "cluster/span.h"

enum { RUNS = 4, BLOCKS = 48, OPERATIONS = 20000 };

typedef struct naive {
    int64_t value[RUNS][BLOCKS];
    int held[RUNS];
} naive;

static void on_hold(void *context, uint64_t run, bool held)
{
    naive *n = context;
    n->held[run] += held ? 1 : -1;
}

static uint32_t below(aisim_rng *rng, uint32_t n)
{
    return (uint32_t)aisim_rng_below(rng, n);
}

/* A path: an extent of each of the first runs, from block 0 of the path on. */
static uint32_t make_path(aisim_rng *rng, aisim_route_extent path[RUNS])
{
    uint32_t n = below(rng, RUNS + 1);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        path[i] = (aisim_route_extent){i, at, 1 + below(rng, BLOCKS / RUNS)};
        at += path[i].count;
    }
    return n;
}

static void check_path(const naive *n, const aisim_span_set *set, aisim_rng *rng, int *wrong)
{
    aisim_route_extent path[RUNS];
    uint32_t extents = make_path(rng, path);
    uint32_t from = below(rng, BLOCKS / 2);
    int64_t above = below(rng, 3);
    uint32_t place = 0, walked = 0, covered = 0;
    bool gap = false;
    for (uint32_t i = 0; i < extents; i++) {
        for (uint32_t j = 0; j < path[i].count; j++, place++) {
            int64_t value = n->value[path[i].run][path[i].first + j];
            covered += value != 0;
            gap = gap || (place >= from && value <= above);
            walked += place >= from && !gap;
        }
    }
    *wrong += aisim_span_walk(set, path, extents, from, above) != walked;
    *wrong += aisim_span_covered(set, path, extents) != covered;
}

static void change(naive *n, aisim_span_set *set, aisim_rng *rng)
{
    uint32_t run = below(rng, RUNS), first = below(rng, BLOCKS);
    uint32_t count = below(rng, BLOCKS - first + 1);
    aisim_span_op op = (aisim_span_op)below(rng, 3);
    int64_t value = below(rng, 4);
    if (op == AISIM_SPAN_ADD && below(rng, 2) == 0) { /* only what is there can be taken away */
        value = -1;
        for (uint32_t i = 0; i < count; i++) {
            count = n->value[run][first + i] == 0 ? i : count;
        }
    }
    for (uint32_t i = first; i < first + count; i++) {
        int64_t *v = &n->value[run][i];
        *v = op == AISIM_SPAN_SET   ? value
             : op == AISIM_SPAN_ADD ? *v + value
             : value > *v           ? value
                                    : *v;
    }
    aisim_span_apply(set, (aisim_route_extent){run, first, count}, op, value);
    if (below(rng, 40) == 0) {
        int64_t gone = below(rng, 4);
        for (uint32_t i = 0; i < BLOCKS; i++) {
            n->value[run][i] = n->value[run][i] <= gone ? 0 : n->value[run][i];
        }
        aisim_span_expire(set, run, gone);
    }
}

static void agrees_block_by_block(uint64_t seed)
{
    aisim_rng rng = aisim_rng_named(seed, "spans");
    naive n = {0};
    aisim_span_set set = {.context = &n, .hold = on_hold};
    int wrong = 0;
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        change(&n, &set, &rng);
        check_path(&n, &set, &rng, &wrong);
        uint64_t blocks = 0;
        for (uint32_t run = 0; run < RUNS; run++) {
            bool some = false;
            for (uint32_t j = 0; j < BLOCKS; j++) {
                blocks += n.value[run][j] != 0;
                some = some || n.value[run][j] != 0;
            }
            wrong += n.held[run] != some; /* a run is held while it has blocks */
        }
        wrong += set.blocks != blocks;
    }
    CHECK_EQ(wrong, 0);
    aisim_span_clear(&set);
    CHECK_EQ(set.blocks, 0);
    for (uint32_t run = 0; run < RUNS; run++) {
        CHECK_EQ(n.held[run], 0);
    }
    aisim_span_set_deinit(&set);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        agrees_block_by_block(seed);
    }
    return check_done();
}
