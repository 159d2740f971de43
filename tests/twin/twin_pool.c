/* twin_pool.c - the blocks (§7), one by one.
 *
 * A block without references stands in the queue, whose head is the next to be handed out. A block
 * that carries an identity (of a page, of the beginning of a page, or as a part of a checkpoint)
 * is inactive there, one that carries none is free. Free ones enter at the front, so they are used
 * up first (R8 front); with R8 back they wait their turn behind the inactive ones.
 * Invariants: queued == (refs == 0); keyed_len = queued blocks with an identity. */
#include "base/check.h"
#include "twin_host.h"

bool twin_block_keyed(const twin_block *block)
{
    return block->node != TWIN_NONE || block->alias != TWIN_NONE || block->checkpoint != TWIN_NONE;
}

static void queue_insert(twin *t, uint32_t at, bool front)
{
    twin_block *block = &t->blocks[at];
    block->queued = true;
    block->prev = front ? TWIN_NONE : t->tail;
    block->next = front ? t->head : TWIN_NONE;
    if (block->prev != TWIN_NONE) {
        t->blocks[block->prev].next = at;
    } else {
        t->head = at;
    }
    if (block->next != TWIN_NONE) {
        t->blocks[block->next].prev = at;
    } else {
        t->tail = at;
    }
    t->queue_len++;
    t->keyed_len += twin_block_keyed(block);
}

static void queue_remove(twin *t, uint32_t at)
{
    twin_block *block = &t->blocks[at];
    AISIM_CHECK(block->queued);
    if (block->prev != TWIN_NONE) {
        t->blocks[block->prev].next = block->next;
    } else {
        t->head = block->next;
    }
    if (block->next != TWIN_NONE) {
        t->blocks[block->next].prev = block->prev;
    } else {
        t->tail = block->prev;
    }
    block->queued = false;
    t->queue_len--;
    t->keyed_len -= twin_block_keyed(block);
}

void twin_pool_init(twin *t)
{
    t->head = t->tail = TWIN_NONE;
    t->blocks = aisim_alloc_zero(t->n_blocks, sizeof *t->blocks);
    for (uint32_t i = 0; i < t->n_blocks; i++) {
        t->blocks[i].node = t->blocks[i].alias = t->blocks[i].checkpoint = TWIN_NONE;
        queue_insert(t, i, false);
    }
}

void twin_pool_free(twin *t)
{
    for (uint32_t i = 0; i < t->checkpoints.len; i++) {
        aisim_array_free(&t->checkpoints.data[i].blocks);
    }
    aisim_array_free(&t->checkpoints);
    aisim_free(t->blocks);
}

/* E-B5: a hit takes the block out of the middle; the others keep their order. */
void twin_ref(twin *t, uint32_t block)
{
    if (t->blocks[block].refs++ == 0) {
        queue_remove(t, block);
    }
}

/* E-B3 */
void twin_unref(twin *t, uint32_t block)
{
    twin_block *at = &t->blocks[block];
    AISIM_CHECK(at->refs > 0);
    if (--at->refs == 0) {
        /* R8; with caching off nothing has an identity and the order is that of release */
        queue_insert(t, block,
                     t->caching && !twin_block_keyed(at) &&
                         t->config.kv.unkeyed_release == AISIM_UNKEYED_FRONT);
    }
}

/* E-B4: from the last to the first. */
void twin_unref_all(twin *t, twin_ids *blocks)
{
    while (blocks->len > 0) {
        twin_unref(t, blocks->data[--blocks->len]);
    }
}

/* How many distinct blocks of the list stand in the queue. */
uint32_t twin_queued(const twin *t, const twin_ids *blocks)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < blocks->len; i++) {
        n += t->blocks[blocks->data[i]].queued;
    }
    return n;
}

/* E-B2, E-B7: the caller has checked that it is possible. */
void twin_acquire(twin *t, uint32_t n, twin_ids *out)
{
    AISIM_CHECK(n <= t->queue_len);
    t->acquisition++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = t->head;
        twin_block *block = &t->blocks[at];
        queue_remove(t, at);
        if (t->host != NULL) {
            twin_connector_handed_on(t, at);
        }
        if (twin_block_keyed(block)) {
            twin_name name = {TWIN_NONE, TWIN_NONE};
            if (block->node != TWIN_NONE || block->alias != TWIN_NONE) {
                name = block->name;
            }
            aisim_array_push(&t->evicted, name);
            twin_index_remove(t, at);
        }
        block->refs = 1;
        aisim_array_push(out, at);
    }
}

void twin_ids_remove(twin_ids *list, uint32_t value)
{
    for (uint32_t i = 0; i < list->len; i++) {
        if (list->data[i] == value) {
            aisim_array_remove(list, i);
            return;
        }
    }
}

/* A publication that was taken back was never announced (E-V3, E-H7). */
static void forget_stored(twin *t, uint32_t node)
{
    for (uint32_t i = t->flat.len; i-- > 0;) {
        if (t->flat.data[i].stored && t->flat.data[i].node == node) {
            aisim_array_remove(&t->flat, i);
            return;
        }
    }
}

