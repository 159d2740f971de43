/* requests.c - slots with a free list threaded through the dead records. */
#include "sched/requests.h"

#include "base/check.h"

void aisim_requests_init(aisim_requests *table)
{
    *table = (aisim_requests){.free_slot = AISIM_NONE, .next_id = 1};
}

void aisim_requests_deinit(aisim_requests *table)
{
    for (uint32_t i = 0; i < table->chunks.len; i++) {
        aisim_free(table->chunks.data[i]);
    }
    aisim_array_free(&table->chunks);
}

uint32_t aisim_requests_take(aisim_requests *table)
{
    uint32_t slot = table->free_slot;
    if (slot == AISIM_NONE) {
        slot = table->slots++;
        if (slot % AISIM_REQUEST_CHUNK == 0) {
            aisim_request *chunk = aisim_alloc_zero(AISIM_REQUEST_CHUNK, sizeof *chunk);
            aisim_array_push(&table->chunks, chunk);
        }
    } else {
        table->free_slot = aisim_requests_at(table, slot)->position;
    }
    aisim_request *r = aisim_requests_at(table, slot);
    *r = (aisim_request){.generation = r->generation + 1,
                         .id = table->next_id++,
                         .arrival_ns = -1,
                         .dispatched_ns = -1,
                         .first_admit_ns = -1,
                         .first_token_ns = -1,
                         .second_token_ns = -1,
                         .last_token_ns = -1,
                         .waiting_since_ns = -1,
                         .position = AISIM_NONE,
                         .rank = AISIM_NONE,
                         .client = AISIM_NO_CLIENT,
                         .lease = {.owner = slot}};
    table->live++;
    return slot;
}

uint32_t aisim_requests_shadow(aisim_requests *table, uint32_t of)
{
    uint32_t next_id = table->next_id;
    uint32_t slot = aisim_requests_take(table);
    const aisim_request *r = aisim_requests_at(table, of);
    aisim_request *shadow = aisim_requests_at(table, slot);
    table->next_id = next_id;
    table->shadows++;
    shadow->id = 0;
    shadow->cookie = of;
    shadow->arrival_ns = r->arrival_ns;
    shadow->prompt_tokens = r->prompt_tokens;
    shadow->output_tokens = r->output_tokens;
    shadow->generated = r->generated;
    shadow->priority = r->priority;
    shadow->flags = r->flags & AISIM_REQF_NO_READ;
    shadow->lease.run = r->lease.run;
    return slot;
}

void aisim_requests_give(aisim_requests *table, uint32_t slot)
{
    aisim_request *r = aisim_requests_at(table, slot);
    table->shadows -= r->id == 0;
    r->generation++; /* handles go stale at once */
    r->state = AISIM_REQ_DONE;
    r->position = table->free_slot;
    table->free_slot = slot;
    AISIM_CHECK(table->live > 0);
    table->live--;
}

const char *aisim_end_reason_text(aisim_end_reason reason)
{
    static const char *const texts[] = {"",        "length",   "context",   "cancelled", "empty",
                                        "context", "capacity", "admission", "router",    "failed"};
    return texts[reason];
}

const char *aisim_event_hook(aisim_event_type type)
{
    static const char *const names[] = {
#define X(name, hook) hook,
        AISIM_EVENT_LIST(X)
#undef X
    };
    return names[type];
}
