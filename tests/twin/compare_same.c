/* compare_same.c - what both sides must have in common after a call.
 *
 * Blocks have no ids in the engine, so a block is compared by what it holds: (request, block index)
 * of either side becomes a hash over all tokens up to the end of that block. Outputs without a
 * planned id occur nowhere else on either side, here they are hashed by (request, position).
 *
 * Not compared: recomputed and slots of an item (the twin alone has them), the reason of a
 * rejection by the budget (the engine calls it capacity), and, between plan and complete, what only
 * becomes visible at the pass end (reasons, number of live requests). */
#include <inttypes.h>
#include <stdarg.h>

#include "base/rng.h"
#include "compare_internal.h"

/* The first difference ends the comparison. @return false */
static bool differ(compare_runner *r, const char *format, ...)
{
    char *at = r->out->difference;
    size_t room = sizeof r->out->difference;
    int n = snprintf(at, room, "pass %" PRIu32 ", %s: ", r->pass, r->where);
    va_list args;
    va_start(args, format);
    vsnprintf(at + n, room - (size_t)n, format, args);
    va_end(args);
    r->out->same = false;
    r->out->pass = r->pass;
    return false;
}

bool compare_equal(compare_runner *r, const char *what, uint64_t of, uint64_t want, uint64_t have)
{
    if (want == have) {
        return true;
    }
    return differ(r, "%s [%" PRIu64 "]: twin %" PRIu64 ", engine %" PRIu64, what, of, want, have);
}

/* ---- content of blocks ----------------------------------------------------------------------- */

static uint64_t token_hash(const compare_request *q, uint32_t i)
{
    if (i < q->prompt.len) {
        return aisim_mix64(q->prompt.data[i]);
    }
    uint32_t output = i - q->prompt.len;
    if (output < q->planned.len) {
        return aisim_mix64(q->planned.data[output]);
    }
    return aisim_mix64(aisim_mix64(UINT64_C(1) << 63 | q->id) + i);
}

uint64_t *compare_hash_content(const compare_request *q)
{
    uint32_t n = q->prompt.len + q->output;
    uint64_t *hashes = aisim_alloc(n + 1, sizeof *hashes);
    hashes[0] = aisim_mix64(q->salt + 17);
    for (uint32_t i = 0; i < n; i++) {
        hashes[i + 1] = aisim_mix64(hashes[i] ^ (token_hash(q, i) << 1));
    }
    return hashes;
}

/* What the block holds; 0 = no such block. */
static uint64_t content_of(const compare_runner *r, twin_name name)
{
    for (uint32_t i = 0; i < r->c->requests.len; i++) {
        const compare_request *q = &r->c->requests.data[i];
        uint64_t end = ((uint64_t)name.index + 1) * r->c->config.kv.block_size;
        if (q->id == name.id && end <= (uint64_t)q->prompt.len + q->output) {
            return r->rows[i].content[end];
        }
    }
    return 0;
}

bool compare_same_names(compare_runner *r, const char *what, const twin_name *want, uint32_t n_want,
                        const twin_name *have, uint32_t n_have)
{
    for (uint32_t i = 0; i < n_want && i < n_have; i++) {
        bool same = want[i].id == have[i].id && want[i].index == have[i].index;
        if (!same &&
            (content_of(r, want[i]) != content_of(r, have[i]) || content_of(r, want[i]) == 0)) {
            return differ(
                r, "%s [%" PRIu32 "]: twin %" PRIu32 ":%" PRIu32 ", engine %" PRIu32 ":%" PRIu32,
                what, i, want[i].id, want[i].index, have[i].id, have[i].index);
        }
    }
    return compare_equal(r, what, UINT64_MAX, n_want, n_have);
}

/* ---- records --------------------------------------------------------------------------------- */

