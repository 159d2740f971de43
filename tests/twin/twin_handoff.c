/* twin_handoff.c - both ends of a prefill/decode handoff (§15).
 *
 * Destination: reservations wait in order of arrival; the first that does not fit holds back the
 * others. Resident pages are pinned, the rest is taken fresh and has to be transferred. Source: a
 * request submitted with `hold` keeps its lease when it finishes until it is released. */
#include "base/check.h"
#include "twin_host.h"

static twin_request *live(const twin *t, uint32_t id)
{
    uint32_t serial = aisim_map_get(&t->live, id, 0);
    return serial == AISIM_NONE ? NULL : t->requests.data[serial];
}

static bool try_reserve(twin *t, twin_request *r)
{
    twin_hit hit = {.partial = TWIN_NONE, .checkpoint = TWIN_NONE};
    for (uint32_t end = t->b; t->caching && end <= r->prompt; end += t->b) {
        uint32_t node = twin_node_at(t, r, end);
        const twin_ids *copies = &t->nodes.data[node].copies;
        if (copies->len == 0) {
            break;
        }
        aisim_array_push(&hit.blocks, copies->data[0]);
    }
    bool fits = twin_admit_allocate(t, r, &hit, r->prompt, r->prompt, 0);
    if (fits) {
        r->missing = (r->blocks.len - hit.blocks.len) * t->b;
        r->status = TWIN_RESERVED;
    }
    twin_hit_free(&hit);
    return fits;
}

void twin_retry_reservations(twin *t)
{
    if (twin_connector_preparing(t)) {
        return; /* offload.md §7.5: those blocks are copied out when the pass has ended */
    }
    while (t->pending.len > 0 && try_reserve(t, t->requests.data[t->pending.data[0]])) {
        aisim_array_remove(&t->pending, 0);
    }
}

/* Point 5: a fresh prompt does not overtake a reservation that waits. */
bool twin_held_back(const twin *t, const twin_request *r)
{
    for (uint32_t i = 0; i < t->pending.len; i++) {
        if (r->status == TWIN_WAITING && r->computed < r->prompt &&
            t->requests.data[t->pending.data[i]]->ordinal < r->ordinal) {
            return true;
        }
    }
    return false;
}

bool twin_reserve(twin *t, const twin_submit_args *args)
{
    uint32_t limit = t->limit;
    if (args->prompt_len == 0 || args->prompt_len >= limit ||
        twin_ceil(args->prompt_len, t->b) + (t->stateful ? t->k : 0) > t->n_blocks) {
        return false;
    }
    twin_submit_args blocked = *args;
    blocked.blocked = true;
    uint32_t serial = twin_submit(t, &blocked);
    if (serial == TWIN_NONE) {
        return false;
    }
    twin_request *r = t->requests.data[serial];
    twin_ids_remove(&t->skipped, serial);
    r->blocked = false;
    r->status = TWIN_PENDING;
    aisim_array_push(&t->pending, serial);
    twin_retry_reservations(t);
    return true;
}

bool twin_activate(twin *t, uint32_t id)
{
    twin_request *r = live(t, id);
    if (r == NULL || r->status != TWIN_RESERVED) {
        return false;
    }
    r->status = TWIN_WAITING;
    r->computed = r->watermark = r->prompt;
    twin_publish(t, r, r->prompt);
    twin_insert_waiting(t, r);
    return true;
}

bool twin_release_source(twin *t, uint32_t id)
{
    twin_request *r = live(t, id);
    if (r == NULL || r->status != TWIN_HELD) {
        return false;
    }
    twin_leave(t, r, r->reason);
    twin_retry_reservations(t);
    return true;
}
