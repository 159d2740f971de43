/* check.h - three levels of assertion.
 *
 * AISIM_ASSERT  debug builds (-DAISIM_ASSERTS=ON) only; may be O(n) in verify functions
 * AISIM_CHECK   always, O(1): preconditions of public calls
 * AISIM_UNREACHABLE
 *
 * A failure is a bug in aisim, never a user error: it prints the expression, the place and, when a
 * simulation has registered itself for this thread, its virtual time, pass, request and seed. */
#ifndef AISIM_BASE_CHECK_H
#define AISIM_BASE_CHECK_H

#include <stdint.h>

/** What a failing check prints besides the expression. Values only; owned by the simulation. */
typedef struct aisim_check_context {
    int64_t now_ns;
    uint64_t pass;
    uint64_t request;
    uint64_t seed;
} aisim_check_context;

/** Sets the context of this thread (NULL = none).
 *  @return the previous one, to be restored when the simulation returns to its caller. */
const aisim_check_context *aisim_check_context_set(const aisim_check_context *context);

/** Prints and ends the process with abort(). */
_Noreturn void aisim_check_failed(const char *expression, const char *file, int line);

#define AISIM_CHECK(expression)                                                                    \
    ((expression) ? (void)0 : aisim_check_failed(#expression, __FILE__, __LINE__))

#ifdef AISIM_ASSERTS
#define AISIM_ASSERT(expression) AISIM_CHECK(expression)
#else
#define AISIM_ASSERT(expression) ((void)sizeof(expression))
#endif

#define AISIM_UNREACHABLE() aisim_check_failed("unreachable", __FILE__, __LINE__)

#endif
