/* gaps.h - pooled token gaps of the requests that end up in the cohort, without work per token.
 *
 * In steady decode all requests of a rank have the same gap in each pass. The engine reports it
 * once (aisim_pass_facts.gap_ns) and names only the exceptions (GAP events). Whether a request
 * counts is known at its end. So this keeps, per rank, the passes that delivered tokens since the
 * oldest live request began to decode, with a difference array of how many counted requests decoded
 * in them: one request costs O(log passes) at its end, one pass costs one entry, and a pass that
 * nobody can change any more becomes one weighted addition to the digest.
 *
 * A request is a chain of segments (rank, from, to]: it starts at the first token; an irregular gap
 * closes one segment and opens the next. Tokens that came together with another one have gaps of 0:
 * tokens - 1 - passes - irregular gaps. Rules: spec/report.md §1 token gap, §3 cohort. */
#ifndef AISIM_METRICS_GAPS_H
#define AISIM_METRICS_GAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "metrics/digest.h"

typedef struct aisim_gap_node { /* begin of a segment */
    int64_t from_ns;
    int64_t gap_ns; /* irregular gap that ended at from_ns; -1 = first token */
    uint32_t rank;
    uint32_t next; /* circular while the request lives: a request is known by its last node */
} aisim_gap_node;

typedef struct aisim_gap_pass {
    int64_t end_ns, gap_ns;
    int64_t change; /* of the number of counted requests, from here on */
} aisim_gap_pass;

typedef struct aisim_gap_start { /* segments that begin at from_ns and are not settled */
    int64_t from_ns;
    uint32_t n;
} aisim_gap_start;

typedef struct aisim_gap_rank {
    AISIM_ARRAY(aisim_gap_pass) passes; /* end_ns ascending */
    AISIM_ARRAY(aisim_gap_start) starts;
    uint32_t first_pass, first_start; /* what stands before is done with */
    uint32_t flush_at;                /* length of passes at which to try */
    int64_t counted;                  /* counted requests in the pass before first_pass */
    int64_t next_change;              /* for the pass to come */
} aisim_gap_rank;

typedef struct aisim_gap_end { /* a counted request whose last pass may not have ended */
    int64_t last_ns;
    uint32_t chain; /* last node */
    uint32_t tokens;
} aisim_gap_end;

typedef struct aisim_gaps {
    aisim_digest pooled; /**< ms; complete after aisim_gaps_finish */
    int64_t zeros;       /* gaps of 0 not yet in pooled */
    AISIM_ARRAY(aisim_gap_rank) ranks;
    AISIM_ARRAY(aisim_gap_node) nodes;
    uint32_t free_node; /* list through next */
    aisim_map chains;   /* request id -> last node */
    AISIM_ARRAY(aisim_gap_end) ended;
} aisim_gaps;

void aisim_gaps_init(aisim_gaps *gaps, aisim_percentile_rule rule, uint32_t limit);
void aisim_gaps_free(aisim_gaps *gaps);

/** A measured request delivered its first token on a rank. */
void aisim_gaps_first(aisim_gaps *gaps, uint32_t id, uint32_t rank, int64_t t_ns);

/** It delivered one at t after an irregular gap. Ignored for a request that is not known. */
void aisim_gaps_irregular(aisim_gaps *gaps, uint32_t id, uint32_t rank, int64_t t_ns,
                          int64_t gap_ns);

/** It is over with `tokens` delivered, the last one at last_ns; counts = it belongs to the cohort.
 */
void aisim_gaps_over(aisim_gaps *gaps, uint32_t id, int64_t last_ns, uint32_t tokens, bool counts);

/** A pass of the rank has ended in which requests shared a token gap; called after the events of
 * its requests. end_ns does not decrease on a rank. */
void aisim_gaps_pass(aisim_gaps *gaps, uint32_t rank, int64_t end_ns, int64_t gap_ns);

/** Settles everything; requests still live do not count. */
void aisim_gaps_finish(aisim_gaps *gaps);

#endif
