/* reuse.h - the reuse an infinite cache per play would reach (traffic 4.2).
 *
 * Requests in node order, nothing evicted, generated tokens never cached, the last prompt token
 * always computed, whole blocks only. The block may differ from the recorded one: what two prompts
 * share is a number of tokens, and a cache of blocks of b tokens gets floor(shared / b) * b. */
#ifndef AISIM_WORKLOAD_REUSE_H
#define AISIM_WORKLOAD_REUSE_H

#include <stdint.h>

#include "workload/corpus.h"
#include "workload/play_content.h"

typedef struct aisim_ideal_reuse {
    uint64_t input_tokens;
    uint64_t reused_tokens;
} aisim_ideal_reuse;

/** Tokens of one prompt that are reused at best.
 *  @param block_size  of the engine, >= 1 */
uint64_t aisim_ideal_reuse_request(const aisim_play *play, const aisim_play_content *content,
                                   uint32_t request, uint32_t block_size);

/** Sum over a play. O(requests). */
aisim_ideal_reuse aisim_ideal_reuse_play(const aisim_play *play, const aisim_play_content *content,
                                         uint32_t block_size);

/** Sum over a corpus; builds and drops each play's content. */
aisim_ideal_reuse aisim_ideal_reuse_corpus(const aisim_corpus *corpus, uint32_t block_size);

#endif
