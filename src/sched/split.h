/* split.h - where a prefill chunk of a state-cache model has to stop (spec/engine.md §11.2, §11.4).
 */
#ifndef AISIM_SCHED_SPLIT_H
#define AISIM_SCHED_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/config.h"

/** Inputs of the split, tokens throughout. */
typedef struct aisim_split {
    aisim_align_split kind;
    uint32_t block_size; /**< b */
    uint32_t unit;       /**< u, 0 = b */
    uint32_t cap;        /**< most tokens any pass may give: min(B, threshold) */
    bool drop;           /**< the lookup loses one block (drafter with drop_matched_block) */
    uint32_t junction;   /**< N2; 0 = none */
    uint32_t start;      /**< computed, hit included */
    uint32_t prompt;     /**< P */
    uint32_t known;      /**< L */
    uint32_t desired;    /**< d */
} aisim_split;

/** @return tokens to compute now; may be 0. */
uint32_t aisim_split_tokens(const aisim_split *in);

/** F: the last prompt boundary a lookup can use, floor((P-1)/b)*b, one block less with `drop`. */
uint32_t aisim_prompt_boundary(uint32_t prompt, uint32_t block_size, bool drop);

/** T: floor(P/u)*u if it lies strictly between F and P, else 0. */
uint32_t aisim_prompt_tail(uint32_t prompt, uint32_t block_size, uint32_t unit, bool drop);

/** k = ceil(bytes_per_request / (bytes_per_token * b)), blocks of one recurrent state. */
uint32_t aisim_state_block_count(double bytes_per_request, double bytes_per_token,
                                 uint32_t block_size);

#endif
