/* synthetic.h - agent plays made up after published statistics (traffic 4.3), as a corpus.
 *
 * A play is drawn step by step: its kind (fresh or resumed) and length, its window, then turn by
 * turn the answer, what is added, compactions and resets, the wait of the user or tool, and in some
 * plays subagents. What comes out has the form of a recording and goes the same way: into a corpus,
 * through the lowering, or as Weka JSON lines into a file (workload/weka_write.h).
 *
 * Every play has streams of its own, named after the seed's stream and the play's number, one each
 * for sizes, times and subagents: play 7 is the same whether 10 or 1,000 plays are made, and
 * another law of times leaves all sizes as they were.
 *
 * Three lists give every parameter its name, default and bounds, here, in Lua and in messages.
 * Tokens unless the name says otherwise. A law is a log-normal {mu, sigma} of the natural
 * logarithm, a range is {low, high} inclusive. */
#ifndef AISIM_WORKLOAD_SYNTHETIC_H
#define AISIM_WORKLOAD_SYNTHETIC_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"
#include "workload/corpus.h"

/** X(name, default, lowest, highest) */
#define AISIM_SYNTHETIC_NUMBERS(X)                                                                 \
    X(fresh_share, 0.55, 0, 1)        /* plays that begin with a short prompt */                   \
    X(wide_share, 0.2, 0, 1)          /* plays with the wide window */                             \
    X(wide_window, 900000, 1000, 2e8) /* also that of prompts beyond `window` */                   \
    X(prefix_mean, 14000, 0, 1e8)     /* tools and system prompt: normal */                        \
    X(prefix_sd, 1800, 0, 1e8)                                                                     \
    X(prefix_min, 8000, 0, 1e8)                                                                    \
    X(prefix_share_max, 0.8, 0, 1) /* of the first prompt */                                       \
    X(output_share, 0.93, 0, 1)    /* answers after `output`; the others: output_long */           \
    X(add_none_share, 0.107, 0, 1) /* turns that add nothing but the answer */                     \
    X(add_max, 60000, 0, 1e8)                                                                      \
    X(reset_share, 0.016, 0, 1)          /* turns that keep the prefix only */                     \
    X(reset_same_size_share, 0.62, 0, 1) /* of these, rewritten in place */                        \
    X(reset_min, 2000, 0, 1e8)           /* beyond the prefix */                                   \
    X(tail_share, 0.05, 0, 1)            /* turns that lose the last one or two blocks */          \
    X(tool_share, 0.94, 0, 1)            /* turns that end with a tool call */                     \
    X(gap_min_s, 2, 0, 1e9)                                                                        \
    X(subagent_play_share, 0.024, 0, 1) /* plays that spawn at all */                              \
    X(spawn_share, 0.03, 0, 1)          /* tool turns of such a play that spawn */                 \
    X(group_requests_mean, 9, 0, 1e5)   /* beyond the first two: negative binomial */              \
    X(group_requests_shape, 4, 0.01, 1e6)                                                          \
    X(group_growth, 3200, 0, 1e8) /* mean growth per request: exponential */                       \
    X(blocking_share, 0.93, 0, 1) /* groups the parent waits for */                                \
    X(preamble_share, 0.5, 0, 1)  /* plays that begin with a title or quota request */             \
    X(api_base_s, 1.2, 0, 1e6)    /* api = "linear": base + per_output * out + … */              \
    X(api_per_output_s, 0.0165, 0, 1e6)                                                            \
    X(api_input_per_s, 60000, 1, 1e12)

/** X(name, mu, sigma) */
#define AISIM_SYNTHETIC_LAWS(X)                                                                    \
    X(fresh_turns, 4.02, 1.045)                                                                    \
    X(fresh_prompt, 9.83, 0.25)                                                                    \
    X(resumed_turns, 3.22, 1.13)                                                                   \
    X(resumed_prompt, 11.81, 0.73)                                                                 \
    X(output, 5.35, 0.80)                                                                          \
    X(output_long, 7.2, 0.7)                                                                       \
    X(add, 5.80, 1.787)                                                                            \
    X(tool_gap_s, 2.506, 1.231)                                                                    \
    X(turn_gap_s, 5.304, 2.251)                                                                    \
    X(api_s, 1.967, 0.695)                                                                         \
    X(group_prompt, 9.26, 0.2)

/** X(name, low, high, lowest, highest) */
#define AISIM_SYNTHETIC_RANGES(X)                                                                  \
    X(turns_range, 3, 600, 1, 1e5)                                                                 \
    X(prompt_range, 6000, 900000, 1, 2e8)                                                          \
    X(window, 165000, 205000, 1000, 2e8)                                                           \
    X(output_range, 10, 18000, 0, 1e8)                                                             \
    X(compact_keep, 0.10, 0.35, 0, 1) /* of the prompt, besides the prefix */                      \
    X(reset_size, 0.2, 0.7, 0, 1)     /* of the prompt */                                          \
    X(preamble_input, 400, 640, 1, 1e8)                                                            \
    X(preamble_output, 15, 31, 0, 1e8)

typedef enum {
    AISIM_API_LOGNORMAL, /**< recorded server time after api_s */
    AISIM_API_LINEAR     /**< api_base_s + api_per_output_s * out + in / api_input_per_s */
} aisim_synthetic_api;

typedef struct aisim_synthetic_config {
    uint32_t plays;      /**< 200, >= 1 */
    uint64_t seed;       /**< 42 */
    uint32_t block_size; /**< 64, tokens of a recorded block */
    bool whole_blocks;   /**< false; true: every prompt is filled up to whole blocks, with ids */
    aisim_synthetic_api api;
    double group_counts[4]; /**< {.55, .2, .15, .1}: weights of 1 to 4 groups at one spawn */
#define X(name, value, low, high) double name;
    AISIM_SYNTHETIC_NUMBERS(X)
#undef X
#define X(name, mu, sigma) double name[2];
    AISIM_SYNTHETIC_LAWS(X)
#undef X
#define X(name, from, to, low, high) double name[2];
    AISIM_SYNTHETIC_RANGES(X)
#undef X
} aisim_synthetic_config;

/** Fills the defaults: the older corpus (2.4 % of the plays spawn). */
void aisim_synthetic_config_default(aisim_synthetic_config *config);

/** Sets what distinguishes the corpora: "042026" (the defaults), "052726" (29 % of the plays
 *  spawn), "062126" (June 2026: as 052726 with 26 requests per group, spawning twice as often, and
 *  whole blocks).
 *  @return AISIM_OK or AISIM_EINVAL (unknown name; the message lists the known ones) */
aisim_status aisim_synthetic_config_preset(aisim_synthetic_config *config, const char *name,
                                           aisim_error *err);

/** Numbers by name, for scripts. @return the place of a number (*n = 1), of a law or range (2), of
 *  group_counts (4), or NULL for an unknown name. */
double *aisim_synthetic_config_field(aisim_synthetic_config *config, const char *name, uint32_t *n);

/** @return AISIM_OK or AISIM_ERANGE with the key, the value and the bounds. */
aisim_status aisim_synthetic_config_check(const aisim_synthetic_config *config, aisim_error *err);

/** Makes the plays; the corpus must be fresh or hold plays of the same block size and is finished
 *  by the caller. O(requests).
 *  @return AISIM_OK, or what aisim_synthetic_config_check and aisim_corpus_add_play say. */
aisim_status aisim_synthetic_plays(const aisim_synthetic_config *config, aisim_corpus *corpus,
                                   aisim_error *err);

#endif
