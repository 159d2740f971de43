/* twin_sched.c - steps 0 to 2 of a pass (§4).
 *
 * Everything happens in the order of the text and is looked up anew each time. */
#include "base/check.h"
#include "twin_host.h"

static twin_request *request_of(const twin *t, uint32_t serial)
{
    return t->requests.data[serial];
}

static void reject(twin *t, twin_request *r, twin_reason reason)
{
    twin_leave(t, r, reason);
    aisim_array_push(&t->batches.data[t->batches.len - 1].rejected, r->serial);
}

static uint32_t threshold(const twin *t)
{
    uint32_t n = t->config.scheduler.long_prefill_token_threshold; /* R4 */
    return n == 0 ? TWIN_NONE : n;
}

/* E-P2, mtp.md §3: the share of a request that has `from` tokens. */
static uint32_t share(const twin *t, const twin_request *r, uint32_t from)
{
    uint32_t goal = r->tokens.len + r->drafts + r->placeholders;
    uint32_t d = goal > from ? goal - from : 0;
    d = twin_min(twin_min(d, threshold(t)), t->budget);
    if (t->limit != TWIN_NONE) {
        d = twin_min(d, t->limit - 1 > from ? t->limit - 1 - from : 0);
    }
    return d;
}

/* The chunking rule of E-P2 and E-P14. */
static bool unchunked_overrun(const twin *t, const twin_request *r, uint32_t from)
{
    return !t->config.scheduler.chunked_prefill && from < r->prompt &&
           twin_min(r->prompt - from, threshold(t)) > t->budget;
}

static uint32_t split(const twin *t, const twin_request *r, uint32_t from, uint32_t d)
{
    if (!t->aligned || !t->caching) {
        return d;
    }
    bool drop = t->depth > 0 && t->config.speculation.drop_matched_block;
    return twin_align_split(t->config.kv.align_split, t->b, t->config.kv.prefix_match_unit,
                            twin_min(t->budget_per_pass, threshold(t)), drop, r->junction, from,
                            r->prompt, r->tokens.len, d);
}

/* Tokens for which a decision up to `end` asks capacity (mtp.md §3). */
static uint32_t slots_for(const twin *t, uint32_t end, uint32_t lookahead)
{
    return twin_min(end + lookahead, t->limit);
}

/* Room that a decision needs when nobody else is there (E-P1a, E-S13, N5). */
static bool fits_alone(const twin *t, const twin_request *r, uint32_t slots, uint32_t state)
{
    uint32_t blocks = twin_max(twin_ceil(r->tokens.len, t->b), twin_ceil(slots, t->b));
    return blocks + state <= t->n_blocks;
}

static bool rejects(const twin *t)
{
    return t->config.scheduler.never_fits == AISIM_NEVER_FITS_REJECT; /* R1 */
}

/* E-P5, E-P15: d tokens are booked and what they complete becomes visible. */
static void book(twin *t, twin_request *r, uint32_t from, uint32_t d, uint32_t slots)
{
    uint32_t known = r->tokens.len;
    uint32_t end = from + d;
    uint32_t real = twin_min(end, known);
    twin_item item = {.id = r->id, .serial = r->serial, .tokens = d, .known = known};
    item.slots = slots;
    item.prefix = twin_min(from, r->prompt);
    item.chunk = twin_min(real, r->prompt) - item.prefix;
    item.generated = real - twin_min(from, real) - item.chunk;
    uint32_t again = twin_max(from, r->prompt);
    uint32_t repeated = twin_min(real, r->high);
    item.recomputed = repeated > again ? repeated - again : 0;
    item.drafts = end > known + r->placeholders ? end - known - r->placeholders : 0;
    twin_row row = {.serial = r->serial, .epoch = r->preemptions, .verified = item.drafts};
    row.samples = end >= known + r->placeholders;
    row.prefill = item.chunk > 0;
    r->pass = t->pass;
    r->pass_tokens = d;
    r->pass_computed = from;
    r->pass_published = r->published;
    r->pass_alias = TWIN_NONE;
    r->computed = end;
    t->budget -= d;
    t->prompt_planned += item.chunk;
    twin_publish(t, r, real); /* E-H5 */
    if (t->stateful && d > 0 && end <= known) {
        twin_state_publish(t, r, end);
    }
    aisim_array_push(&t->items, item);
    aisim_array_push(&t->batches.data[t->batches.len - 1].rows, row);
    if (row.samples) {
        r->outstanding++;
        if (t->config.scheduler.overlap == AISIM_OVERLAP_ASYNC) { /* N1 */
            r->placeholders += 1 + item.drafts;
            r->drafts = t->depth;
            r->drafts_unknown = t->depth > 0;
        }
    }
}