static bool same_item(compare_runner *r, const twin_item *want, const twin_item *have)
{
    return compare_equal(r, "item id", want->serial, want->id, have->id) &&
           compare_equal(r, "item serial", want->id, want->serial, have->serial) &&
           compare_equal(r, "item tokens", want->id, want->tokens, have->tokens) &&
           compare_equal(r, "item prefix", want->id, want->prefix, have->prefix) &&
           compare_equal(r, "item chunk", want->id, want->chunk, have->chunk) &&
           compare_equal(r, "item generated", want->id, want->generated, have->generated) &&
           compare_equal(r, "item drafts", want->id, want->drafts, have->drafts) &&
           compare_equal(r, "item known", want->id, want->known, have->known) &&
           compare_equal(r, "item admitted", want->id, want->admitted, have->admitted) &&
           compare_equal(r, "item reused", want->id, want->reused, have->reused);
}

static bool same_pairs(compare_runner *r, const char *what, const twin_pair *want, uint32_t n_want,
                       const twin_pair *have, uint32_t n_have)
{
    for (uint32_t i = 0; i < n_want && i < n_have; i++) {
        if (!compare_equal(r, what, i, want[i].id, have[i].id) ||
            !compare_equal(r, what, want[i].id, want[i].value, have[i].value)) {
            return false;
        }
    }
    return compare_equal(r, what, UINT64_MAX, n_want, n_have);
}

/* E-O2 */
static bool wants_token(const compare_runner *r, uint32_t serial)
{
    twin_view view;
    uint64_t limit = r->c->config.scheduler.context_length;
    return twin_read(r->twin, serial, &view) && view.generated < view.output &&
           (limit == 0 || view.known < limit);
}

/* Burst mode (mtp.md §8): whoever is ready verifies in this pass too, and pays a decode; the decode
 * of a victim of the reservation does not run. */
static void burst_shape(compare_runner *r, aisim_pass_shape *want)
{
    const twin_record *record = twin_last(r->twin);
    const aisim_rank_config *config = &r->c->config;
    if (config->speculation.mode != AISIM_SPECULATION_BURST) {
        return;
    }
    want->n_decode = want->context_tokens = 0;
    for (uint32_t i = 0; i < record->n_items; i++) {
        twin_view view;
        twin_read(r->twin, record->items[i].serial, &view);
        if (view.status == TWIN_RUNNING && view.computed == view.known &&
            wants_token(r, view.serial)) {
            want->n_decode++;
            want->context_tokens += view.known;
        }
    }
}

/* Timing inputs of the pass (E-O4, D3), from the items of the twin. */
bool compare_same_shape(compare_runner *r)
{
    const twin_record *record = twin_last(r->twin);
    aisim_pass_shape want = {0};
    const aisim_pass_shape *have = engine_shape(r->engine);
    for (uint32_t i = 0; i < record->n_items; i++) {
        const twin_item *item = &record->items[i];
        const compare_row *w = &r->rows[r->by_serial.data[item->serial]];
        uint32_t prompt = r->c->requests.data[r->by_serial.data[item->serial]].prompt.len;
        uint32_t before = item->admitted ? item->reused : w->before;
        if (item->tokens == 0 && !wants_token(r, item->serial)) {
            continue; /* nothing to compute, no token either (E-T2) */
        }
        if (before < prompt || w->resumed) {
            want.n_prefill++;
            want.new_tokens += item->tokens;
            want.past_tokens += before;
        } else {
            want.n_decode++;
            want.context_tokens += item->known;
        }
    }
    burst_shape(r, &want);
    return compare_equal(r, "shape n_prefill", 0, want.n_prefill, have->n_prefill) &&
           compare_equal(r, "shape new_tokens", 0, want.new_tokens, have->new_tokens) &&
           compare_equal(r, "shape past_tokens", 0, want.past_tokens, have->past_tokens) &&
           compare_equal(r, "shape n_decode", 0, want.n_decode, have->n_decode) &&
           compare_equal(r, "shape context_tokens", 0, want.context_tokens, have->context_tokens);
}