/* @return whether the identity became visible (first copy). */
bool twin_index_add(twin *t, uint32_t block, uint32_t node, bool alias, twin_name by)
{
    bool first = t->nodes.data[node].copies.len == 0;
    t->blocks[block].name = by;
    if (!t->nodes.data[node].named) {
        t->nodes.data[node].named = true;
        t->nodes.data[node].name = by;
    }
    aisim_array_push(&t->nodes.data[node].copies, block);
    *(alias ? &t->blocks[block].alias : &t->blocks[block].node) = node;
    t->totals.duplicates += !first && !alias;
    if (first && !alias) {
        twin_flat_event event = {true, node, t->acquisition};
        aisim_array_push(&t->flat, event);
    }
    return first;
}

static void drop_copy(twin *t, uint32_t block, uint32_t node, bool event, bool withdrawn)
{
    const twin_ids *copies = &t->nodes.data[node].copies;
    bool primary = event && copies->len > 1 && copies->data[0] == block;
    t->totals.promoted += primary;
    t->totals.withdrawn_promoted += primary && withdrawn;
    twin_ids_remove(&t->nodes.data[node].copies, block);
    if (!event || t->nodes.data[node].copies.len > 0) {
        return;
    }
    if (withdrawn) {
        forget_stored(t, node);
    } else {
        twin_flat_event gone = {false, node, t->acquisition};
        aisim_array_push(&t->flat, gone);
    }
}

/* A checkpoint that lost a block can not be used any more; its other blocks age out (E-S1). */
static void break_checkpoint(twin *t, uint32_t block)
{
    uint32_t at = t->blocks[block].checkpoint;
    twin_checkpoint *checkpoint = &t->checkpoints.data[at];
    twin_ids_remove(&checkpoint->blocks, block);
    if (checkpoint->complete) {
        checkpoint->complete = false;
        twin_ids_remove(&t->nodes.data[checkpoint->node].checkpoints, at);
    }
}

/* One identity of a block is taken back as if it had never been given (E-V3). */
void twin_index_withdraw(twin *t, uint32_t block, bool alias)
{
    twin_block *at = &t->blocks[block];
    AISIM_CHECK(!at->queued);
    uint32_t *node = alias ? &at->alias : &at->node;
    if (*node != TWIN_NONE) {
        drop_copy(t, block, *node, !alias, true);
        *node = TWIN_NONE;
    }
}

/* The block loses every identity. It must not be in the queue, or be settled afterwards. */
void twin_index_remove(twin *t, uint32_t block)
{
    twin_block *at = &t->blocks[block];
    bool counted = at->queued && twin_block_keyed(at);
    if (at->node != TWIN_NONE) {
        drop_copy(t, block, at->node, true, false);
    }
    if (at->alias != TWIN_NONE) {
        drop_copy(t, block, at->alias, false, false);
    }
    if (at->checkpoint != TWIN_NONE) {
        break_checkpoint(t, block);
    }
    at->node = at->alias = at->checkpoint = TWIN_NONE;
    t->keyed_len -= counted;
}

/* A block that lost its identity while it stood in the queue becomes free. */
void twin_settle(twin *t, uint32_t block)
{
    if (t->blocks[block].queued) {
        queue_remove(t, block);
        queue_insert(t, block, t->config.kv.unkeyed_release == AISIM_UNKEYED_FRONT);
    }
}

/* E-S3 */
uint32_t twin_checkpoint_add(twin *t, uint32_t node, const twin_ids *blocks)
{
    twin_checkpoint checkpoint = {.node = node, .pass = t->pass, .complete = true};
    uint32_t at = t->checkpoints.len;
    for (uint32_t i = 0; i < blocks->len; i++) {
        aisim_array_push(&checkpoint.blocks, blocks->data[i]);
        t->blocks[blocks->data[i]].checkpoint = at;
    }
    aisim_array_push(&t->checkpoints, checkpoint);
    aisim_array_push(&t->nodes.data[node].checkpoints, at);
    return at;
}

/* E-S5, E-S6: the key goes to other blocks, the old ones become private. */
void twin_checkpoint_move(twin *t, uint32_t checkpoint, const twin_ids *to)
{
    twin_checkpoint *at = &t->checkpoints.data[checkpoint];
    AISIM_CHECK(at->complete && at->blocks.len == to->len);
    for (uint32_t i = 0; i < to->len; i++) {
        t->blocks[at->blocks.data[i]].checkpoint = TWIN_NONE;
        t->blocks[to->data[i]].checkpoint = checkpoint;
        at->blocks.data[i] = to->data[i];
    }
}

void twin_checkpoint_discard(twin *t, uint32_t checkpoint)
{
    while (t->checkpoints.data[checkpoint].blocks.len > 0) {
        twin_ids *blocks = &t->checkpoints.data[checkpoint].blocks;
        uint32_t block = blocks->data[blocks->len - 1];
        twin_index_remove(t, block);
        twin_settle(t, block);
    }
}
