/* glide.h - passes in which nothing is decided (ARCHITECTURE §5, engine.md §19.8).
 *
 * While a long prompt is computed chunk by chunk beside a few decoders, or a few requests decode
 * with drafts, most passes differ in numbers only: the same requests are scheduled, nobody joins,
 * ends or is preempted, the prefill takes what the decoders leave of the budget, its blocks come
 * from the old end of the LRU list. A *glide* walks through such passes with a handful of numbers
 * and tells the observers the same facts as single passes would; blocks of the prefill and its
 * stores to host memory (host/host_stream.h) are booked when it ends. A pass that would decide
 * anything (last chunk, last token, an admission, a lack of blocks) is left to aisim_rank_plan.
 * With a state cache only decoders glide; they and their states are booked in every pass, in the
 * order of a plan, so that eviction meets the list it would have met.
 * Decoders alone, without a host tier, are booked pass by pass anyway: then an active observer may
 * hear of the pass ends (`heard`) and finds everything in its place. Whoever walks looks after each
 * pass whether it asked for something.
 *
 *     begin -> { plan -> commit }* -> end
 *
 * Between begin and end the rank's numbers are stale unless it is heard, so nobody but observers
 * that are `passive` may look. A pass costs O(requests scheduled), without any O(extents). */
#ifndef AISIM_SCHED_GLIDE_H
#define AISIM_SCHED_GLIDE_H

#include "host/host_stream.h"
#include "sched/plan.h"

enum { AISIM_GLIDERS = 16 }; /* beyond, cruising is the better way (sched/cruise.h) */

typedef struct aisim_glider {
    aisim_request *request;
    uint64_t draws;     /* key of them (mtp.md §2) */
    uint64_t room;      /* tokens that its blocks hold … */
    uint32_t quiet;     /* … and with L below this, a pass moves nothing of it but A and C */
    uint32_t recurrent; /* record of its state, AISIM_NONE = no state cache */
    uint32_t emits;     /* tokens of the pass that is planned */
} aisim_glider;

typedef struct aisim_glide {
    aisim_rank *rank;
    uint32_t n;
    aisim_glider decoders[AISIM_GLIDERS]; /* in running order */
    uint32_t width;                       /* tokens a decoder computes */
    uint32_t lookahead;
    aisim_request *prefill; /* NULL = none */
    uint32_t chunk;         /* its tokens per pass: all that is left of the budget */
    uint32_t computed;      /* its C */
    uint64_t owned;         /* its blocks */
    uint64_t free;          /* blocks of the pool without identity */
    uint64_t clean;         /* blocks at the old end of the LRU list that simply go */
    uint64_t inactive;
    uint64_t fresh; /* blocks of the pass that is planned */
    bool states;    /* a state cache: all blocks are the pool's own numbers */
    bool stores;    /* the prefill goes to the host tier */
    bool heard;     /* an active observer is called at each pass end */
    aisim_host_stream stream;
    aisim_pass_shape shape; /* of the pass that is planned */
    uint32_t passes;
} aisim_glide;

/** @return false: the next pass is no such pass, nothing to end. */
bool aisim_glide_begin(aisim_glide *glide, aisim_rank *rank, int64_t t_ns);

/** The next pass. Changes nothing but the glide. @return NULL: it decides something */
const aisim_pass_shape *aisim_glide_plan(aisim_glide *glide);

/** The planned pass runs from begin to end. */
void aisim_glide_commit(aisim_glide *glide, int64_t begin_ns, int64_t end_ns);

/** The rank is as if each pass had been planned and completed. */
void aisim_glide_end(aisim_glide *glide);

/** Inside the glide (glide_decoders.c). Tokens that need storage when `tokens` are computed, the
 *  look-ahead included. */
static inline uint32_t aisim_glide_slots(const aisim_glide *glide, uint32_t tokens)
{
    uint32_t slots = tokens + glide->lookahead, limit = aisim_rank_limit(glide->rank);
    return slots < limit ? slots : limit;
}

/** Blocks that are missing for them beyond those owned. */
uint64_t aisim_glide_missing(const aisim_glide *glide, uint32_t tokens, uint64_t owned);

/** mtp.md §3 for all decoders: adds to shape and fresh. @return false: one of them would end, or
 *  have fewer drafts */
bool aisim_glide_plan_decoders(aisim_glide *glide);

/** E-P4, E-P5, E-K3: their blocks and states of the planned pass. */
void aisim_glide_book_decoders(aisim_glide *glide);

/** E-O1, E-M3: their tokens. */
void aisim_glide_advance_decoders(aisim_glide *glide, int64_t end_ns, aisim_pass_facts *facts);

#endif
