/* twin_lease.c - what a request owns (§9), what it finds (§8) and what it publishes.
 *
 * The blocks of a lease are one array: the first ceil(A/b) are bound to the logical blocks of the
 * known tokens in order, those behind are look-ahead (opaque, E-M4) and become bound when A grows
 * over them (E-K3). All of it is released from the end. */
#include "base/check.h"
#include "twin_internal.h"

/* Identity of the first `tokens` known tokens. */
uint32_t twin_node_at(twin *t, twin_request *r, uint32_t tokens)
{
    AISIM_CHECK(tokens <= r->tokens.len);
    while (r->chain.len < tokens / t->b) {
        uint32_t i = r->chain.len;
        uint32_t parent = i == 0 ? twin_root(t, r->salt) : r->chain.data[i - 1];
        uint32_t node = twin_intern(t, parent, r->tokens.data + (size_t)i * t->b, t->b);
        aisim_array_push(&r->chain, node);
    }
    uint32_t whole = tokens / t->b;
    uint32_t parent = whole == 0 ? twin_root(t, r->salt) : r->chain.data[whole - 1];
    uint32_t rest = tokens % t->b;
    return rest == 0 ? parent : twin_intern(t, parent, r->tokens.data + (size_t)whole * t->b, rest);
}

/* E-O2 */
uint32_t twin_remaining(const twin *t, const twin_request *r)
{
    uint32_t rest = r->output - twin_min(r->generated, r->output);
    return t->limit == TWIN_NONE ? rest
                                 : twin_min(rest, t->limit - twin_min(r->tokens.len, t->limit));
}

void twin_hit_free(twin_hit *hit)
{
    aisim_array_free(&hit->blocks);
}

/* The oldest copy of the page that ends after `tokens` tokens, or none (E-B6). */
static uint32_t page_of(twin *t, twin_request *r, uint32_t tokens)
{
    uint32_t at = twin_node_at(t, r, tokens); /* may move the nodes */
    const twin_node *node = &t->nodes.data[at];
    return node->copies.len == 0 ? TWIN_NONE : node->copies.data[0];
}

/* (a) of E-S8: whole pages, then with a match unit the beginning of one more (E-S9). */
static bool tokens_resident(twin *t, twin_request *r, uint32_t h, uint32_t whole)
{
    if (h / t->b > whole) {
        return false;
    }
    return h % t->b == 0 || page_of(t, r, h) != TWIN_NONE;
}

static void state_hit(twin *t, twin_request *r, twin_hit *hit, uint32_t bound, uint32_t whole,
                      bool drop)
{
    uint32_t unit =
        t->aligned && t->config.kv.prefix_match_unit != 0 ? t->config.kv.prefix_match_unit : t->b;
    uint32_t h = bound / unit * unit;
    while (h > 0 && !tokens_resident(t, r, h, whole)) {
        h -= unit;
    }
    if (drop && h >= t->b) {
        h -= t->b; /* E-S8: once, before a checkpoint is searched */
    }
    uint32_t dense = h;
    hit->checkpoint = TWIN_NONE;
    for (; h > 0; h -= unit) {
        if (tokens_resident(t, r, h, whole)) {
            hit->checkpoint = twin_state_find(t, twin_node_at(t, r, h), &hit->same_pass);
            if (hit->checkpoint != TWIN_NONE || hit->same_pass) {
                break;
            }
        }
    }
    hit->tokens = h;
    hit->junction = dense > h ? dense : 0; /* N2 */
    if (h % t->b != 0) {
        hit->partial = page_of(t, r, h);
    }
}

/* E-H3, E-H4, E-S8. Changes nothing in the pool. */
void twin_lookup(twin *t, twin_request *r, twin_hit *hit)
{
    *hit = (twin_hit){.partial = TWIN_NONE, .checkpoint = TWIN_NONE};
    if (!t->caching || r->no_read) {
        return;
    }
    bool logits = twin_remaining(t, r) > 0;
    uint32_t bound = logits ? r->tokens.len - 1 : r->tokens.len;
    bool drop = t->depth > 0 && t->config.speculation.drop_matched_block && logits; /* R14 */
    uint32_t whole = 0;
    while ((whole + 1) * t->b <= r->tokens.len && page_of(t, r, (whole + 1) * t->b) != TWIN_NONE) {
        whole++;
    }
    if (t->stateful) {
        state_hit(t, r, hit, bound, whole, drop);
    } else {
        hit->tokens = twin_min(whole * t->b, bound / t->b * t->b);
        if (drop && hit->tokens >= t->b) {
            hit->tokens -= t->b; /* E-H4 */
        }
    }
    for (uint32_t i = 0; i < hit->tokens / t->b; i++) {
        uint32_t page = page_of(t, r, (i + 1) * t->b);
        aisim_array_push(&hit->blocks, page);
        hit->active += t->blocks[page].refs > 0;
    }
}