bool compare_same_plan(compare_runner *r)
{
    const twin_record *want = twin_last(r->twin), *have = engine_last(r->engine);
    for (uint32_t i = 0; !r->quiet && i < want->n_items && i < have->n_items; i++) {
        if (!same_item(r, &want->items[i], &have->items[i])) {
            return false;
        }
    }
    return (r->quiet || compare_equal(r, "number of items", 0, want->n_items, have->n_items)) &&
           same_pairs(r, "preempted", want->preempted, want->n_preempted, have->preempted,
                      have->n_preempted) &&
           compare_equal(r, "budget left", 0, want->budget_left, have->budget_left);
}

/* Both records gather what happens from one plan to the next, commands included. */
static bool same_events(compare_runner *r)
{
    const twin_record *want = twin_last(r->twin), *have = engine_last(r->engine);
    for (uint32_t i = 0; i < want->n_events && i < have->n_events; i++) {
        const twin_event *a = &want->events[i], *b = &have->events[i];
        if (!compare_equal(r, "event stored", i, a->stored, b->stored) ||
            !compare_equal(r, "event has parent", i, a->has_parent, b->has_parent) ||
            !compare_equal(r, "event length", i, a->len, b->len)) {
            return false;
        }
        if (a->has_parent && !compare_same_names(r, "event parent", &a->parent, 1, &b->parent, 1)) {
            return false;
        }
    }
    return compare_equal(r, "number of events", 0, want->n_events, have->n_events) &&
           compare_same_names(r, "evicted", want->evicted, want->n_evicted, have->evicted,
                              have->n_evicted) &&
           compare_same_names(r, "event blocks", want->names, want->n_names, have->names,
                              have->n_names);
}

uint32_t compare_reason_class(uint32_t reason)
{
    return reason == TWIN_REJECTED_BUDGET ? TWIN_REJECTED_CAPACITY : reason;
}

