/* cruise.h - steady decoders: requests to which nothing happens in most passes (ARCHITECTURE §5).
 *
 * A request that decodes one token a pass needs attention only when a block fills up (it is
 * published), when the next one is opened (it is allocated, a recurrent state may rotate), and when
 * it ends. In between its numbers follow from the number of passes: C and L grow by one each. So it
 * *cruises*: the rank counts passes, sums up contexts, and finds who is due in a wheel of buckets,
 * one per pass. A pass costs O(due) instead of O(running).
 *
 * Cruisers are always the first n_cruisers of the running list, so whatever they do stands before
 * everything else in a pass, in running order, exactly as the plain loop does it. Whenever the
 * plain loop could decide otherwise (not enough budget or blocks for all of them, a listener for
 * each token) the cruise is dissolved first and the plain loop runs. Cruising needs: no
 * speculation, no overlap, fcfs with lifo victims and no point `victim` (a victim is then never a
 * cruiser while others run).
 *
 * request.computed, generated, lease.allocated and last_token_ns of a cruiser are stale between its
 * due passes; aisim_cruise_sync brings them up to date. */
#ifndef AISIM_SCHED_CRUISE_H
#define AISIM_SCHED_CRUISE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "base/map.h"

struct aisim_rank;
struct aisim_pass_facts;

typedef struct aisim_cruiser {
    uint32_t slot;   /* request; AISIM_NONE = has left, the wheel forgets it when it comes by */
    uint32_t next;   /* in its bucket, or free list */
    uint64_t synced; /* rank->cruise.passes when the request's numbers were right */
    uint64_t due;    /* passes value before the pass in which it needs attention */
} aisim_cruiser;

typedef struct aisim_cruise {
    AISIM_ARRAY(aisim_cruiser) cruisers;
    AISIM_ARRAY(uint32_t) due;      /* cruisers that need attention in the pass in flight */
    AISIM_ARRAY(uint32_t) trailing; /* request slots: may have a previous state to give back */
    AISIM_ARRAY(uint64_t) keys;     /* scratch: (position, cruiser) */
    uint32_t *wheel;                /* first cruiser of each bucket */
    uint32_t buckets;               /* power of two > block size + 1 */
    uint32_t free_cruiser;
    uint32_t n;         /* cruisers = first n of the running list */
    uint64_t passes;    /* completed passes with cruisers */
    uint64_t known_sum; /* sum of L over cruisers */
} aisim_cruise;

void aisim_cruise_init(struct aisim_rank *rank);
void aisim_cruise_deinit(struct aisim_rank *rank);

/** Step 1 of a pass for the cruisers. @return false: the plain loop has to do it (dissolved). */
bool aisim_cruise_plan(struct aisim_rank *rank);

/** One token for each cruiser; ends those that have all. */
void aisim_cruise_complete(struct aisim_rank *rank, int64_t end_ns, struct aisim_pass_facts *facts);

/** Running requests behind the cruisers join them as long as they are steady. After each pass. */
void aisim_cruise_join(struct aisim_rank *rank);

/** Brings the numbers of a running request up to date; no-op for others. */
void aisim_cruise_sync(const struct aisim_rank *rank, uint32_t slot);
void aisim_cruise_sync_all(const struct aisim_rank *rank);

/** A cruiser leaves the running list (cancelled): its numbers are brought up to date. */
void aisim_cruise_leave(struct aisim_rank *rank, uint32_t slot);

/** All cruisers become ordinary running requests. */
void aisim_cruise_dissolve(struct aisim_rank *rank);

#endif