static uint32_t fresh_blocks(const twin *t, const twin_request *r, uint32_t held, uint32_t slots)
{
    uint32_t goal = twin_ceil(slots, t->b);
    uint32_t have = r->blocks.len + held;
    return goal > have ? goal - have : 0;
}

/* E-K2, E-K3, E-P4 for a running request: all or nothing, the state included (E-S7). */
bool twin_allocate(twin *t, twin_request *r, uint32_t target, uint32_t slots)
{
    uint32_t state = 0;
    if (t->stateful) {
        twin_state_begin(t, r);
        state = twin_state_extra(t, r, target);
    }
    uint32_t fresh = fresh_blocks(t, r, 0, slots);
    if (fresh + state > t->queue_len) {
        return false;
    }
    twin_ids taken = {0};
    twin_acquire(t, fresh + state, &taken);
    twin_ids for_state = {0};
    for (uint32_t i = 0; i < taken.len; i++) {
        if (i < fresh) {
            aisim_array_push(&r->blocks, taken.data[i]);
        } else {
            aisim_array_push(&for_state, taken.data[i]);
        }
    }
    if (t->stateful) {
        twin_state_write(t, r, target, &for_state);
    }
    r->watermark = twin_max(r->watermark, twin_min(slots, r->tokens.len));
    aisim_array_free(&taken);
    aisim_array_free(&for_state);
    return true;
}

/* E-P15: the hit is pinned first, so it can not be evicted by the same operation (E-B2). `reserve`
 * blocks must stay available behind it (R2 with a watermark). */
bool twin_admit_allocate(twin *t, twin_request *r, const twin_hit *hit, uint32_t target,
                         uint32_t slots, uint32_t reserve)
{
    twin_ids pins = {0};
    for (uint32_t i = 0; i < hit->blocks.len; i++) {
        aisim_array_push(&pins, hit->blocks.data[i]);
    }
    if (hit->partial != TWIN_NONE) {
        aisim_array_push(&pins, hit->partial);
    }
    if (hit->checkpoint != TWIN_NONE) {
        const twin_ids *source = &t->checkpoints.data[hit->checkpoint].blocks;
        for (uint32_t i = 0; i < source->len; i++) {
            aisim_array_push(&pins, source->data[i]);
        }
    }
    uint32_t fresh = fresh_blocks(t, r, hit->blocks.len, slots);
    uint32_t wanted = fresh + (t->stateful ? t->k : 0);
    bool fits = wanted + reserve + twin_queued(t, &pins) <= t->queue_len;
    aisim_array_free(&pins);
    if (!fits) {
        return false;
    }
    for (uint32_t i = 0; i < hit->blocks.len; i++) {
        twin_ref(t, hit->blocks.data[i]);
        aisim_array_push(&r->blocks, hit->blocks.data[i]);
    }
    if (t->stateful) {
        twin_state_admit(t, r, hit, target, NULL); /* pins the source */
    }
    twin_ids taken = {0};
    twin_acquire(t, wanted, &taken);
    twin_ids for_state = {0};
    for (uint32_t i = 0; i < taken.len; i++) {
        if (i < fresh) {
            aisim_array_push(&r->blocks, taken.data[i]);
        } else {
            aisim_array_push(&for_state, taken.data[i]);
        }
    }
    if (t->stateful) {
        twin_state_admit(t, r, hit, target, &for_state);
    }
    r->published = twin_max(hit->blocks.len, r->published); /* more after a finished load */
    r->watermark = twin_max(r->watermark, twin_min(slots, r->tokens.len));
    aisim_array_free(&taken);
    aisim_array_free(&for_state);
    return true;
}

/* E-H5, N6: blocks from the cursor up to floor(tokens/b) become visible at once. */
void twin_publish(twin *t, twin_request *r, uint32_t tokens)
{
    if (!t->caching) {
        return;
    }
    t->acquisition++; /* one run of stored blocks */
    for (; (r->published + 1) * t->b <= tokens; r->published++) {
        uint32_t node = twin_node_at(t, r, (r->published + 1) * t->b);
        twin_name by = {r->id, r->published};
        twin_index_add(t, r->blocks.data[r->published], node, false, by);
    }
}

/* E-V3: what the undone decision published was never computed. */
void twin_withdraw(twin *t, twin_request *r)
{
    while (r->published > r->pass_published) {
        t->totals.withdrawn++;
        twin_index_withdraw(t, r->blocks.data[--r->published], false);
    }
    if (r->pass_alias != TWIN_NONE) {
        twin_index_withdraw(t, r->pass_alias, true);
    }
}

/* E-K5, E-S14: idempotent. */
void twin_release(twin *t, twin_request *r)
{
    twin_unref_all(t, &r->blocks);
    if (t->stateful) {
        twin_state_release(t, r);
    }
    r->watermark = 0;
    r->published = 0;
}
