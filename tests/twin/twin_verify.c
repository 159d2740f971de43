/* twin_verify.c - the expensive invariants of §17, by counting. */
#include "base/check.h"
#include "twin_host.h"

static void count(uint32_t *refs, const twin_ids *blocks)
{
    for (uint32_t i = 0; i < blocks->len; i++) {
        refs[blocks->data[i]]++;
    }
}

static bool contains(const twin_ids *list, uint32_t value)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->len; i++) {
        n += list->data[i] == value;
    }
    AISIM_CHECK(n <= 1);
    return n == 1;
}

static void verify_request(const twin *t, const twin_request *r)
{
    bool running = contains(&t->running, r->serial);
    bool waiting = contains(&t->waiting, r->serial);
    AISIM_CHECK(running == (r->status == TWIN_RUNNING)); /* I5 */
    bool queued =
        (r->status == TWIN_WAITING && !r->blocked && !r->connected) || r->status == TWIN_PREEMPTED;
    AISIM_CHECK(waiting == (queued && !r->aside));
    AISIM_CHECK(!r->aside || contains(&t->skipped, r->serial));
    bool lets_go = (r->status == TWIN_FINISHED && !r->kept) ||
                   (r->status == TWIN_PREEMPTED && !r->loaded) || r->status == TWIN_PENDING;
    if (lets_go) {
        AISIM_CHECK(r->blocks.len == 0 && r->watermark == 0);
        AISIM_CHECK(r->working.len + r->previous.len + r->copies.len == 0);
        return;
    }
    AISIM_CHECK(r->watermark <= r->tokens.len); /* I2 */
    AISIM_CHECK(r->blocks.len >= twin_ceil(r->watermark, t->b));
    if (!running) {
        return;
    }
    if (!t->native && t->config.scheduler.overlap != AISIM_OVERLAP_ASYNC) {
        AISIM_CHECK(r->computed <= r->watermark && r->computed <= r->tokens.len);
        bool reserved = t->burst && t->batches.len > 0;
        AISIM_CHECK(reserved || r->blocks.len == twin_ceil(r->watermark, t->b)); /* I11 */
    }
    if (t->stateful) { /* I21 */
        AISIM_CHECK(r->working.len == t->k && r->previous.len <= t->k);
        AISIM_CHECK(r->copies.len <= t->k + 1);
    }
    AISIM_CHECK(!t->caching || r->published <= r->blocks.len); /* I16 */
}

static void verify_index(const twin *t)
{
    for (uint32_t i = 0; i < t->nodes.len; i++) {
        const twin_node *node = &t->nodes.data[i];
        for (uint32_t j = 0; j < node->copies.len; j++) { /* I13 */
            const twin_block *block = &t->blocks[node->copies.data[j]];
            AISIM_CHECK(block->node == i || block->alias == i);
        }
        /* A page matched in part goes back after its ancestors (E-S14), so with a match unit the
         * closure can break; what is left behind is never found and ages out. */
        bool page = node->copies.len > 0 && node->n == t->b &&
                    (t->config.kv.prefix_match_unit == 0 || t->config.kv.prefix_match_unit == t->b);
        /* A deep block that is held by a copy may outlive its ancestors (offload.md §5.1). */
        page = page && t->config.host.scope != AISIM_HOST_CLUSTER_SHARED;
        if (page && t->nodes.data[node->parent].parent != TWIN_NONE) { /* I20 */
            AISIM_CHECK(t->nodes.data[node->parent].copies.len > 0);
        }
        for (uint32_t j = 0; j < node->checkpoints.len; j++) { /* I17 */
            const twin_checkpoint *at = &t->checkpoints.data[node->checkpoints.data[j]];
            AISIM_CHECK(at->complete && at->node == i && at->blocks.len == t->k);
        }
    }
}

void twin_verify(const twin *t)
{
    uint32_t *refs = aisim_alloc_zero(t->n_blocks, sizeof *refs);
    for (uint32_t i = 0; i < t->requests.len; i++) {
        const twin_request *r = t->requests.data[i];
        verify_request(t, r);
        count(refs, &r->blocks);
        count(refs, &r->working);
        count(refs, &r->previous);
        count(refs, &r->copies);
    }
    if (t->host != NULL) {
        twin_host_verify(t, refs);
    }
    uint32_t queued = 0;
    uint32_t keyed = 0;
    for (uint32_t i = 0; i < t->n_blocks; i++) {
        AISIM_CHECK(refs[i] == t->blocks[i].refs); /* I14 */
        AISIM_CHECK(t->blocks[i].queued == (refs[i] == 0));
        queued += t->blocks[i].queued;
        keyed += t->blocks[i].queued && twin_block_keyed(&t->blocks[i]);
    }
    aisim_free(refs);
    AISIM_CHECK(queued == t->queue_len && keyed == t->keyed_len); /* I1 */
    uint32_t walked = 0;
    uint32_t last = TWIN_NONE;
    for (uint32_t i = t->head; i != TWIN_NONE; i = t->blocks[i].next) { /* I12 */
        AISIM_CHECK(t->blocks[i].queued && t->blocks[i].prev == last);
        last = i;
        walked++;
    }
    AISIM_CHECK(walked == queued && last == t->tail);
    AISIM_CHECK(t->running.len <= t->config.scheduler.max_sequences); /* I3 */
    verify_index(t);
}
