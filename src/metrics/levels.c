/* levels.c - a log that is folded into gauges. */
#include "metrics/levels.h"

#include <stdlib.h>

static void init_gauges(aisim_level_gauges *gauges)
{
    *gauges = (aisim_level_gauges){0};
    aisim_gauge_init(&gauges->usage);
    aisim_gauge_init(&gauges->share);
}

static void clear_gauges(aisim_level_gauges *gauges)
{
    aisim_gauge_clear(&gauges->usage);
    aisim_gauge_clear(&gauges->share);
}

static void begin_gauges(aisim_level_gauges *gauges, int64_t t_ns)
{
    aisim_gauge_begin(&gauges->usage, t_ns);
    aisim_gauge_begin(&gauges->share, t_ns);
}

static void end_gauges(aisim_level_gauges *gauges, int64_t t_ns)
{
    aisim_gauge_end(&gauges->usage, t_ns);
    aisim_gauge_end(&gauges->share, t_ns);
}

/* Counting by parts is faster and gives the same figures, but takes room for every block: not for
 * the ranks of a large cluster. */
enum { RANKS_BY_PARTS = 64 };

static void set_gauges(aisim_level_gauges *gauges, int64_t t_ns, bool by_parts)
{
    uint64_t total = gauges->total > 0 ? gauges->total : 1;
    if (!by_parts) {
        aisim_gauge_set(&gauges->usage, t_ns, (double)gauges->used / (double)total);
        aisim_gauge_set(&gauges->share, t_ns, (double)gauges->cached / (double)total);
        return;
    }
    aisim_gauge_set_share(&gauges->usage, t_ns, gauges->used, total);
    aisim_gauge_set_share(&gauges->share, t_ns, gauges->cached, total);
}

/* Until there is a second rank, the sum is the first one. */
static void copy_gauges(aisim_level_gauges *to, aisim_level_gauges *from)
{
    aisim_gauge_copy(&to->usage, &from->usage);
    aisim_gauge_copy(&to->share, &from->share);
}

aisim_level_gauges *aisim_levels_sum(aisim_levels *levels)
{
    return levels->ranks.len == 1 ? &levels->ranks.data[0] : &levels->sum;
}

void aisim_levels_init(aisim_levels *levels)
{
    *levels = (aisim_levels){0};
    init_gauges(&levels->sum);
}

void aisim_levels_free(aisim_levels *levels)
{
    for (uint32_t i = 0; i < levels->ranks.len; i++) {
        clear_gauges(&levels->ranks.data[i]);
    }
    clear_gauges(&levels->sum);
    aisim_array_free(&levels->ranks);
    aisim_array_free(&levels->log);
}

bool aisim_levels_set(aisim_levels *levels, int64_t t_ns, uint32_t rank, uint64_t used,
                      uint64_t cached, uint64_t total)
{
    while (levels->ranks.len <= rank) {
        aisim_level_gauges gauges;
        init_gauges(&gauges);
        aisim_array_push(&levels->ranks, gauges);
        if (levels->ranks.len == 2) {
            copy_gauges(&levels->sum, &levels->ranks.data[0]);
        }
    }
    aisim_level_gauges *last = &levels->ranks.data[rank];
    if (last->last_used == used && last->last_cached == cached && last->last_total == total) {
        return false; /* holds on */
    }
    last->last_used = used;
    last->last_cached = cached;
    last->last_total = total;
    aisim_level level = {t_ns, used, cached, total, rank, levels->log.len};
    aisim_array_push(&levels->log, level);
    return true;
}

/* ---- folding --------------------------------------------------------------------------------- */

static int by_time(const void *left, const void *right)
{
    const aisim_level *a = left, *b = right;
    if (a->t_ns != b->t_ns) {
        return a->t_ns < b->t_ns ? -1 : 1;
    }
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static void sort_log(aisim_levels *levels)
{
    for (uint32_t i = 1; i < levels->log.len; i++) {
        if (levels->log.data[i - 1].t_ns > levels->log.data[i].t_ns) {
            qsort(levels->log.data, levels->log.len, sizeof *levels->log.data, by_time);
            return;
        }
    }
}

static void apply(aisim_levels *levels, const aisim_level *level)
{
    aisim_level_gauges *rank = &levels->ranks.data[level->rank];
    aisim_level_gauges *sum = &levels->sum;
    sum->used = sum->used - rank->used + level->used;
    sum->cached = sum->cached - rank->cached + level->cached;
    sum->total = sum->total - rank->total + level->total;
    rank->used = level->used;
    rank->cached = level->cached;
    rank->total = level->total;
    set_gauges(rank, level->t_ns, level->rank < RANKS_BY_PARTS);
    if (levels->ranks.len > 1) {
        set_gauges(sum, level->t_ns, true);
    }
}

static void begin_all(aisim_levels *levels, int64_t t_ns)
{
    levels->begun = true;
    begin_gauges(&levels->sum, t_ns);
    for (uint32_t i = 0; i < levels->ranks.len; i++) {
        begin_gauges(&levels->ranks.data[i], t_ns);
    }
}

/* Removes the first n entries of the log. */
static void drop(aisim_levels *levels, uint32_t n)
{
    levels->log.len -= n;
    for (uint32_t i = 0; i < levels->log.len; i++) {
        levels->log.data[i] = levels->log.data[i + n];
        levels->log.data[i].sequence = i;
    }
}

void aisim_levels_forget(aisim_levels *levels)
{
    sort_log(levels);
    for (uint32_t i = 0; i < levels->log.len; i++) {
        apply(levels, &levels->log.data[i]);
    }
    levels->log.len = 0;
    levels->begun = false;
    int64_t t_ns = INT64_MIN;
    for (uint32_t i = 0; i < levels->ranks.len; i++) {
        begin_gauges(&levels->ranks.data[i], t_ns);
    }
    begin_gauges(&levels->sum, t_ns);
}

void aisim_levels_fold(aisim_levels *levels, int64_t from_ns, int64_t to_ns)
{
    uint32_t n = 0;
    sort_log(levels);
    while (n < levels->log.len && levels->log.data[n].t_ns < to_ns) {
        if (!levels->begun && levels->log.data[n].t_ns > from_ns) {
            begin_all(levels, from_ns);
        }
        apply(levels, &levels->log.data[n++]);
    }
    drop(levels, n);
}

static void end_all(aisim_levels *levels, int64_t to_ns)
{
    end_gauges(&levels->sum, to_ns);
    for (uint32_t i = 0; i < levels->ranks.len; i++) {
        end_gauges(&levels->ranks.data[i], to_ns);
    }
}

void aisim_levels_peek(aisim_levels *levels, int64_t to_ns)
{
    if (levels->begun) {
        end_all(levels, to_ns);
    }
}

void aisim_levels_finish(aisim_levels *levels, int64_t from_ns, int64_t to_ns)
{
    aisim_levels_fold(levels, from_ns, to_ns);
    if (!levels->begun) {
        begin_all(levels, from_ns);
    }
    end_all(levels, to_ns);
    levels->log.len = 0;
}
