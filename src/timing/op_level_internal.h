/* op_level_internal.h - the operation-level timing object; private to op_level.c and op_pass.c. */
#ifndef AISIM_TIMING_OP_LEVEL_INTERNAL_H
#define AISIM_TIMING_OP_LEVEL_INTERNAL_H

#include "timing/decode_curve.h"
#include "timing/op_level.h"
#include "timing/timing_class.h"

enum { AISIM_MEMO_SLOTS = 16384, AISIM_OVERLAPS_MAX = 4, AISIM_CURVES_MAX = 3 };

/** Provenances but `formula`: the rest of a sum is formula. */
enum { AISIM_SOURCES = AISIM_PROVENANCE_FORMULA };

typedef struct aisim_memo_slot {
    uint64_t key; /* 0 = empty; keys (tokens, rows, batch and length) are >= 1 */
    double ms;
    float by_ms[AISIM_SOURCES]; /* of ms, by provenance; only for reports */
    uint16_t first, end;        /* the others are 0: mostly all but one */
} aisim_memo_slot;

/** What the load of an operation depends on (op_pass.c). */
typedef enum {
    AISIM_PART_TOKENS,
    AISIM_PART_LOGITS,
    AISIM_PART_ATTENTION,
    AISIM_PART_SEQUENCE,
    AISIM_PART_STATE,
    AISIM_PART_COUNT
} aisim_part_kind;

/** One memo per (phase, part): tokens, logits and delta-net kernels of prefill, everything but
 *  attention of decode. */
typedef enum {
    AISIM_MEMO_PREFILL_TOKENS,
    AISIM_MEMO_PREFILL_LOGITS,
    AISIM_MEMO_DECODE,
    AISIM_MEMO_STATE,
    AISIM_MEMO_COUNT
} aisim_memo_kind;

/** Operations of one part: first the plain ones in list order, then members of overlaps. */
typedef struct aisim_op_part {
    uint32_t len, plain;
    uint32_t index[AISIM_OP_LIST_MAX];
} aisim_op_part;

typedef struct aisim_op_level {
    aisim_timing base;
    aisim_model model;
    aisim_hardware hardware;
    aisim_op_level_options options;
    aisim_op_pricing pricing;
    aisim_op_list lists[2];                           /* by aisim_phase */
    aisim_op_part parts[2][AISIM_PART_COUNT];         /* which operations form each part */
    bool guessed[2][AISIM_OP_LIST_MAX];               /* priced by roofline at least once */
    aisim_decode_curve *curves[AISIM_CURVES_MAX + 1]; /* entry 0 unused */
    aisim_price_cell cells[AISIM_CURVES_MAX + 1][AISIM_PRICE_CELLS]; /* prefill; 0 unused */
    aisim_memo_slot *memo[AISIM_MEMO_COUNT];                         /* AISIM_MEMO_SLOTS each */
    double by_ms[AISIM_PROVENANCE_COUNT]; /* of what is being summed, by provenance */
    double launches;                      /* of a decode pass, for cudagraph_max_batch */
} aisim_op_level;

/** The class of operation-level models: pass, items and explanation live in op_pass.c. */
extern const aisim_timing_class aisim_op_level_class;

/** Releases everything the object owns (op_level.c). */
void aisim_op_level_free(aisim_timing *timing);

#endif
