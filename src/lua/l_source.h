/* l_source.h - what workloads of all kinds have in common on the Lua side: quantities drawn by Lua
 * objects, the pace, the streams. Options were checked by lua/aisim/workload.lua. */
#ifndef AISIM_LUA_L_SOURCE_H
#define AISIM_LUA_L_SOURCE_H

#include "lua/l_common.h"
#include "lua/l_random.h"
#include "sim/pace.h"
#include "workload/sessions.h"

/** One workload. Every source of randomness has a stream of its own below the workload's name. */
typedef struct aisim_l_source {
    aisim_l_sim *s;
    char *name;
    char *place; /* "file:line: " of sim:workload, "" = none */
    int gaps, gap_stream;    /* refs: arrivals */
    int think, think_stream; /* refs: think times in ms; LUA_NOREF = none */
    aisim_arrival_cursor cursor;
    int64_t *level_times;
    double *levels;
    void *more; /* of the kind of workload; freed with the source */
    /* a draw under way, for the step */
    int drawn, scratch; /* refs */
    aisim_rng *rng;
    double value;
} aisim_l_source;

/** A quantity of a session, drawn by Lua. */
typedef struct aisim_l_draw_of {
    aisim_l_source *source;
    int ref;           /**< keeps it */
    const void *plain; /**< draws without Lua; NULL = through a protected call */
} aisim_l_draw_of;

/** A source for the options at `table`; it keeps what it needs of them. */
aisim_l_source *aisim_l_source_new(lua_State *L, aisim_l_sim *s, int table);
void aisim_l_source_free(void *source);

/** Runs a step under protection: fn gets the source, and the table of refs at index 2 after
 *  aisim_l_push_refs. Its results are on s->L. @return false: err is filled */
bool aisim_l_source_step(aisim_l_source *source, lua_CFunction fn, int nresults, aisim_error *err);

/** Pushes refs[ref] (table at index 2). @return its index */
int aisim_l_push_part(lua_State *L, int ref);

/** Anchors a field. @return its ref, LUA_NOREF when absent */
int aisim_l_anchor_field(lua_State *L, aisim_l_sim *s, int table, const char *key);
/** Anchors the stream "name/part". */
int aisim_l_anchor_stream(lua_State *L, aisim_l_sim *s, const char *name, const char *part);
lua_Number aisim_l_number_field(lua_State *L, int table, const char *key, lua_Number absent);
/** The hash of a text field, 0 when absent. */
uint64_t aisim_l_name_field(lua_State *L, int table, const char *key);

/** A quantity of the options: a constant for a number; keep must live as long as the source. */
aisim_draw aisim_l_draw_field(lua_State *L, aisim_l_source *source, int table, const char *key,
                              aisim_l_draw_of *keep);

/** When units start, limits and warmup. The gap source owns the l_source, whichever load it is. */
aisim_pace_config aisim_l_read_pace(lua_State *L, int table, aisim_l_source *source);

/** Class name (the table keeps it) and deadline of its requests. */
const char *aisim_l_read_class(lua_State *L, int table, aisim_l_sim *s);

/** Raises the error of a constructor that has not taken the source. */
int aisim_l_source_refused(lua_State *L, aisim_l_source *source, const aisim_error *err);

#endif
