/* lowering.h - from a recorded list of requests to a graph (traffic 1.6 and 1.7).
 *
 * Four steps, play by play: streams (which requests continue one another), owners (who launched a
 * subagent), edges (who waits for whom), lineage (which conversation came from which). The result
 * depends on the play and the options alone, never on the rest of the corpus. */
#ifndef AISIM_WORKLOAD_LOWERING_H
#define AISIM_WORKLOAD_LOWERING_H

#include "aisim/status.h"
#include "workload/play.h"
#include "workload/weka.h"

/** traffic 1.3: what to do with prompts that end inside a block. */
typedef enum {
    AISIM_ALIGN_NONE,  /**< as recorded */
    AISIM_ALIGN_FLOOR, /**< whole blocks, at least one */
    AISIM_ALIGN_CEIL   /**< a last block without a recorded id stays private */
} aisim_align_inputs;

typedef struct aisim_lowering_options {
    bool relative; /**< child times count from their marker (the resolved basis) */
    aisim_align_inputs align;
} aisim_lowering_options;

/** Lowers one play and consumes it: what @p raw held is moved or freed, on error too.
 *  @param ordinal  place in the corpus
 *  @param out      filled; freed by aisim_play_deinit. Empty on error
 *  @return AISIM_OK, or AISIM_EINVAL with file, line and play id when the recording contradicts
 *          itself (a join after its target, a cycle, several roots).
 *  O(requests x streams of a scope), runs of ids instead of ids. */
aisim_status aisim_lower_play(aisim_weka_play *raw, const aisim_lowering_options *options,
                              uint32_t ordinal, aisim_play *out, aisim_error *err);

#endif
