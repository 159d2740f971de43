/* points.h - scheduler points: decisions of a rank that somebody else may take (spec/lua-api.md
 * §7).
 *
 * Set per pool with aisim_sim_points(). A point that is not set costs one bit test and the rule of
 * spec/engine.md named beside it decides. Every answer is checked against the invariants of the
 * pass; one that breaks them ends the run with a message that names point, time, rank and request;
 * nothing is corrected. A function that fails fills err, its answer is then ignored.
 *
 *   order   E-V2    place in the waiting queue, smaller first; asked once per enqueue (an arrival,
 *                   a preemption, a new priority). Any finite number. Equal numbers stand as
 *                   without the point.
 *   admit   E-P12   the head of the queue, just before the admission gate, which still has to open.
 *                   Not asked for a request whose blocks are there already (hand-off, finished host
 *                   load).
 *   victim  E-V1    one of the running requests; asked each time blocks run out.
 *   chunk   E-P2    tokens of a prefill chunk, 0 .. most; 0 = nothing in this pass (at admission:
 *                   step 2 ends). Prompts and contexts that are computed again, never decodes. A
 *                   state cache may still shorten the chunk (E-P3). Needs chunked_prefill.
 *   evict   E-B7    what a cached block is worth: the smallest finite score goes first. Needs
 *                   kv_cache.eviction = scored; the order of eviction is told in kv/extent_score.c.
 *
 * A rank on which SKIP, STOP or 0 leave nothing to compute rests until something happens to it (an
 * arrival, a cancellation); if nothing ever does, the run ends and says which point kept it (E-T8).
 *
 * Price: order, admit, chunk, evict keep every fast path. victim makes a pass touch each running
 * request (no cruising: any of them may be chosen). evict is called once per block that goes and
 * once per cached stretch each time blocks run out. */
#ifndef AISIM_POINTS_H
#define AISIM_POINTS_H

#include <stdint.h>

#include "aisim/request.h"
#include "aisim/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    AISIM_POINT_ORDER,
    AISIM_POINT_ADMIT,
    AISIM_POINT_VICTIM,
    AISIM_POINT_CHUNK,
    AISIM_POINT_EVICT,
    AISIM_POINTS_COUNT
} aisim_point;

#define AISIM_POINT_BIT(point) (UINT32_C(1) << (point))

/** "order", …; never NULL. */
const char *aisim_point_text(aisim_point point);

/** Where and when a point is asked. */
typedef struct aisim_point_site {
    int64_t t_ns;                 /**< begin of the pass; order: now */
    uint32_t rank;                /**< global, from 0 */
    const aisim_request *request; /**< NULL: evict, victim of a burst */
} aisim_point_site;

typedef enum { AISIM_ADMIT_YES, AISIM_ADMIT_SKIP, AISIM_ADMIT_STOP } aisim_admit_answer;

/** A running request that could be the victim. */
typedef struct aisim_candidate {
    const aisim_request *request; /**< its numbers are up to date */
    uint64_t blocks;              /**< it owns, shared ones included */
} aisim_candidate;

typedef struct aisim_victims {
    uint32_t n;                  /**< >= 1 */
    const aisim_candidate *list; /**< in running order; valid during the call */
    uint32_t needs;              /**< entry for which blocks are wanted; UINT32_MAX = for several */
} aisim_victims;

/** A cached block that nobody uses. */
typedef struct aisim_cached {
    int64_t age_ns; /**< since it was released last */
    uint32_t depth; /**< blocks before it on its prompt */
    uint32_t reuse; /**< requests that have reused it */
} aisim_cached;

/** The functions of one pool. NULL = not set. */
typedef struct aisim_points {
    void *context;
    double (*order)(void *context, const aisim_point_site *site, aisim_error *err);
    aisim_admit_answer (*admit)(void *context, const aisim_point_site *site, uint64_t need_blocks,
                                uint64_t free_blocks, aisim_error *err);
    uint32_t (*victim)(void *context, const aisim_point_site *site, const aisim_victims *victims,
                       aisim_error *err); /**< index into victims->list */
    uint32_t (*chunk)(void *context, const aisim_point_site *site, uint32_t budget,
                      uint32_t remaining, aisim_error *err); /**< 0 .. min of both */
    double (*evict)(void *context, const aisim_point_site *site, const aisim_cached *block,
                    aisim_error *err);
    /** Where each function was written, for messages; file NULL = nowhere. Owned with the context.
     */
    struct {
        const char *file;
        int line;
    } place[AISIM_POINTS_COUNT];
} aisim_points;

/** Fills err: "FILE:LINE: scheduler point 'chunk' returned WHAT at t=… ms on rank R for request N;
 *  EXPECTED". For functions that find their own answer to be of no use. */
void aisim_points_refuse(const aisim_points *points, aisim_point point,
                         const aisim_point_site *site, const char *what, const char *expected,
                         aisim_error *err);

#ifdef __cplusplus
}
#endif
#endif
