/* l_targets.h - what a routing policy in Lua sees of its candidates; see l_targets.c,
 * l_targets_columns.c. */
#ifndef AISIM_LUA_L_TARGETS_H
#define AISIM_LUA_L_TARGETS_H

#include "base/array.h"
#include "lua/l_common.h"

typedef enum {
    AISIM_L_COL_WORKER,
    AISIM_L_COL_RANK,
    AISIM_L_COL_ACTIVE_REQUESTS,
    AISIM_L_COL_ACTIVE_PREFILL_TOKENS,
    AISIM_L_COL_ACTIVE_BLOCKS,
    AISIM_L_COL_WAITING,
    AISIM_L_COL_RUNNING,
    AISIM_L_COL_KV_USED,
    AISIM_L_COL_KV_TOTAL,
    AISIM_L_COL_OVERLAP,
    AISIM_L_COL_HOST_OVERLAP,
    AISIM_L_COL_DISK_OVERLAP,
    AISIM_L_COL_SHARED_OVERLAP,
    AISIM_L_COL_USABLE_OVERLAP,
    AISIM_L_COL_BOUND,
    AISIM_L_COL_TELEMETRY_AGE,
    AISIM_L_COLUMNS
} aisim_l_column_id;

/** One column: a Lua array and what was last written into it. */
typedef struct aisim_l_column {
    int array;         /**< refs, LUA_NOREF = never used */
    uint32_t rows;     /**< filled ones */
    uint64_t *last;    /**< cap values; whole numbers, times in ns */
    uint64_t decision; /**< for which it is up to date; declared columns always are … */
    uint64_t version;  /**< … of this list of candidates … */
    uint64_t sample;   /**< … and this sample of telemetry */
} aisim_l_column;

/** Lives in a userdata whose user value is its `targets` table; the refs table anchors both. */
typedef struct aisim_l_targets {
    aisim_l_sim *s;
    const char *name;             /**< of the policy, for messages; owned by its owner */
    uint32_t declared;            /**< bit per column */
    bool strict;                  /**< load columns only if declared */
    int table;                    /**< refs: the Lua object */
    uint64_t decision;            /**< counts decisions; a column is fresh when its number agrees */
    const aisim_request *request; /**< of the decision */
    uint32_t n, cap;
    uint64_t version;  /**< of the list of candidates, aisim_targets.version */
    uint32_t *ranks;   /**< of the candidates, in order */
    uint32_t *changed; /**< scratch: rows of one column */
    uint32_t *touched; /**< rows whose figures may have changed since the last decision */
    uint64_t reading;  /**< of them, see aisim_sim_touched */
    uint32_t n_figures, n_others;           /**< declared columns of each kind: … */
    uint8_t declared_ids[AISIM_L_COLUMNS];  /**< … those that are figures, then the others */
    aisim_figure figures[AISIM_L_COLUMNS];  /**< of those that are */
    bool overlap_used;                      /**< in this decision */
    int64_t telemetry_period_ns;            /**< 0 = always current */
    int64_t telemetry_ns;                   /**< time of the last sample */
    uint64_t samples;                       /**< so far */
    AISIM_ARRAY(aisim_rank_view) telemetry; /**< by global rank; only with a period */
    aisim_l_column columns[AISIM_L_COLUMNS];
    uint32_t (*bound)(void *context, const aisim_request *request); /**< NULL = no affinity */
    void *bound_context;
    struct aisim_l_router *router; /**< that decides with them, NULL = the admission */
    uint32_t bound_rank;           /**< of the decision, once the column was asked for */
} aisim_l_targets;

/** Makes the object and anchors it. `columns` is the stack index of a list of names or nil (all, as
 *  read). Raises for unknown names. Its memory belongs to Lua and lives as long as the simulation.
 */
aisim_l_targets *aisim_l_targets_new(lua_State *L, aisim_l_sim *s, const char *name, int columns,
                                     int64_t telemetry_period_ns);

/** Opens a decision: candidates, request; declared columns are brought up to date (dirty rows
 * only). Callback level. */
void aisim_l_targets_open(aisim_l_targets *t, const aisim_request *request,
                          const aisim_targets *candidates);

/** Same, and the object is pushed on s->L. */
void aisim_l_targets_push(aisim_l_targets *t, const aisim_request *request,
                          const aisim_targets *candidates);

/** Overlap of a rank if the policy looked at overlaps since the candidates were opened, else -1. */
int64_t aisim_l_targets_overlap(aisim_l_targets *t, uint32_t rank);

/** The column is one figure of each rank as it is now. */
bool aisim_l_targets_figure(const aisim_l_targets *t, uint32_t column, aisim_figure *figure);

/** Brings the array of a column, on top of L, up to date in the decision under way. */
void aisim_l_targets_update(lua_State *L, aisim_l_targets *t, uint32_t id);

/** Timer: takes a sample of the telemetry of all ranks, and sets itself again. */
void aisim_l_targets_sample(void *context, aisim_sim *sim, int64_t t_ns);

/** Adds the field `cost`, an array that the policy fills before it asks pick. @return its ref */
int aisim_l_targets_costs(lua_State *L, aisim_l_targets *t);

/** The targets object at a stack index (the table a policy gets). @return NULL = something else */
aisim_l_targets *aisim_l_targets_at(lua_State *L, int index);

/** The view targets[i] at an argument, of the decision under way. Raises. @param row  from 0 */
aisim_l_targets *aisim_l_check_target(lua_State *L, int arg, uint32_t *row);

/** Raises unless the load columns are kept: they are declared, or every column is. */
void aisim_l_targets_check_load(lua_State *L, const aisim_l_targets *t);

/** Pushes a table {worker, rank, id} of a global rank, the same for every call. */
void aisim_l_push_target(lua_State *L, aisim_l_sim *s, uint32_t rank);

/** core sim:admission_(fn); see l_admission.c. */
int aisim_l_sim_admission(lua_State *L);

#endif
