/* engine_internal.h - the state of the engine double, shared by its two files. */
#ifndef AISIM_ENGINE_INTERNAL_H
#define AISIM_ENGINE_INTERNAL_H

#include "engine_double.h"

#include "base/map.h"
#include "sched/rank.h"

typedef struct engine_hash {
    uint32_t run;
    uint64_t hash;
} engine_hash;

typedef struct engine_copies {
    AISIM_ARRAY(uint32_t) by; /* request ids */
} engine_copies;

typedef struct engine_row {
    twin_view view;
    uint32_t slot, generation; /* while live */
    uint32_t run;              /* leaf of its path; kept alive */
    AISIM_ARRAY(uint32_t) readmit;
} engine_row;

struct twin {
    aisim_engine engine;
    aisim_rank rank;
    AISIM_ARRAY(engine_row) rows;
    aisim_map live;                    /* id -> serial */
    AISIM_ARRAY(uint32_t) held;        /* content runs */
    aisim_map pages;                   /* extent of a partial page -> its publisher */
    aisim_map publishers;              /* (run, block) -> entry of names_ever */
    AISIM_ARRAY(twin_name) names_ever; /* first publisher of each identity */
    AISIM_ARRAY(engine_copies) copies; /* publishers of its copies, oldest first, by same index */
    twin_record record;
    AISIM_ARRAY(twin_item) items;
    AISIM_ARRAY(twin_pair) preempted;
    AISIM_ARRAY(twin_pair) finished;
    AISIM_ARRAY(twin_emitted) emitted;
    AISIM_ARRAY(twin_name) evicted;
    AISIM_ARRAY(twin_name) names;
    AISIM_ARRAY(twin_event) events;
    AISIM_ARRAY(uint32_t) serials; /* scratch */
    AISIM_ARRAY(uint32_t) batches; /* engine batch of each plan */
    uint64_t preemptions, lookups, lookup_tokens, hit_tokens;
    AISIM_ARRAY(aisim_lease) parts;  /* block handles of the pool vectors */
    AISIM_ARRAY(engine_hash) hashes; /* their published hashes */
    int64_t now_ns;
    AISIM_ARRAY(twin_pair) order; /* running when planned: serial, generated */
    bool derive;                  /* deliveries are derived, not listened to */
    bool quiet;                   /* nobody looks: items and deliveries are left out */
    uint32_t verified, accepted;  /* of the verification under way */
    bool given;                   /* results came from the caller */
    aisim_host *peer;             /* second client of a shared pool */
    AISIM_ARRAY(twin_name) host_order;
    AISIM_ARRAY(twin_host_event) host_told;
    AISIM_ARRAY(twin_pair) host_queue;
};

/** With `on` the passes from here on leave out items and deliveries, so that nothing brings the
 * numbers of steady decoders up to date (sched/cruise.h). */
void engine_set_quiet(twin *t, bool on);
/** A listener for each token comes or goes: requests stop or start cruising. */
void engine_listen(twin *t, bool on);

/** Serial of a request of the rank. */
static inline uint32_t serial_of(const twin *t, const aisim_request *r)
{
    (void)t;
    return (uint32_t)r->cookie;
}

/** Brings a row up to date with its live request. */
void engine_refresh(twin *t, uint32_t serial);
/** Entry of names_ever for a block; a new one is named after the publisher. */
uint32_t engine_identity_of(twin *t, uint32_t run, uint32_t block, uint32_t publisher);
/** engine_tier.c: the host tier of the configuration. */
void engine_tier_new(twin *t);
void engine_tier_free(twin *t);
/** Reads what the pool has logged since the last time into the record. */
void engine_read_log(twin *t);

#endif
