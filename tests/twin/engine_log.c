/* engine_log.c - the engine double: what the pool has logged, in names of blocks. */
#include "base/check.h"
#include "engine_internal.h"
#include "sched/plan.h"

/* ---- names of blocks ----------------------------------------------------------------------------
 */

uint32_t engine_identity_of(twin *t, uint32_t run, uint32_t block, uint32_t publisher)
{
    uint32_t at = aisim_map_get(&t->publishers, run, block);
    if (at == AISIM_NONE) {
        at = t->names_ever.len;
        aisim_array_push(&t->names_ever, (twin_name){publisher, block});
        aisim_array_push(&t->copies, (engine_copies){0});
        aisim_map_set(&t->publishers, run, block, at);
    }
    return at;
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

/* A copy went: @return who had published it. */
static uint32_t remove_copy(twin *t, uint32_t identity, uint32_t age)
{
    engine_copies *copies = &t->copies.data[identity];
    AISIM_CHECK(age < copies->by.len);
    uint32_t by = copies->by.data[age];
    aisim_array_remove(&copies->by, age);
    return by;
}

static void begin_event(twin *t, const aisim_kv_log_entry *e, bool stored)
{
    twin_event made = {.stored = stored, .first = t->names.len};
    if (stored && e->first > 0) {
        made.has_parent = true;
        uint32_t parent = run_before(t, e->run, e->first);
        uint32_t identity =
            engine_identity_of(t, parent, e->first - 1, TWIN_NONE); /* may move the names */
        made.parent = t->names_ever.data[identity];
    }
    aisim_array_push(&t->events, made);
}

static void read_block(twin *t, const aisim_kv_log_entry *e, uint32_t block, uint32_t publisher)
{
    if (e->kind == AISIM_KV_PAGED) {
        aisim_map_set(&t->pages, e->age, 0, publisher);
        return;
    }
    if (e->kind == AISIM_KV_EVICTED && e->how == AISIM_GONE_OTHER) {
        bool page = e->age != AISIM_NONE; /* its extent; a state has no name */
        uint32_t by = page ? aisim_map_get(&t->pages, e->age, 0) : TWIN_NONE;
        aisim_array_push(&t->evicted, (twin_name){by, page ? e->first : TWIN_NONE});
        return;
    }
    uint32_t identity = engine_identity_of(t, e->run, block, publisher);
    if (e->kind == AISIM_KV_STORED || e->kind == AISIM_KV_COPIED) {
        aisim_array_push(&t->copies.data[identity].by, publisher);
    } else {
        uint32_t by = remove_copy(t, identity, e->age);
        if (e->kind == AISIM_KV_EVICTED) {
            aisim_array_push(&t->evicted, (twin_name){by, block});
        }
    }
    if (e->kind == AISIM_KV_STORED || (e->kind == AISIM_KV_EVICTED && e->how == AISIM_GONE_LAST)) {
        aisim_array_push(&t->names, t->names_ever.data[identity]);
        t->events.data[t->events.len - 1].len++;
    }
}

/* Reads what the pool has logged since the last time. */
void engine_read_log(twin *t)
{
    aisim_block_pool *pool = &t->rank.pool;
    uint32_t event = AISIM_NONE;
    for (uint32_t i = 0; i < pool->log.len; i++) {
        const aisim_kv_log_entry *e = &pool->log.data[i];
        bool stored = e->kind == AISIM_KV_STORED;
        bool told = stored || e->kind == AISIM_KV_EVICTED;
        uint32_t publisher = TWIN_NONE;
        if (e->owner != AISIM_NONE) {
            const aisim_request *r = aisim_requests_at(&t->engine.requests, e->owner);
            publisher = t->rows.data[serial_of(t, r)].view.id;
        }
        if (told && e->event != event) {
            begin_event(t, e, stored);
            event = e->event;
        }
        for (uint32_t j = 0; j < e->count; j++) {
            bool up = stored || e->kind == AISIM_KV_COPIED || e->kind == AISIM_KV_PAGED;
            read_block(t, e, up ? e->first + j : e->first + e->count - 1 - j, publisher);
        }
        bool last = i + 1 == pool->log.len || pool->log.data[i + 1].event != event;
        if (told && last && t->events.data[t->events.len - 1].len == 0) {
            t->events.len--; /* only further copies went: nobody hears of it */
        }
    }
    pool->log.len = 0;
}

/* ---- ends of requests, hand-off
 * ------------------------------------------------------------------
 */
