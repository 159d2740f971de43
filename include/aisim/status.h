/* status.h - status codes and the error record that every fallible call fills.
 *
 * A function that can fail because of user input returns an aisim_status and takes an
 * aisim_error owned by the caller. The first error wins: a callee never overwrites a record that
 * already holds one. A function that cannot fail returns void or its result.
 * Out of memory: base/alloc.h. A broken invariant: base/check.h. */
#ifndef AISIM_STATUS_H
#define AISIM_STATUS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** X(name, text): one list gives the enumeration, aisim_status_name() and aisim_status_text(). */
#define AISIM_STATUS_LIST(X)                                                                       \
    X(OK, "ok")                                                                                    \
    X(EINVAL, "invalid argument")                                                                  \
    X(ERANGE, "value out of range")                                                                \
    X(EPARSE, "malformed input")                                                                   \
    X(EIO, "input or output failed")                                                               \
    X(ENOENT, "not found")                                                                         \
    X(EEXIST, "already exists")                                                                    \
    X(EFULL, "no capacity")                                                                        \
    X(ENOMEM, "out of memory")                                                                     \
    X(EBUSY, "still in use")                                                                       \
    X(ENOTMODELLED, "known, not modelled")                                                         \
    X(ELIVELOCK, "no event can change the state")                                                  \
    X(ELIMIT, "resource limit reached")                                                            \
    X(ECALLBACK, "a user function failed")                                                         \
    X(EINTERRUPTED, "interrupted")

typedef enum {
#define X(name, text) AISIM_##name,
    AISIM_STATUS_LIST(X)
#undef X
} aisim_status;

/** Where and why something failed. Zero-initialise it: `aisim_error err = {0};`. */
typedef struct aisim_error {
    aisim_status code; /**< AISIM_OK = empty */
    int line;          /**< from 1; 0 = unknown */
    int column;        /**< from 1; 0 = unknown */
    char file[256];    /**< "" = unknown */
    char text[1024];   /**< what, what was expected, hint; without the file and line */
} aisim_error;

/** Empties a record: as good as `= {0}`, without writing the 1.3 kB of its texts. For paths that run
 *  once per event. */
static inline void aisim_error_clear(aisim_error *err)
{
    err->code = AISIM_OK;
    err->line = err->column = 0;
    err->file[0] = err->text[0] = '\0';
}

/** "EINVAL", "ENOMEM", …; never NULL. */
const char *aisim_status_name(aisim_status code);

/** One short sentence for the code; never NULL. */
const char *aisim_status_text(aisim_status code);

/** Fills @p err (NULL allowed) unless it already holds an error. printf format.
 *  @return @p code, so that `return aisim_fail(err, AISIM_EINVAL, "…")` reads well. */
aisim_status aisim_fail(aisim_error *err, aisim_status code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/** Same, with a position. @p file may be NULL, line and column 0 (unknown). */
aisim_status aisim_fail_at(aisim_error *err, aisim_status code, const char *file, int line,
                           int column, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 6, 7)))
#endif
    ;

/** Writes "file:line:column: text" (parts that are unknown are left out) into @p out.
 *  @return @p out */
char *aisim_error_format(const aisim_error *err, char *out, unsigned long size);

#ifdef __cplusplus
}
#endif
#endif