bool compare_same_end(compare_runner *r)
{
    const twin_record *want = twin_last(r->twin), *have = engine_last(r->engine);
    for (uint32_t i = 0; !r->quiet && i < want->n_emitted && i < have->n_emitted; i++) {
        const twin_emitted *a = &want->emitted[i], *b = &have->emitted[i];
        if (!compare_equal(r, "emitted id", i, a->id, b->id) ||
            !compare_equal(r, "emitted tokens", a->id, a->tokens, b->tokens) ||
            !compare_equal(r, "emitted accepted", a->id, a->accepted, b->accepted) ||
            !compare_equal(r, "emitted verified", a->id, a->verified, b->verified)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < want->n_finished && i < have->n_finished; i++) {
        if (!compare_equal(r, "finished id", i, want->finished[i].id, have->finished[i].id) ||
            !compare_equal(r, "finished reason", want->finished[i].id,
                           compare_reason_class(want->finished[i].value),
                           compare_reason_class(have->finished[i].value))) {
            return false;
        }
    }
    bool alone = r->c->config.scheduler.overlap == AISIM_OVERLAP_NONE;
    return (r->quiet ||
            compare_equal(r, "number of emitted", 0, want->n_emitted, have->n_emitted)) &&
           compare_equal(r, "number of finished", 0, want->n_finished, have->n_finished) &&
           (!alone || compare_equal(r, "changed", 0, want->changed, have->changed));
}

/* ---- state ----------------------------------------------------------------------------------- */

static bool same_view(compare_runner *r, const twin_view *want, const twin_view *have)
{
    uint64_t id = want->id;
    bool ok = compare_equal(r, "id", want->serial, want->id, have->id) &&
              compare_equal(r, "ordinal", id, want->ordinal, have->ordinal) &&
              compare_equal(r, "status", id, want->status, have->status) &&
              compare_equal(r, "generated", id, want->generated, have->generated) &&
              compare_equal(r, "known", id, want->known, have->known) &&
              compare_equal(r, "owned", id, want->owned, have->owned) &&
              compare_equal(r, "opaque", id, want->opaque, have->opaque) &&
              compare_equal(r, "watermark", id, want->watermark, have->watermark) &&
              compare_equal(r, "published", id, want->published, have->published) &&
              compare_equal(r, "state blocks", id, want->state_blocks, have->state_blocks) &&
              compare_equal(r, "reused", id, want->reused, have->reused) &&
              compare_equal(r, "host reused", id, want->host_reused, have->host_reused) &&
              compare_equal(r, "preemptions", id, want->preemptions, have->preemptions) &&
              compare_equal(r, "readmissions", id, want->n_readmit, have->n_readmit);
    for (uint32_t i = 0; ok && i < want->n_readmit; i++) {
        ok = compare_equal(r, "readmission reused", id, want->readmit_reused[i],
                           have->readmit_reused[i]);
    }
    if (ok && want->status == TWIN_RESERVED) {
        ok = compare_equal(r, "missing", id, want->missing, have->missing);
    }
    if (ok && want->status != TWIN_FINISHED) {
        ok = compare_equal(r, "computed", id, want->computed, have->computed);
    }
    if (ok && r->flight.len == 0) {
        ok = compare_equal(r, "reason", id, compare_reason_class(want->reason),
                           compare_reason_class(have->reason));
    }
    return ok;
}

static bool same_views(compare_runner *r)
{
    for (uint32_t serial = 0; serial < r->by_serial.len; serial++) {
        compare_row *w = &r->rows[r->by_serial.data[serial]];
        twin_view want, have;
        if (w->settled) {
            continue;
        }
        twin_read(r->twin, serial, &want);
        if (r->quiet && want.status == TWIN_RUNNING) {
            continue;
        }
        engine_read(r->engine, serial, &have);
        if (!same_view(r, &want, &have)) {
            return false;
        }
        bool told = want.reason != TWIN_LIVE && have.reason != TWIN_LIVE;
        if (want.status == TWIN_FINISHED && told) {
            w->settled = true;
            w->ended = true;
            w->ended_at = r->pass;
        } else if (want.status == TWIN_HELD || want.status == TWIN_RESERVED) {
            w->handed_at = w->handed_at == COMPARE_NONE ? r->pass : w->handed_at;
        }
    }
    return true;
}

static bool same_list(compare_runner *r, const char *what,
                      uint32_t (*twin_list)(const twin *, const uint32_t **),
                      uint32_t (*engine_list)(const twin *, const uint32_t **))
{
    const uint32_t *want, *have;
    uint32_t n = twin_list(r->twin, &want), m = engine_list(r->engine, &have);
    for (uint32_t i = 0; i < n && i < m; i++) {
        if (!compare_equal(r, what, i, want[i], have[i])) {
            return false;
        }
    }
    return compare_equal(r, what, UINT64_MAX, n, m);
}

bool compare_same_state(compare_runner *r)
{
    twin_totals want = twin_sum(r->twin), have = engine_sum(r->engine);
    bool ok = same_list(r, "running", twin_running, engine_running) &&
              same_list(r, "waiting", twin_waiting, engine_waiting) &&
              same_list(r, "second queue", twin_skipped, engine_skipped) && same_views(r) &&
              compare_equal(r, "active", 0, want.active, have.active) &&
              compare_equal(r, "inactive", 0, want.inactive, have.inactive) &&
              compare_equal(r, "free", 0, want.free, have.free) &&
              compare_equal(r, "ready", 0, want.ready, have.ready) &&
              compare_equal(r, "capacity_bound", 0, want.capacity_bound, have.capacity_bound) &&
              compare_equal(r, "total preemptions", 0, want.preemptions, have.preemptions) &&
              same_events(r) && compare_same_tier(r);
    if (ok && r->flight.len == 0) {
        ok = compare_equal(r, "live", 0, want.live, have.live) &&
             compare_equal(r, "drained", 0, want.drained, have.drained);
        if (ok && r->c->config.scheduler.overlap == AISIM_OVERLAP_NONE) {
            ok = compare_equal(r, "livelock", 0, want.livelock, have.livelock);
        }
    }
    twin_verify(r->twin);
    if (!r->quiet) {
        engine_verify(r->engine);
    }
    return ok;
}
