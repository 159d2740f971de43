/* l_common.h - what the files of src/lua share: the Lua side of one simulation, protected calls,
 * errors with positions.
 *
 * Idea. One userdata `sim` owns an aisim_sim and everything that Lua hung on it. Lua values that C
 * must find again (hook functions, tags, streams, views) live in a table that is the userdata's
 * user value, the *refs table*, never in the registry: a closure that captures its own sim is then
 * an ordinary cycle that the collector frees.
 *
 * While the simulation runs it is *bound* to the Lua state that called sim:run: the refs table and
 * the message handler lie at known stack indices of that call, so a hook is one rawgeti, its
 * arguments and one pcall. Those indices mean something only at callback level (called by the
 * engine); a C function called by Lua has its own frame and uses aisim_l_push_refs. The engine
 * calls Lua only from inside aisim_sim_run.
 *
 * An error in a callback is kept in the refs table with its traceback and context, the run is
 * aborted (first error wins), and sim:run raises it when the engine has returned: no longjmp ever
 * crosses engine frames.
 *
 * Views given to a callback are stamped with the serial number of that call; a view is valid while
 * its stamp is the active one. Nothing is looked up to check it. */
#ifndef AISIM_LUA_L_COMMON_H
#define AISIM_LUA_L_COMMON_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "aisim/sim.h"
#include "lua/l_base.h"
#include "lua/l_limits.h"
#include "lua/l_profile.h"

/** What is being called, for the context line of an error. */
typedef struct aisim_l_site {
    const char *kind;             /**< "hook", "router", "timer", …; NULL = nothing */
    const char *name;             /**< NULL = none */
    const aisim_request *request; /**< NULL = none */
    uint32_t rank;                /**< global rank from 0, AISIM_NONE = none */
    uint32_t targets;             /**< number of candidates of a router, 0 = none */
} aisim_l_site;

typedef enum {
    AISIM_L_NEW,
    AISIM_L_RUNNING,
    AISIM_L_FINISHED,
    AISIM_L_STOPPED,
    AISIM_L_INTERRUPTED,
    AISIM_L_FAILED
} aisim_l_state;

struct aisim_l_hooks;
struct aisim_l_timers;
struct aisim_l_cluster;
struct aisim_l_sessions;
struct aisim_l_metrics;
struct aisim_l_replays;
struct aisim_l_files;

typedef struct aisim_l_sim {
    aisim_sim *sim; /**< NULL once closed */
    char *name;
    aisim_l_limits *limits; /**< of the Lua state */
    lua_State *L;    /**< state the simulation is bound to, NULL = not bound */
    int refs;        /**< stack index of the refs table in L */
    int handler;     /**< stack index of the message handler in L */
    uint64_t serial; /**< number of the last call into Lua */
    uint64_t active; /**< serial of the call in progress, 0 = none */
    aisim_l_site site;
    const char *place; /**< "file:line: " of the declaration that is drawn from, NULL = none */
    aisim_l_state state;
    bool out_of_memory; /**< the failed callback ran out of it */
    bool in_batch;      /**< inside a batched hook: control calls are refused */
    bool has_notes;     /**< some request carries a tag or a deadline */
    uint16_t n_classes; /**< traffic classes so far */
    bool has_class_deadlines;
    struct aisim_l_router *deciding; /**< the policy whose decision is under way, NULL = none */
    int error_ref;     /**< message of the callback that failed, LUA_NOREF = none */
    aisim_status code; /**< how the run ended */
    aisim_l_profile *profile; /**< NULL = not measured */
    struct aisim_l_hooks *hooks;
    struct aisim_l_timers *timers;
    struct aisim_l_cluster *cluster;
    struct aisim_l_sessions *sessions;
    struct aisim_l_metrics *metrics;
    struct aisim_l_replays *replays;
    struct aisim_l_files *files;
} aisim_l_sim;

/* ---- errors (l_error.c) ---------------------------------------------------------------------- */

/** Pops the error value on L and pushes its text + context + traceback of the script frames of
 *  `from`. */
void aisim_l_traceback(lua_State *L, lua_State *from, const aisim_l_sim *s);

/** Milliseconds as people read them, at most nanoseconds. @return out */
char *aisim_l_format_ms(char out[40], int64_t t_ns);

/* ---- the simulation (l_sim.c) ---------------------------------------------------------------- */

/** The simulation at an argument; raises for anything else and for a closed one. */
aisim_l_sim *aisim_l_check_sim(lua_State *L, int arg);

/** Same, for calls that change the simulation: also refused inside a batched hook. */
aisim_l_sim *aisim_l_check_control(lua_State *L, int arg);
void aisim_l_refuse_in_batch(lua_State *L, const aisim_l_sim *s);

void aisim_l_push_self(lua_State *L, const aisim_l_sim *s); /**< the userdata */
void aisim_l_push_refs(lua_State *L, const aisim_l_sim *s); /**< its refs table */

/** Pushes refs[name], creating an empty table when absent. */
void aisim_l_push_ref_table(lua_State *L, const aisim_l_sim *s, const char *name);

/** Pops a value into the refs table. @return its key */
int aisim_l_anchor(lua_State *L, const aisim_l_sim *s);

/** Forgets an anchored value; LUA_NOREF allowed. */
void aisim_l_release(lua_State *L, const aisim_l_sim *s, int ref);

/** Binds the simulation to L, so that its callbacks may be called outside of a run as well; leaves
 *  values on the stack of L until aisim_l_unbind. Not while bound. */
void aisim_l_bind(aisim_l_sim *s, lua_State *L);
void aisim_l_unbind(aisim_l_sim *s);

/** Raises what a callback left behind, else err. */
int aisim_l_raise_failure(lua_State *L, const aisim_l_sim *s, const aisim_error *err);