/* N1, async: nothing of it could be delivered any more. */
static bool passed_over(const twin *t, const twin_request *r)
{
    return t->config.scheduler.overlap == AISIM_OVERLAP_ASYNC && r->placeholders > 0 &&
           r->computed + 2 - twin_min(r->placeholders, r->computed + 2) >= r->prompt + r->output;
}

/* E-P4: capacity for r, at the cost of victims. *at is the place of r in the running list.
 * @return false when r was the victim. */
static bool make_room(twin *t, twin_request *r, uint32_t target, uint32_t slots, uint32_t *at)
{
    while (!twin_allocate(t, r, target, slots)) {
        twin_request *victim = twin_victim(t);
        uint32_t place = 0;
        while (t->running.data[place] != victim->serial) {
            place++;
        }
        twin_preempt(t, victim, true);
        if (victim == r) {
            t->totals.self_preemptions++;
            return false;
        }
        *at -= place < *at; /* E-V3, D2 */
    }
    return true;
}

/* Step 1 */
static void schedule_running(twin *t)
{
    uint32_t i = 0;
    while (i < t->running.len && t->budget > 0) {
        twin_request *r = request_of(t, t->running.data[i]);
        if (rejects(t) && twin_ceil(r->tokens.len, t->b) > t->n_blocks) {
            reject(t, r, TWIN_REJECTED_CAPACITY); /* E-P1a */
            continue;
        }
        if ((t->deferred && r->computed < r->prompt) || passed_over(t, r)) {
            i++; /* E-P1 */
            continue;
        }
        if (unchunked_overrun(t, r, r->computed)) {
            break; /* E-P2 */
        }
        uint32_t d = share(t, r, r->computed);
        d = d > 0 ? split(t, r, r->computed, d) : 0;
        if (d == 0) {
            i++; /* E-P3 */
            continue;
        }
        uint32_t target = twin_min(r->computed + d, r->tokens.len);
        uint32_t slots = slots_for(t, r->computed + d, t->native ? t->lookahead : 0);
        uint32_t state = t->stateful ? t->k + twin_state_extra(t, r, target) : 0;
        if (rejects(t) && !fits_alone(t, r, slots, state)) {
            reject(t, r, TWIN_REJECTED_CAPACITY); /* E-S13, N5 */
            continue;
        }
        if (!make_room(t, r, target, slots, &i)) {
            if (t->config.scheduler.self_preemption == AISIM_SELF_PREEMPTION_END_PASS) {
                break; /* R6 */
            }
            continue;
        }
        book(t, r, r->computed, d, slots); /* E-P5 */
        i++;
    }
}

/* E-P8; the last case is the note on chunked_prefill in §2. */
static twin_reason unacceptable(const twin *t, const twin_request *r)
{
    if (r->prompt == 0) {
        return TWIN_REJECTED_EMPTY;
    }
    if (r->prompt >= t->limit) {
        return TWIN_REJECTED_CONTEXT;
    }
    if (!t->config.scheduler.chunked_prefill && t->limit == TWIN_NONE &&
        r->prompt > t->budget_per_pass) {
        return TWIN_REJECTED_BUDGET;
    }
    return TWIN_LIVE;
}

/* E-P12, E-P12b: the whole known context is charged. */
bool twin_gate(const twin *t, const twin_request *r, const twin_hit *hit, bool load)
{
    uint64_t need = twin_ceil(r->tokens.len, t->b), available = t->queue_len;
    need -= twin_min((uint32_t)need, twin_max(hit->active, hit->reserved));
    if (t->stateful) { /* E-S11 */
        need += t->k;
        if (hit->checkpoint != TWIN_NONE) {
            need += twin_queued(t, &t->checkpoints.data[hit->checkpoint].blocks);
        }
        if (hit->partial != TWIN_NONE) {
            need += t->blocks[hit->partial].queued;
        }
    }
    if (load) { /* E-R4 */
        uint64_t headroom = twin_headroom(t);
        available -= headroom < available ? headroom : available;
    }
    return need + twin_reserve_blocks(t) <= available;
}

uint32_t twin_reserve_blocks(const twin *t)
{
    if (t->running.len == 0) {
        return 0;
    }
    return (uint32_t)(t->config.scheduler.watermark * (double)t->n_blocks); /* R3 */
}

typedef enum { ADMITTED, NEXT_HEAD, STOP } outcome;

