/* check.c - what a failed check prints. The context pointer is per thread and carries no result. */
#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local const aisim_check_context *current;

const aisim_check_context *aisim_check_context_set(const aisim_check_context *context)
{
    const aisim_check_context *previous = current;
    current = context;
    return previous;
}

_Noreturn void aisim_check_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "aisim: internal error: %s does not hold (%s:%d)\n", expression, file, line);
    if (current != NULL) {
        fprintf(stderr,
                "  at t = %" PRId64 " ns, pass %" PRIu64 ", request %" PRIu64 ", seed %" PRIu64
                "\n",
                current->now_ns, current->pass, current->request, current->seed);
    }
    abort();
}