/** Opens a call into Lua (callback level): stamps views from now on. Push function and arguments on
 * s->L, then aisim_l_call. @return the call it interrupts, for aisim_l_call. */
static inline uint64_t aisim_l_begin(aisim_l_sim *s)
{
    uint64_t outer = s->active;
    s->active = ++s->serial;
    return outer;
}

/** Calls the function below nargs arguments on s->L.
 *  @return true with nresults values on the stack; false with none: the error is recorded and the
 *  run ends after the current event. */
bool aisim_l_call(aisim_l_sim *s, uint64_t outer, int nargs, int nresults);

/** Records the error message on top of L (popped) and aborts the run. */
void aisim_l_abort(aisim_l_sim *s, lua_State *L);

/** A function answered what it must not: the answer is on top of L as text. Records an error that
 *  names the function, time and request, and aborts the run.
 *  @param fn        refs
 *  @param who       "admission"
 *  @param expected  what it may answer
 *  @return false */
bool aisim_l_refuse_answer(aisim_l_sim *s, int fn, const char *who, const char *expected,
                           const aisim_request *request, aisim_error *err);

/** True after the first recorded error: nothing more may be called. */
static inline bool aisim_l_broken(const aisim_l_sim *s)
{
    return s->error_ref != LUA_NOREF;
}

/** Reads a time in ms at an argument. @return ns; raises for nan, negative, not a number. */
int64_t aisim_l_check_ms(lua_State *L, int arg, const char *what);

/** Pushes ms as a float. */
static inline void aisim_l_push_ms(lua_State *L, int64_t t_ns)
{
    lua_pushnumber(L, (lua_Number)t_ns / 1e6);
}

/** A user function that takes as many of `available` arguments as it names; all for vararg and C
 *  functions. Looks at the function at index. */
int aisim_l_wanted_arguments(lua_State *L, int index, int available);

/* ---- parts of the simulation ----------------------------------------------------------------- */

void aisim_l_hooks_init(aisim_l_sim *s);
void aisim_l_hooks_free(aisim_l_sim *s);
void aisim_l_hooks_flush(aisim_l_sim *s); /**< delivers what batches hold */
/** Makes the terminal event of every request come by, so that notes can be dropped. */
void aisim_l_hooks_watch_ends(aisim_l_sim *s);
/** Reason of the next rejection by the admission (a Lua string in refs). */
void aisim_l_hooks_reject_reason(aisim_l_sim *s, int ref);

void aisim_l_timers_free(aisim_l_sim *s);
/** Calls the function `ref` of the refs table every period, fn(t, k) when counted. */
uint32_t aisim_l_timer_add(aisim_l_sim *s, int64_t at_ns, int64_t period_ns,
                           aisim_event_class class_, int ref);

void aisim_l_cluster_free(aisim_l_sim *s);
void aisim_l_sessions_free(aisim_l_sim *s);
void aisim_l_replays_free(aisim_l_sim *s); /**< after the engine */
void aisim_l_metrics_free(aisim_l_sim *s);
void aisim_l_metrics_start(lua_State *L, aisim_l_sim *s); /**< before the run */
void aisim_l_metrics_finish(aisim_l_sim *s);              /**< after it: builds the report */

/** Number of a traffic class, which the recorder gets to know. */
uint16_t aisim_l_class_id(aisim_l_sim *s, const char *name);

/* ---- requests (l_request.c) ------------------------------------------------------------------ */

/** Pushes the view of a request, valid in the call opened by aisim_l_begin. Callback level. */
void aisim_l_push_view(lua_State *L, aisim_l_sim *s, const aisim_request *request);

/** Pushes a durable handle. */
void aisim_l_push_handle(lua_State *L, aisim_l_sim *s, aisim_handle handle, uint32_t id);

/** Notes a value (at a stack index) about a request until it ends: "tags", "deadlines". */
void aisim_l_set_note(lua_State *L, aisim_l_sim *s, const char *kind, uint32_t id, int value);

/** Drops tag and deadline of a request that has ended. */
void aisim_l_request_ended(lua_State *L, aisim_l_sim *s, uint32_t id);

/** "created", "waiting", … */
const char *aisim_l_request_state_text(uint8_t state);

/* ---- registration: each file adds its functions to the module table on top of the stack ------ */

void aisim_l_error_register(lua_State *L);
void aisim_l_sim_register(lua_State *L);
void aisim_l_request_register(lua_State *L);
void aisim_l_hook_names_register(lua_State *L);
void aisim_l_hooks_register(lua_State *L);
void aisim_l_timer_register(lua_State *L);
void aisim_l_pass_register(lua_State *L);
void aisim_l_rng_register(lua_State *L);
void aisim_l_dist_register(lua_State *L);
void aisim_l_arrivals_register(lua_State *L);
void aisim_l_content_register(lua_State *L);
void aisim_l_submit_register(lua_State *L);
void aisim_l_pool_register(lua_State *L);
void aisim_l_targets_register(lua_State *L);
void aisim_l_router_register(lua_State *L);
void aisim_l_handoff_register(lua_State *L);
void aisim_l_workload_register(lua_State *L);
void aisim_l_session_register(lua_State *L);
void aisim_l_timing_register(lua_State *L);
void aisim_l_plays_register(lua_State *L);
void aisim_l_trace_register(lua_State *L);
void aisim_l_agentx_register(lua_State *L);
void aisim_l_metric_register(lua_State *L);
void aisim_l_report_register(lua_State *L);
void aisim_l_records_register(lua_State *L);
void aisim_l_export_register(lua_State *L);
void aisim_l_configuration_register(lua_State *L);
void aisim_l_engine_register(lua_State *L);
void aisim_l_prediction_register(lua_State *L);
void aisim_l_points_register(lua_State *L);

#endif