static void admitted(twin *t, twin_request *r, uint32_t h)
{
    twin_ids_remove(&t->waiting, r->serial);
    twin_ids_remove(&t->skipped, r->serial);
    twin_connector_leave(t, r);
    r->aside = r->loaded = false;
    aisim_array_push(&t->running, r->serial);
    r->status = TWIN_RUNNING;
    twin_item *item = &t->items.data[t->items.len - 1];
    item->admitted = true;
    item->reused = h;
    if (r->admitted_before) {
        aisim_array_push(&r->readmit, h);
    } else {
        r->admitted_before = true;
        r->reused = h; /* E-L4 */
    }
}

/* E-P9: everything is there already. */
static outcome admit_resident(twin *t, twin_request *r)
{
    uint32_t d = r->tokens.len - r->computed;
    if (d > t->budget) {
        return STOP;
    }
    if (d > 0 && !twin_allocate(t, r, r->tokens.len, r->tokens.len)) {
        return STOP;
    }
    book(t, r, r->computed, d, r->tokens.len);
    admitted(t, r, r->prompt);
    return ADMITTED;
}

static outcome admit_with_hit(twin *t, twin_request *r, const twin_hit *hit)
{
    uint32_t h = hit->tokens + hit->external;
    uint32_t first_state = 0;
    if (t->stateful) { /* E-S12 */
        first_state =
            t->k + (hit->checkpoint != TWIN_NONE ? t->k : 0) + (hit->partial != TWIN_NONE);
    }
    bool ahead = t->config.speculation.first_chunk_lookahead || (hit->reserved > 0 && h > 0);
    uint32_t lookahead = t->native && ahead ? t->lookahead : 0; /* R16; mtp.md §9 */
    if (rejects(t) && !fits_alone(t, r, 0, first_state)) {
        reject(t, r, TWIN_REJECTED_CAPACITY); /* E-P11 */
        return NEXT_HEAD;
    }
    uint32_t reserve = twin_reserve_blocks(t);
    bool full = t->config.scheduler.reserve_full_prompt; /* R2 */
    if (full && !twin_gate(t, r, hit, false)) {
        return STOP;
    }
    if (t->deferred && r->tokens.len - h > 1) {
        return STOP; /* E-P13 */
    }
    uint32_t d = share(t, r, h);
    bool padded = t->config.speculation.pad_first_decode && t->depth > 0 && h > 0 &&
                  r->tokens.len - h == 1 && t->prompt_planned == 0 &&
                  h + 1 + t->depth < t->limit; /* N3 */
    if (padded) {
        if (1 + t->depth > t->budget) {
            return STOP;
        }
        d = 1 + t->depth;
    }
    if (unchunked_overrun(t, r, h)) {
        return STOP; /* E-P14 */
    }
    d = d > 0 && !padded ? split(t, r, h, d) : d;
    if (d == 0 && h < r->tokens.len) {
        return STOP;
    }
    uint32_t slots = slots_for(t, h + d, lookahead);
    if (rejects(t) && !fits_alone(t, r, slots, first_state)) {
        reject(t, r, TWIN_REJECTED_CAPACITY); /* N5 */
        return NEXT_HEAD;
    }
    if (!twin_admit_allocate(t, r, hit, twin_min(h + d, r->tokens.len), slots,
                             full ? 0 : reserve)) {
        return STOP; /* N4 */
    }
    if (hit->reserved > 0) { /* offload.md §7.6 */
        r->host_reused = r->admitted_before ? r->host_reused : hit->host;
        r->cursor = h / t->b;
    }
    book(t, r, h, d, slots); /* E-P15 */
    admitted(t, r, h);
    return ADMITTED;
}

