/* play_content.h - the content of a play's prompts as a tree of runs, a template for its instances.
 *
 * A run is a piece of prompt that is only reached through its parent: (parent, start) is where it
 * branches off, and start is also the place of its first token in the prompt. Runs are never
 * split: a prompt that leaves a run in the middle becomes a child there; one that goes on behind
 * its end makes it longer (A3). All starts and lengths are multiples of the recorded block size.
 * Two prompts share exactly the tokens of the runs they both pass, whatever the engine's blocks
 * are. What a prompt holds behind shared_tokens (a partial block, blocks without id) is private to
 * one request and not part of the template.
 *
 * With after_system a run ends where the prefix of tools and system prompt ends, and what follows
 * is a child at that place; nothing else branches off at the end of a run.
 *
 * Requests are entered in node order, so matched_tokens is what an infinite cache that saw all
 * earlier requests of the play would hold of this prompt. */
#ifndef AISIM_WORKLOAD_PLAY_CONTENT_H
#define AISIM_WORKLOAD_PLAY_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "workload/play.h"

typedef struct aisim_content_run {
    uint32_t parent;            /**< earlier run, AISIM_NONE = starts the prompt */
    uint32_t id_first, id_runs; /**< slice of ids[]: the recorded ids of its blocks */
    uint64_t start_tokens;      /**< branch position: 0 for a run without parent */
    uint64_t length_tokens;     /**< > 0 */
    bool
        shared; /**< the same content in every instance of the play (cache_identity after_system) */
} aisim_content_run;

typedef struct aisim_content_request {
    uint32_t run;            /**< run that holds the last shared token, AISIM_NONE = none shared */
    uint64_t shared_tokens;  /**< leading whole blocks with an id, in tokens */
    uint64_t matched_tokens; /**< of these, the leading ones that an earlier request held too */
} aisim_content_request;

typedef struct aisim_play_content {
    aisim_content_run *runs; /**< parents before children */
    uint32_t n_runs;
    aisim_content_request *requests; /**< one per request of the play */
    uint32_t n_requests;
    aisim_id_run *ids;
    uint32_t n_ids;
} aisim_play_content;

/** Builds the template of one play. O(id runs passed). @p out is freed by the caller.
 *  @param after_system  true: the whole blocks of the tool and system prefix go into runs of their
 *                       own, marked shared (traffic 2.1); false: no run is shared */
void aisim_play_content_build(const aisim_play *play, bool after_system, aisim_play_content *out);

/** Leading tokens that two prompts have in common, in one instance of the play or in two. */
uint64_t aisim_play_content_common_tokens(const aisim_play_content *content, uint32_t a, uint32_t b,
                                          bool same_instance);

/** Frees what it holds, not the struct. */
void aisim_play_content_deinit(aisim_play_content *content);

#endif
