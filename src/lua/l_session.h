/* l_session.h - sessions as coroutines: data shared by l_session.c and l_session_api.c. */
#ifndef AISIM_LUA_L_SESSION_H
#define AISIM_LUA_L_SESSION_H

#include "base/array.h"
#include "lua/l_common.h"
#include "lua/l_source.h"

#define AISIM_L_SESSION "aisim.Session"
#define AISIM_L_BRANCH "aisim.Branch"

/** One sim:sessions{…}: its arrivals and its client. */
typedef struct aisim_l_session_kind {
    aisim_l_sim *s;
    const char *name; /**< of its streams */
    int body;         /**< ref */
    aisim_pace pace;  /**< starts sessions; limits end those starts, not the calls of a body */
    uint16_t client, class_id;
    uint32_t pool;
    int32_t priority;
    uint32_t sessions; /**< so far: their streams count within the kind */
} aisim_l_session_kind;

/** One session: what its branches share. Lives in a userdata (the object s of the body). */
typedef struct aisim_l_session {
    aisim_l_session_kind *kind;
    uint32_t number; /**< over the whole simulation, from 1 */
    uint32_t stream; /**< number within its kind, from 1 */
    uint16_t turn;   /**< of the next request */
} aisim_l_session;   /* user values: 1 the simulation, 2 its own stream */

typedef enum {
    AISIM_L_BRANCH_FREE,
    AISIM_L_BRANCH_RUNNING, /**< on the stack, or about to start */
    AISIM_L_BRANCH_CALLING, /**< waits for a request */
    AISIM_L_BRANCH_SLEEPING,
    AISIM_L_BRANCH_JOINING, /**< waits for other branches */
    AISIM_L_BRANCH_DONE     /**< result kept until its handle is gone or the session ends */
} aisim_l_branch_state;

/** One coroutine: the body of a session or a fork. Slots are re-used; generation tells. */
typedef struct aisim_l_branch {
    aisim_l_sim *s;
    uint32_t index, generation;
    uint8_t state;
    bool keep;      /**< the answer is appended to the context */
    bool unstarted; /**< a fork whose coroutine has not run yet */
    bool cancelled;
    int co;                  /**< refs: the coroutine */
    int session;             /**< refs: the session userdata */
    int context;             /**< refs: context of the call, LUA_NOREF = none */
    int result;              /**< refs: first return value */
    aisim_l_session *shared; /**< of `session` */
    lua_State *L;            /**< the coroutine */
    aisim_node asked;        /**< prompt of the call, borrowed from the context */
    aisim_handle request;
    uint64_t timer;
    uint32_t parent; /**< index, AISIM_NONE = the body itself */
    uint32_t parent_generation;
    uint32_t first_child, next_sibling; /**< forks of this one, AISIM_NONE = end */
    uint32_t joined_by; /**< index of the branch that waits for this one, AISIM_NONE = nobody */
    uint32_t waits_for; /**< JOINING: branches not done yet */
} aisim_l_branch;

typedef struct aisim_l_sessions {
    AISIM_ARRAY(aisim_l_session_kind *) kinds;
    AISIM_ARRAY(aisim_l_branch *) branches;
    AISIM_ARRAY(uint32_t) unused;
} aisim_l_sessions;

/** The branch whose coroutine is L, or NULL. */
aisim_l_branch *aisim_l_branch_of(lua_State *L, aisim_l_sim *s);

/** A new branch for the function on top of L, of the session (userdata) below it; both are popped.
 *  Not started. @param parent  NULL = the body of the session */
aisim_l_branch *aisim_l_branch_new(lua_State *L, aisim_l_sim *s, aisim_l_branch *parent);

/** Resumes a branch with nargs values that lie on its stack. Callback level. */
void aisim_l_branch_resume(aisim_l_branch *branch, int nargs);

/** Puts a branch to sleep until at_ns; its coroutine yields next. */
void aisim_l_branch_sleep(aisim_l_branch *branch, int64_t at_ns);

/** Ends a branch from outside: its request is cancelled, its coroutine closed, its forks too. */
void aisim_l_branch_cancel(lua_State *L, aisim_l_branch *branch);

/** The branch waits until the barrier of its warmup opens; its coroutine yields next. */
void aisim_l_branch_hold(aisim_l_branch *branch);

/** Starts an unstarted fork at the current time. */
void aisim_l_branch_start(aisim_l_branch *branch);

void aisim_l_session_api_register(lua_State *L);

#endif