static outcome try_head(twin *t, twin_request *r)
{
    twin_reason reason = unacceptable(t, r);
    if (reason != TWIN_LIVE) {
        reject(t, r, reason);
        return NEXT_HEAD;
    }
    if (r->outstanding > 0 || twin_held_back(t, r)) {
        return STOP; /* N1; §15 point 5 */
    }
    if (r->status == TWIN_REMOTE) {
        twin_external_promote(t, r);
    }
    if (!r->loaded && r->computed >= r->prompt && r->watermark >= r->prompt) {
        return admit_resident(t, r);
    }
    twin_hit hit;
    twin_lookup(t, r, &hit); /* E-P10 */
    if (t->external > 0) {
        uint32_t rest = r->tokens.len - hit.tokens;
        hit.external = twin_min(t->external, rest > 0 ? rest - 1 : 0);
    }
    outcome result = STOP;
    if (t->host != NULL) {
        if (rejects(t) && !fits_alone(t, r, 0, 0)) {
            reject(t, r, TWIN_REJECTED_CAPACITY); /* E-P11, before anything is touched */
            twin_hit_free(&hit);
            return NEXT_HEAD;
        }
        int step = twin_connector_examine(t, r, &hit);
        if (step != 0) {
            twin_hit_free(&hit);
            return step == 1 ? NEXT_HEAD : STOP;
        }
    }
    if (t->connector.match != NULL) {
        if (rejects(t) && !fits_alone(t, r, 0, 0)) {
            reject(t, r, TWIN_REJECTED_CAPACITY); /* E-P11, before anything is asked */
            twin_hit_free(&hit);
            return NEXT_HEAD;
        }
        int step = twin_external_examine(t, r, &hit);
        if (step != 0) {
            twin_hit_free(&hit);
            return step == 1 ? NEXT_HEAD : STOP;
        }
    }
    if (!hit.same_pass) {
        r->junction = hit.junction;
        result = admit_with_hit(t, r, &hit);
    }
    if (result == ADMITTED && r->readmit.len == 0 && t->caching) {
        t->totals.lookups++;
        t->totals.lookup_tokens += r->tokens.len;
        t->totals.hit_tokens +=
            hit.reserved > 0 && t->connector.match != NULL ? r->local : hit.tokens;
    }
    twin_hit_free(&hit);
    return result;
}

/* The connector queue first; under `priority` the better of both heads (offload.md §7.5, fact 11).
 */
static twin_request *next_head(const twin *t)
{
    uint32_t serial = t->connector.match == NULL ? twin_connector_head(t) : twin_external_head(t);
    twin_request *ready = serial == TWIN_NONE ? NULL : request_of(t, serial);
    twin_request *waits = t->waiting.len == 0 ? NULL : request_of(t, t->waiting.data[0]);
    if (ready == NULL || waits == NULL) {
        return ready == NULL ? waits : ready;
    }
    return twin_has_priority(t) && twin_before(waits, ready) ? waits : ready;
}

/* Step 2 */
static void schedule_waiting(twin *t)
{
    const aisim_scheduler_config *config = &t->config.scheduler;
    twin_request *head;
    while ((head = next_head(t)) != NULL && t->running.len < config->max_sequences) {
        if ((!config->admit_at_zero_budget || t->host != NULL) && t->budget == 0) {
            break; /* R5 */
        }
        outcome result = try_head(t, head);
        if (result == STOP) {
            break;
        }
        if (result == ADMITTED && t->budget == 0 && t->items.data[t->items.len - 1].tokens == 0) {
            break; /* E-P16 */
        }
    }
}

static void begin(twin *t, bool defer)
{
    t->pass++;
    t->budget = t->budget_per_pass; /* E-P0 */
    t->preempted = false;
    t->deferred = defer;
    t->prompt_planned = 0;
    for (uint32_t i = 0; i < t->items.len;
         i++) { /* copy holds of the last pass, held sources too */
        twin_unref_all(t, &request_of(t, t->items.data[i].serial)->copies);
    }
    t->items.len = 0;
    t->preempted_list.len = 0;
    t->emitted.len = 0;
    t->finished.len = 0;
    t->evicted.len = 0;
    t->flat.len = 0;
    twin_batch batch = {.id = t->next_batch++};
    aisim_array_push(&t->batches, batch);
}

uint32_t twin_plan(twin *t, bool defer_prefill)
{
    begin(t, defer_prefill);
    schedule_running(t);
    if (!t->preempted) {
        schedule_waiting(t); /* E-P6, E-V5 */
    }
    if (t->burst) {
        twin_burst_reserve(t, &t->batches.data[t->batches.len - 1]); /* E-M1 */
    }
    if (!t->deferred && !t->preempted) {
        t->capacity_bound = t->waiting.len + twin_connector_ready(t) > 0; /* E-P17 */
    }
    for (uint32_t i = 0; i < t->running.len; i++) { /* N1: stale unknown drafts */
        twin_request *r = request_of(t, t->running.data[i]);
        if (r->drafts_unknown && r->pass != t->pass) {
            r->drafts = 0;
            r->drafts_unknown = false;
        }
    }
    const twin_batch *batch = &t->batches.data[t->batches.len - 1];
    if (t->host != NULL) {
        twin_connector_close(t);
        t->flying = t->items.len + t->preempted_list.len + batch->rejected.len > 0;
    }
    return batch->id;
}
