/* twin_external.c - requests that a connector outside of the twin holds up (twin_external.h).
 *
 * They stand in the second queue (`aside`): asked in vain in this pass, loading, or loaded and not
 * yet admitted. Everything is searched anew. */
#include "twin_external.h"

#include "base/check.h"
#include "twin_host.h"

void twin_set_connector(twin *t, const twin_connector *connector)
{
    AISIM_CHECK(t->host == NULL && !t->stateful && t->requests.len == 0);
    t->connector = *connector;
}

/* ---- the second queue ------------------------------------------------------------------------ */

/* Worth examining in this pass (fact 11). */
static bool ready(const twin *t, const twin_request *r)
{
    return r->aside && r->asked != t->pass && (r->status != TWIN_REMOTE || r->received);
}

uint32_t twin_external_head(const twin *t)
{
    for (uint32_t i = 0; i < t->skipped.len; i++) {
        if (ready(t, t->requests.data[t->skipped.data[i]])) {
            return t->skipped.data[i];
        }
    }
    return TWIN_NONE;
}

uint32_t twin_external_ready(const twin *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->skipped.len; i++) {
        const twin_request *r = t->requests.data[t->skipped.data[i]];
        n += r->aside && (r->status != TWIN_REMOTE || r->received);
    }
    return n;
}

static void put_aside(twin *t, twin_request *r)
{
    if (!r->aside) {
        twin_ids_remove(&t->waiting, r->serial);
        twin_insert_skipped(t, r);
        r->aside = true;
    }
}

/* ---- loads ----------------------------------------------------------------------------------- */

/* E-R2: what requests with a load under way, or loaded and not admitted, will need yet. */
uint64_t twin_external_headroom(const twin *t)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->skipped.len; i++) {
        const twin_request *r = t->requests.data[t->skipped.data[i]];
        uint32_t wanted = twin_footprint(t, r);
        if ((r->status == TWIN_REMOTE || r->loaded) && wanted > r->blocks.len) {
            sum += wanted - r->blocks.len;
        }
    }
    return sum;
}

static bool begin_load(twin *t, twin_request *r, const twin_hit *hit, uint32_t tokens)
{
    uint32_t end = hit->tokens + tokens;
    uint64_t kept = 0;
    if (t->config.scheduler.reserve_full_prompt) { /* facts 16, 20 */
        if (!twin_gate(t, r, hit, true)) {
            return false;
        }
    } else {
        kept = twin_headroom(t) + twin_reserve_blocks(t);
    }
    /* fact 63: no look-ahead while a load is pending */
    if (kept > t->queue_len || !twin_admit_allocate(t, r, hit, end, end, (uint32_t)kept)) {
        return false;
    }
    put_aside(t, r);
    r->status = TWIN_REMOTE;
    r->computed = end;
    r->local = hit->tokens;
    return true;
}

/* The load has ended: what was loaded can be found from now on (fact 79), and at least one token is
 * left to run (fact 82). */
void twin_external_promote(twin *t, twin_request *r)
{
    AISIM_CHECK(r->received);
    r->received = false;
    r->loaded = true;
    r->status = r->preemptions > 0 ? TWIN_PREEMPTED : TWIN_WAITING;
    twin_publish(t, r, r->computed);
    uint32_t most = r->tokens.len - 1;
    if (t->connector.whole_block) { /* R22 */
        most = most / t->b * t->b;
    }
    r->computed = twin_min(r->computed, most);
}

int twin_external_examine(twin *t, twin_request *r, twin_hit *hit)
{
    if (r->loaded) {
        twin_hit_free(hit);
        *hit = (twin_hit){.tokens = r->computed,
                          .reserved = r->blocks.len,
                          .partial = TWIN_NONE,
                          .checkpoint = TWIN_NONE};
        return 0;
    }
    twin_offer offer = t->connector.match(t->connector.context, r->serial, hit->tokens);
    uint32_t rest = r->tokens.len - hit->tokens;
    if (offer.ask_again) {
        put_aside(t, r);
        r->asked = t->pass;
        return 1;
    }
    if (!offer.async || offer.tokens == 0) {
        hit->external = twin_min(offer.tokens, rest > 0 ? rest - 1 : 0);
        return 0;
    }
    return begin_load(t, r, hit, twin_min(offer.tokens, rest)) ? 1 : 2;
}

bool twin_received(twin *t, uint32_t serial)
{
    if (serial >= t->requests.len) {
        return false;
    }
    twin_request *r = t->requests.data[serial];
    if (r->status == TWIN_REMOTE && !r->received) {
        r->received = true;
        return true;
    }
    return twin_let_go(t, serial);
}

/* ---- ends ------------------------------------------------------------------------------------ */

bool twin_external_keeps(twin *t, twin_request *r)
{
    if (t->connector.match == NULL || r->blocks.len == 0) {
        return false;
    }
    if (r->status == TWIN_REMOTE && !r->received) {
        return !t->connector.drop_cancelled; /* R24 */
    }
    return t->connector.keeps != NULL && t->connector.keeps(t->connector.context, r->serial);
}

bool twin_let_go(twin *t, uint32_t serial)
{
    if (serial >= t->requests.len || !t->requests.data[serial]->kept) {
        return false;
    }
    t->requests.data[serial]->kept = false;
    twin_release(t, t->requests.data[serial]);
    twin_retry_reservations(t);
    return true;
}

bool twin_preempt_now(twin *t, uint32_t id)
{
    uint32_t serial = aisim_map_get(&t->live, id, 0);
    if (serial == AISIM_NONE || t->requests.data[serial]->status != TWIN_RUNNING) {
        return false;
    }
    t->requests.data[serial]->pass = 0; /* no part of any pass */
    twin_preempt(t, t->requests.data[serial], false);
    return true;
}
