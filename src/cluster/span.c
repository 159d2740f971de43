/* span.c - spans of blocks; a change rebuilds the list of one run. */
#include "cluster/span.h"

#include "base/check.h"

void aisim_span_set_deinit(aisim_span_set *set)
{
    aisim_span_clear(set);
    for (uint32_t i = 0; i < set->lists.len; i++) {
        aisim_array_free(&set->lists.data[i]);
    }
    aisim_array_free(&set->lists);
    aisim_array_free(&set->runs);
    aisim_array_free(&set->unused);
    aisim_array_free(&set->scratch);
    aisim_map_free(&set->index);
}

static aisim_span_list *list_of(const aisim_span_set *set, uint64_t run)
{
    uint32_t i = aisim_map_get(&set->index, run, 0);
    return i == AISIM_NONE ? NULL : &set->lists.data[i];
}

static aisim_span_list *list_for(aisim_span_set *set, uint64_t run)
{
    aisim_span_list *list = list_of(set, run);
    if (list != NULL) {
        return list;
    }
    uint32_t i = set->lists.len;
    if (set->unused.len > 0) {
        i = set->unused.data[--set->unused.len];
    } else {
        aisim_span_list empty = {0};
        aisim_array_push(&set->lists, empty);
        aisim_array_push(&set->runs, 0);
    }
    set->runs.data[i] = run;
    aisim_map_set(&set->index, run, 0, i);
    if (set->hold != NULL) {
        set->hold(set->context, run, true);
    }
    return &set->lists.data[i];
}

static void drop_list(aisim_span_set *set, uint64_t run)
{
    uint32_t i = aisim_map_remove(&set->index, run, 0);
    set->lists.data[i].len = 0;
    aisim_array_push(&set->unused, i);
    if (set->hold != NULL) {
        set->hold(set->context, run, false);
    }
}

/* Appends to the list that is being built. */
static void append(aisim_span_set *set, uint32_t first, uint32_t end, int64_t value)
{
    if (first >= end || value == 0) {
        return;
    }
    set->blocks += end - first;
    aisim_span *last =
        set->scratch.len > 0 ? &set->scratch.data[set->scratch.len - 1] : (aisim_span *)0;
    if (last != NULL && last->value == value && last->first + last->count == first) {
        last->count += end - first;
        return;
    }
    aisim_span span = {first, end - first, value};
    aisim_array_push(&set->scratch, span);
}

static int64_t changed(int64_t old, aisim_span_op op, int64_t value)
{
    switch (op) {
    case AISIM_SPAN_ADD:
        AISIM_CHECK(old + value >= 0);
        return old + value;
    case AISIM_SPAN_RAISE:
        return old > value ? old : value;
    case AISIM_SPAN_SET:
        break;
    }
    return value;
}

/* Blocks that had no value. */
static void append_gap(aisim_span_set *set, uint32_t first, uint32_t end, aisim_span_op op,
                       int64_t value)
{
    if (first < end) {
        append(set, first, end, changed(0, op, value));
    }
}

static void finish(aisim_span_set *set, uint64_t run, aisim_span_list *list)
{
    aisim_span_list old = *list;
    *list = set->scratch;
    set->scratch = old;
    if (list->len == 0) {
        drop_list(set, run);
    }
}

void aisim_span_apply(aisim_span_set *set, aisim_route_extent where, aisim_span_op op,
                      int64_t value)
{
    if (where.count == 0 ||
        (op == AISIM_SPAN_SET && value == 0 && list_of(set, where.run) == NULL)) {
        return; /* a run that is not in the set may be gone: nothing to hold */
    }
    uint32_t at = where.first;
    uint32_t end = where.first + where.count;
    aisim_span_list *list = list_for(set, where.run);
    set->scratch.len = 0;
    for (uint32_t i = 0; i < list->len; i++) {
        aisim_span s = list->data[i];
        uint32_t s_end = s.first + s.count;
        set->blocks -= s.count;
        append(set, s.first, s_end < where.first ? s_end : where.first, s.value);
        if (s.first < end && s_end > where.first) { /* they meet: the gap before, then the common */
            uint32_t from = s.first > at ? s.first : at;
            uint32_t to = s_end < end ? s_end : end;
            append_gap(set, at, from, op, value);
            append(set, from, to, changed(s.value, op, value));
            at = to;
        }
        if (s.first >= end && at < end) {
            append_gap(set, at, end, op, value);
            at = end;
        }
        append(set, s.first > end ? s.first : end, s_end, s.value);
    }
    append_gap(set, at, end, op, value);
    finish(set, where.run, list);
}

void aisim_span_expire(aisim_span_set *set, uint64_t run, int64_t value)
{
    aisim_span_list *list = list_of(set, run);
    if (list == NULL) {
        return;
    }
    set->scratch.len = 0;
    for (uint32_t i = 0; i < list->len; i++) {
        aisim_span s = list->data[i];
        set->blocks -= s.count;
        append(set, s.first, s.first + s.count, s.value > value ? s.value : 0);
    }
    finish(set, run, list);
}

void aisim_span_clear(aisim_span_set *set)
{
    for (uint32_t i = 0; i < set->lists.len; i++) {
        if (set->lists.data[i].len > 0) {
            drop_list(set, set->runs.data[i]);
        }
    }
    aisim_map_free(&set->index);
    set->blocks = 0;
}

uint32_t aisim_span_walk(const aisim_span_set *set, const aisim_route_extent *path, uint32_t n,
                         uint32_t from, int64_t above)
{
    uint32_t seen = 0; /* blocks of the path before extent i */
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; seen += path[i++].count) {
        if (seen + path[i].count <= from) {
            continue;
        }
        uint32_t at = path[i].first + (from > seen ? from - seen : 0);
        uint32_t end = path[i].first + path[i].count;
        const aisim_span_list *list = list_of(set, path[i].run);
        for (uint32_t j = 0; list != NULL && j < list->len && at < end; j++) {
            aisim_span s = list->data[j];
            uint32_t s_end = s.first + s.count < end ? s.first + s.count : end;
            if (s_end <= at) {
                continue;
            }
            if (s.first > at || s.value <= above) {
                break;
            }
            found += s_end - at;
            at = s_end;
        }
        if (at < end) {
            break;
        }
    }
    return found;
}

uint64_t aisim_span_covered(const aisim_span_set *set, const aisim_route_extent *path, uint32_t n)
{
    uint64_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t end = path[i].first + path[i].count;
        const aisim_span_list *list = list_of(set, path[i].run);
        for (uint32_t j = 0; list != NULL && j < list->len; j++) {
            aisim_span s = list->data[j];
            uint32_t from = s.first > path[i].first ? s.first : path[i].first;
            uint32_t to = s.first + s.count < end ? s.first + s.count : end;
            found += to > from ? to - from : 0;
        }
    }
    return found;
}
