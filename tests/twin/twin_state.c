/* twin_state.c - recurrent state and its checkpoints (§11).
 *
 * A running request owns k working blocks. A checkpoint is k blocks under the identity of the
 * tokens it summarises; publishing gives the working blocks that identity. Before the working
 * blocks are written again the checkpoint must be saved: latest mode copies it aside (E-S5),
 * aligned mode goes to new working blocks when the page changes and copies otherwise (E-S6). */
#include "base/check.h"
#include "twin_internal.h"

/* F of §11.2: the last prompt boundary a lookup can use. */
uint32_t twin_boundary(const twin *t, uint32_t prompt)
{
    uint32_t pages = prompt == 0 ? 0 : (prompt - 1) / t->b;
    if (t->depth > 0 && t->config.speculation.drop_matched_block && pages > 0) {
        pages--;
    }
    return pages * t->b;
}

/* T of §11.2, or 0. */
static uint32_t tail(const twin *t, uint32_t prompt)
{
    uint32_t u = t->config.kv.prefix_match_unit;
    if (u == 0 || u == t->b) {
        return 0;
    }
    uint32_t at = prompt / u * u;
    return at < prompt && at > twin_boundary(t, prompt) ? at : 0;
}

static bool publishable(const twin *t, const twin_request *r, uint32_t end)
{
    if (end == 0 || !t->caching) {
        return false;
    }
    if (!t->aligned) {
        return end % t->b == 0;
    }
    if (end == tail(t, r->prompt)) {
        return true;
    }
    if (t->config.kv.checkpoints == AISIM_CHECKPOINTS_CHUNK_END) { /* R11 */
        return end % t->b == 0;
    }
    return end == twin_boundary(t, r->prompt);
}

uint32_t twin_align_split(aisim_align_split kind, uint32_t b, uint32_t u, uint32_t cap, bool drop,
                          uint32_t junction, uint32_t start, uint32_t prompt, uint32_t known,
                          uint32_t desired)
{
    uint32_t last = twin_max(prompt, known - 1); /* E */
    if (start >= last) {
        return desired;
    }
    uint32_t end = start + desired;
    if (end < last) { /* rule 2 */
        uint32_t floor = end / b * b;
        if (floor > start || b <= cap) {
            end = floor;
        }
    }
    uint32_t boundary = (prompt - 1) / b;
    uint32_t back_off = drop ? 1 : 0;
    if (kind == AISIM_SPLIT_LEGACY) {
        boundary = known / b;
        back_off = 0;
    } else if (kind == AISIM_SPLIT_UPSTREAM) {
        boundary = known / b;
    }
    boundary = (boundary > back_off ? boundary - back_off : 0) * b;
    uint32_t unit = u == 0 ? b : u;
    uint32_t tail_at = prompt / unit * unit;
    if (unit == b ||
        (kind != AISIM_SPLIT_UPSTREAM && (tail_at <= (prompt - 1) / b * b || tail_at >= prompt))) {
        tail_at = 0;
    }
    uint32_t stops[] = {
        start % b != 0 ? (start / b + 1) * b : 0,
        boundary,
        tail_at,
        kind == AISIM_SPLIT_UPSTREAM ? junction / b * b : 0,
    };
    for (uint32_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        if (stops[i] > start && stops[i] < end) {
            end = stops[i];
        }
    }
    return end > start ? end - start : 0;
}

/* The oldest complete checkpoint that may be read in this pass. */
uint32_t twin_state_find(twin *t, uint32_t node, bool *same_pass)
{
    const twin_ids *copies = &t->nodes.data[node].checkpoints;
    for (uint32_t i = 0; i < copies->len; i++) {
        if (t->checkpoints.data[copies->data[i]].pass < t->pass) {
            return copies->data[i];
        }
    }
    *same_pass = copies->len > 0 && t->config.kv.same_pass_hit == AISIM_SAME_PASS_WAIT; /* R12 */
    return TWIN_NONE;
}

static void remember_step(twin *t, twin_request *r, uint32_t checkpoint)
{
    if (r->step_pass != t->pass) {
        r->step_pass = t->pass;
        r->step_checkpoints.len = 0;
    }
    aisim_array_push(&r->step_checkpoints, checkpoint);
}

static bool working_published(const twin *t, const twin_request *r)
{
    return r->working_checkpoint != TWIN_NONE &&
           t->checkpoints.data[r->working_checkpoint].complete;
}

static uint32_t slot_of(const twin *t, uint32_t target)
{
    return target == 0 ? 0 : (target - 1) / t->b;
}

