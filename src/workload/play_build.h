/* play_build.h - a play from requests and edges that somebody gives: graph traces, scripts.
 *
 * Requests may come in any order and are put into node order (start, then as given). Requests with
 * the same session form a conversation. A request without incoming edge that is not the first one
 * gets a spawn edge from it (dispatch, difference of starts), as traffic 1.6 C does for streams. */
#ifndef AISIM_WORKLOAD_PLAY_BUILD_H
#define AISIM_WORKLOAD_PLAY_BUILD_H

#include "aisim/status.h"
#include "workload/play.h"

typedef struct aisim_play_node {
    int64_t start_ns, end_ns;             /**< end >= start */
    uint32_t input_tokens, output_tokens; /**< input >= 1 */
    const char *name;                     /**< for messages */
    const char *session;                  /**< equal text = same conversation */
    const char *model;                    /**< NULL or empty = "model" */
    uint32_t scope;                       /**< into scopes */
    const aisim_id_run *ids;
    uint32_t n_ids;
    uint32_t outer, inner; /**< names of an earlier play; AISIM_NONE, AISIM_NONE = numbered anew */
} aisim_play_node;

typedef struct aisim_play_parts {
    const char *id;
    uint32_t block_size;
    const aisim_play_node *nodes;
    uint32_t n_nodes;
    const aisim_play_edge *edges; /**< source and target are indices of nodes */
    uint32_t n_edges;
    const aisim_play_scope *scopes; /**< NULL = one, without prefix */
    uint32_t n_scopes;
} aisim_play_parts;

/** Everything is copied. Of edges with equal source, target and relation the first one wins.
 *  @return AISIM_OK, AISIM_EINVAL (no request, an edge from a request to itself or to none, a
 *  circle), AISIM_ERANGE (lengths, times). *out is empty on error. */
aisim_status aisim_play_build(const aisim_play_parts *parts, uint32_t ordinal, aisim_play *out,
                              aisim_error *err);

#endif
