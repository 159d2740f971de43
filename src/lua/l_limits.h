/* l_limits.h - limits on what a script may use: time of a call, instructions, memory (STYLE §11).
 *
 * Idea. One object per Lua state knows the chain of calls from C into Lua that are in progress:
 * *frames* on the C stack, innermost first. So whoever finds a limit reached (a timer's signal, the
 * allocator, a count hook) knows which thread is running and what was called. Until then a call
 * costs a few stores and an instruction costs nothing.
 *
 * A limit that is reached *trips*: every thread of the chain gets a hook with count 1, and the next
 * instruction of script code raises a message with position and traceback. So does each one after
 * it: pcall, xpcall and close methods in the script gain nothing. Code of the aisim library goes on
 * undisturbed, so that it can report.
 *
 * Not reached by a hook: C functions (a pattern match, a sort of a huge table) while they run, and
 * finalizers (Lua switches hooks off in them). A call that has used its time twice over is
 * *hopeless*; the program then ends at once (src/cli/signals.c).
 *
 * Invariants. A frame is in the chain exactly while its call is in progress: whoever enters one
 * leaves it on every way out, and no error is thrown past one. The allocator refuses memory only
 * while a script's code is innermost, never to the engine or the binding at callback level. */
#ifndef AISIM_LUA_L_LIMITS_H
#define AISIM_LUA_L_LIMITS_H

#include <lua.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What was reached. */
typedef enum {
    AISIM_L_UNLIMITED,
    AISIM_L_LIMIT_TIME,
    AISIM_L_LIMIT_INSTRUCTIONS,
    AISIM_L_LIMIT_MEMORY,
    AISIM_L_LIMIT_INTERRUPT /**< the user asked to stop */
} aisim_l_limit;

/** One call in progress. */
typedef struct aisim_l_frame {
    lua_State *L;      /**< thread that runs; NULL = native: the engine or a reader is at work */
    const char *kind;  /**< "hook", "setup", …; NULL = part of the call around it (a coroutine) */
    const char *name;  /**< NULL = none */
    uint32_t number;   /**< of a session, 0 = none */
    const void *sim;   /**< aisim_l_sim for the context of an error, NULL = none */
    volatile uint32_t ticks; /**< periods of the timer that it has used */
    struct aisim_l_frame *outer;
} aisim_l_frame;

/** Periods of the timer in the time of one call. */
enum { AISIM_L_TICKS = 8 };

typedef struct aisim_l_limits {
    aisim_l_frame *volatile top; /**< innermost frame, NULL = none */
    volatile int tripped; /**< aisim_l_limit; readers and makers of a lot of data look at it */
    volatile double timeout_s;   /**< for the message */
    uint64_t instructions, max_instructions; /**< 0 = not counted */
    int interval;                            /**< of the count hook */
    size_t bytes, soft_bytes, hard_bytes;    /**< SIZE_MAX = no limit */
    size_t told_bytes;                       /**< what the user has set */
    lua_Alloc inner; /**< the allocator of the state, NULL = ours is not installed */
    void *inner_context;
    size_t refused_bytes; /**< of the last refusal, until the next request; 0 = none */
    bool refused;         /**< for good */
    char place[160]; /**< "file:line: " where memory was refused, "" = nowhere */
} aisim_l_limits;

/** The object of the state; made when the binding is opened. */
aisim_l_limits *aisim_l_limits_of(lua_State *L);

/** A limit was reached before the frame was entered: its thread stops at the next instruction. */
void aisim_l_frame_stop(const aisim_l_frame *frame);

/** A call begins or ends. The frame lives until it is left; left in reverse order. */
static inline void aisim_l_frame_enter(aisim_l_limits *limits, aisim_l_frame *frame)
{
    frame->outer = limits->top;
    frame->ticks = 0;
    atomic_signal_fence(memory_order_seq_cst); /* a signal sees whole frames */
    limits->top = frame;
    if (limits->tripped != AISIM_L_UNLIMITED) {
        aisim_l_frame_stop(frame);
    }
}
static inline void aisim_l_frame_leave(aisim_l_limits *limits, const aisim_l_frame *frame)
{
    limits->top = frame->outer;
}

/** The library reads or makes a lot of data, the script waits: that is not the script's time. */
void aisim_l_native_begin(lua_State *L, aisim_l_frame *frame);
void aisim_l_native_end(lua_State *L, const aisim_l_frame *frame);

/** A limit has been reached. Async-signal-safe, like lua_sethook. */
void aisim_l_limits_trip(aisim_l_limits *limits, aisim_l_limit what);

/** One period of the timer has passed (AISIM_L_TICKS of them are the time of a call).
 *  Async-signal-safe. @return the hopeless call, NULL = none */
const aisim_l_frame *aisim_l_limits_tick(aisim_l_limits *limits);

/** Notes in limits->place where the script is, unless it is noted already. Allocates nothing. */
void aisim_l_limits_note_place(aisim_l_limits *limits);

/** Pushes the message of the limit that was reached, with position and traceback; nil: none was.
 *  From here on memory is not limited any more. */
void aisim_l_limits_push_message(lua_State *L, aisim_l_limits *limits);

/** The limit no longer stops anything: it has been reported. */
void aisim_l_limits_reset(lua_State *L, aisim_l_limits *limits);

void aisim_l_limits_register(lua_State *L);

#endif
