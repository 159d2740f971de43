/* weka.h - one Weka/AgentX play as it stands in the file: read, checked, not yet lowered.
 *
 * One JSON object is one play (traffic 1.1 to 1.4). Reading keeps authored order, converts every
 * time once to whole nanoseconds and block ids to run-length form (hash_ids and hash_runs give
 * the same result). Child times are still as written: absolute or relative to the marker is
 * decided once over the whole corpus (traffic 1.4). Unknown fields are ignored. */
#ifndef AISIM_WORKLOAD_WEKA_H
#define AISIM_WORKLOAD_WEKA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aisim/status.h"
#include "workload/play.h"

/** No figure of a recording may be larger: seconds of one time, tokens, ids of one request. */
#define AISIM_WEKA_MAX_SECONDS INT64_C(2147483647)
#define AISIM_WEKA_MAX_COUNT INT64_C(2147483647)

/** A model request; start_ns of a child is as written. */
typedef struct aisim_weka_request {
    int64_t start_ns;
    int64_t api_ns; /**< recorded server time, 0 when absent (zero width) */
    uint32_t input_tokens, output_tokens;
    uint32_t outer, inner; /**< inner = AISIM_NONE at the top level */
    uint32_t group;        /**< into groups[]; AISIM_NONE at the top level */
    uint32_t model;
    uint32_t id_first, id_runs, id_count;
} aisim_weka_request;

/** A subagent that has requests. */
typedef struct aisim_weka_group {
    int64_t start_ns;    /**< of the marker */
    int64_t duration_ns; /**< -1 = not recorded */
    uint32_t outer;
    uint32_t tool_tokens, system_tokens;
    bool blocking; /**< status "completed"; otherwise background ("async_launched") */
} aisim_weka_group;

typedef struct aisim_weka_play {
    char *id;
    char *file; /**< where it came from, for messages */
    int line;
    uint32_t block_size;
    uint32_t tool_tokens, system_tokens;
    aisim_weka_request *requests; /**< authored order */
    uint32_t n_requests;          /**< >= 1 */
    aisim_weka_group *groups;
    uint32_t n_groups;
    aisim_id_run *ids;
    uint32_t n_ids;
    char **models;
    uint32_t n_models;
} aisim_weka_play;

/** Reads one play.
 *  @param text  one JSON object, UTF-8, @p size bytes, need not end in a zero byte
 *  @param file  name for messages; @p line of its first line, from 1
 *  @param out   filled; the caller frees it with aisim_weka_play_deinit
 *  @return AISIM_OK, AISIM_EPARSE (not JSON), AISIM_EINVAL or AISIM_ERANGE with file and line,
 *          what was found and what is legal. On error *out is empty. O(size). */
aisim_status aisim_weka_parse(const char *text, size_t size, const char *file, int line,
                              aisim_weka_play *out, aisim_error *err);

/** Frees what the play holds, not the struct. */
void aisim_weka_play_deinit(aisim_weka_play *play);

/** True when a child stands before its marker, which makes the corpus relative (traffic 1.4). */
bool aisim_weka_has_relative_child(const aisim_weka_play *play);

#endif
