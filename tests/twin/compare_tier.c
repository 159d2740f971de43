/* compare_tier.c - the clock of a comparison with a host tier: passes take time, transfers end
 * inside and between them, a peer uses the shared pool, and both sides must see the same. */
#include "base/clock.h"
#include "base/rng.h"
#include "compare_internal.h"

static bool has_tier(const compare_runner *r)
{
    return r->c->config.host.scope != AISIM_HOST_NONE;
}

static bool is_shared(const compare_runner *r)
{
    return r->c->config.host.scope == AISIM_HOST_CLUSTER_SHARED;
}

static void set_time(compare_runner *r, int64_t t_ns)
{
    r->now_ns = t_ns;
    twin_set_time(r->twin, t_ns);
    engine_set_time(r->engine, t_ns);
}

/* A number of the pass, the same in every run of the case. */
static uint32_t draw(const compare_runner *r, uint32_t salt, uint32_t n)
{
    return (uint32_t)(aisim_mix64((uint64_t)r->pass << 8 | salt) % n);
}

static bool next_transfer(compare_runner *r, int64_t *next_ns)
{
    *next_ns = twin_next_transfer(r->twin);
    return compare_equal(r, "next transfer", 0, (uint64_t)*next_ns,
                         (uint64_t)engine_next_transfer(r->engine));
}

/* The next end of a transfer happens; nothing is in flight. */
static bool one_transfer(compare_runner *r, int64_t at_ns)
{
    set_time(r, at_ns > r->now_ns ? at_ns : r->now_ns);
    bool woken = twin_transfers(r->twin, r->now_ns);
    compare_count(r, COMPARE_transfers_between, 1);
    return compare_equal(r, "woken", 0, woken, engine_transfers(r->engine, r->now_ns)) &&
           compare_same_state(r);
}

bool compare_rest(compare_runner *r, bool idle)
{
    if (!has_tier(r)) {
        return true;
    }
    r->where = "rest";
    int64_t next_ns, until_ns = r->now_ns;
    if (draw(r, 1, 3) == 0) {
        until_ns += (int64_t)r->c->gap_ns * draw(r, 2, 5);
    }
    if (!next_transfer(r, &next_ns)) {
        return false;
    }
    if (idle && next_ns != AISIM_NEVER && next_ns > until_ns) {
        until_ns = next_ns; /* only sleepers: the clock jumps (§7.5) */
    }
    while (next_ns <= until_ns) {
        if (!one_transfer(r, next_ns) || !next_transfer(r, &next_ns)) {
            return false;
        }
    }
    set_time(r, until_ns);
    if (is_shared(r)) { /* the link's clock stands there too */
        twin_flow(r->twin, until_ns);
        engine_flow(r->engine, until_ns);
    }
    return true;
}

bool compare_begin_flight(compare_runner *r, bool vain)
{
    r->end_ns = r->now_ns;
    if (!has_tier(r) || vain) {
        return true; /* E-T8: no pass, no time */
    }
    int64_t fence_ns = twin_fence(r->twin);
    int64_t length_ns = (int64_t)r->c->pass_ns * (1 + draw(r, 3, 4));
    compare_count(r, COMPARE_fenced, fence_ns > r->now_ns);
    r->end_ns = (fence_ns > r->now_ns ? fence_ns : r->now_ns) + length_ns;
    set_time(r, r->now_ns + length_ns / 2);
    if (is_shared(r)) {
        twin_flow(r->twin, r->now_ns);
        engine_flow(r->engine, r->now_ns);
    }
    return compare_equal(r, "fence", 0, (uint64_t)fence_ns, (uint64_t)engine_fence(r->engine));
}

void compare_end_flight(compare_runner *r)
{
    if (has_tier(r) && r->end_ns > r->now_ns) {
        set_time(r, r->end_ns);
    }
}

bool compare_peers(compare_runner *r)
{
    for (uint32_t i = 0; is_shared(r) && i < r->c->peers.len; i++) {
        const compare_peer *p = &r->c->peers.data[i];
        if (p->pass != r->pass || p->in_flight != r->in_flight ||
            p->request >= r->c->requests.len) {
            continue;
        }
        const compare_request *q = &r->c->requests.data[p->request];
        uint32_t serial = r->rows[p->request].serial, keys = q->prompt.len;
        keys /= r->c->config.kv.block_size;
        uint32_t end = p->end < keys ? p->end : keys;
        if (serial == COMPARE_NONE || p->first >= end) {
            continue;
        }
        bool began = p->load ? twin_peer_load(r->twin, serial, p->first, end)
                             : twin_peer_store(r->twin, serial, p->first, end);
        bool other = p->load ? engine_peer_load(r->engine, serial, p->first, end)
                             : engine_peer_store(r->engine, serial, p->first, end);
        compare_count(r, COMPARE_peer_transfers, began);
        if (!compare_equal(r, "peer transfer", q->id, began, other)) {
            return false;
        }
    }
    return true;
}

/* ---- state ----------------------------------------------------------------------------------- */

static bool same_changes(compare_runner *r, const twin_host_view *want, const twin_host_view *have)
{
    for (uint32_t i = 0; i < want->n_changes && i < have->n_changes; i++) {
        compare_count(r, COMPARE_host_evicted, !want->changes[i].stored);
        if (!compare_equal(r, "host change stored", i, want->changes[i].stored,
                           have->changes[i].stored) ||
            !compare_same_names(r, "host change", &want->changes[i].block, 1,
                                &have->changes[i].block, 1)) {
            return false;
        }
    }
    return compare_equal(r, "host changes", 0, want->n_changes, have->n_changes);
}

static bool same_queue(compare_runner *r, const twin_host_view *want, const twin_host_view *have)
{
    for (uint32_t i = 0; i < want->n_queue && i < have->n_queue; i++) {
        if (!compare_equal(r, "connector queue", i, want->queue[i].id, have->queue[i].id) ||
            !compare_equal(r, "connector stage", want->queue[i].id, want->queue[i].value,
                           have->queue[i].value)) {
            return false;
        }
        compare_count(r, COMPARE_asleep, want->queue[i].value == 0);
        compare_count(r, COMPARE_loading, want->queue[i].value == 2);
        compare_count(r, COMPARE_loaded, want->queue[i].value == 3);
    }
    return compare_equal(r, "connector queue", UINT64_MAX, want->n_queue, have->n_queue);
}

bool compare_same_tier(compare_runner *r)
{
    if (!has_tier(r)) {
        return true;
    }
    twin_host_view want, have;
    twin_host_look(r->twin, &want);
    engine_host_look(r->engine, &have);
    compare_count(r, COMPARE_headroom, want.headroom > 0);
    return same_changes(r, &want, &have) && same_queue(r, &want, &have) &&
           compare_equal(r, "host used", 0, want.used, have.used) &&
           compare_equal(r, "host pending", 0, want.pending, have.pending) &&
           compare_equal(r, "host pinned", 0, want.pinned, have.pinned) &&
           compare_equal(r, "host evicted", 0, want.evicted, have.evicted) &&
           compare_equal(r, "host stored", 0, want.stored, have.stored) &&
           compare_equal(r, "headroom", 0, want.headroom, have.headroom) &&
           compare_same_names(r, "host order", want.order, want.n_order, have.order, have.n_order);
}