static bool rotates(const twin *t, const twin_request *r, uint32_t target)
{
    return t->aligned && t->caching && slot_of(t, target) != r->slot;
}

/* Blocks that a write up to `target` takes beside the token blocks. */
uint32_t twin_state_extra(const twin *t, const twin_request *r, uint32_t target)
{
    return rotates(t, r, target) || working_published(t, r) ? t->k : 0;
}

/* E-S6, E-S7: what an earlier step held is given back first. */
void twin_state_begin(twin *t, twin_request *r)
{
    if (r->previous.len > 0 && r->previous_pass < t->pass) {
        twin_unref_all(t, &r->previous);
    }
}

void twin_state_write(twin *t, twin_request *r, uint32_t target, const twin_ids *fresh)
{
    if (fresh->len == 0) {
        return;
    }
    if (rotates(t, r, target)) { /* E-S6: another page, other working blocks */
        AISIM_CHECK(r->previous.len == 0);
        for (uint32_t i = 0; i < t->k; i++) {
            aisim_array_push(&r->previous, r->working.data[i]);
            r->working.data[i] = fresh->data[i];
        }
        r->previous_pass = t->pass;
        r->slot = slot_of(t, target);
    } else { /* E-S5, E-S6 tail case: the checkpoint goes aside */
        twin_checkpoint_move(t, r->working_checkpoint, fresh);
        remember_step(t, r, r->working_checkpoint);
        for (uint32_t i = 0; i < fresh->len; i++) {
            aisim_array_push(&r->copies, fresh->data[i]);
        }
    }
    r->working_checkpoint = TWIN_NONE;
}

static void hold(twin *t, twin_ids *list, uint32_t block)
{
    twin_ref(t, block);
    aisim_array_push(list, block);
}

/* E-S2, E-S9, E-S10. Called twice: without blocks to pin the source of a restore, then with the
 * new working blocks. */
void twin_state_admit(twin *t, twin_request *r, const twin_hit *hit, uint32_t target,
                      const twin_ids *fresh)
{
    if (fresh != NULL) {
        for (uint32_t i = 0; i < fresh->len; i++) {
            aisim_array_push(&r->working, fresh->data[i]);
        }
        r->working_checkpoint = TWIN_NONE;
        r->snapshot = TWIN_NONE;
        r->slot = slot_of(t, target);
        return;
    }
    if (hit->checkpoint == TWIN_NONE) {
        return;
    }
    bool boundary = t->aligned && hit->partial == TWIN_NONE;
    twin_ids *held = boundary ? &r->previous : &r->copies;
    r->previous_pass = t->pass;
    if (hit->partial != TWIN_NONE) {
        hold(t, held, hit->partial);
    }
    const twin_ids *source = &t->checkpoints.data[hit->checkpoint].blocks;
    for (uint32_t i = 0; i < source->len; i++) {
        hold(t, held, source->data[i]);
    }
}

/* E-S3 after a decision that ended at `end`. */
void twin_state_publish(twin *t, twin_request *r, uint32_t end)
{
    if (!publishable(t, r, end)) {
        return;
    }
    uint32_t node = twin_node_at(t, r, end);
    if (end % t->b != 0) { /* E-S9: the page becomes visible in part */
        uint32_t page = r->blocks.data[end / t->b];
        if (t->blocks[page].alias == TWIN_NONE) {
            twin_index_add(t, page, node, true, (twin_name){r->id, end / t->b});
            r->pass_alias = page;
        }
    }
    if (!t->aligned && r->snapshot != TWIN_NONE) {
        twin_checkpoint_discard(t, r->snapshot); /* §11.2: only the newest is kept */
    }
    uint32_t checkpoint = twin_checkpoint_add(t, node, &r->working);
    r->working_checkpoint = checkpoint;
    r->snapshot = checkpoint;
    remember_step(t, r, checkpoint);
}

/* E-S14 */
void twin_state_release(twin *t, twin_request *r)
{
    twin_unref_all(t, &r->previous);
    twin_unref_all(t, &r->copies);
    twin_unref_all(t, &r->working);
    r->working_checkpoint = TWIN_NONE;
    r->snapshot = TWIN_NONE;
}

/* E-S15, before the release. */
void twin_state_discard_step(twin *t, twin_request *r)
{
    if (r->step_pass == t->pass) {
        for (uint32_t i = 0; i < r->step_checkpoints.len; i++) {
            twin_checkpoint_discard(t, r->step_checkpoints.data[i]);
        }
        r->step_checkpoints.len = 0;
    }
}
