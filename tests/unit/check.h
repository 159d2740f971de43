/* check.h - the whole unit test framework: CHECK counts, a failed CHECK prints its place.
 *
 *     int main(void)
 *     {
 *         CHECK(1 + 1 == 2);
 *         CHECK_EQ(aisim_map_get(&map, 1, 2), 7);   prints both values when they differ
 *         return check_done();
 *     }
 *
 * check_done() prints "N passed, N failed" (tests/run.sh adds these lines up) and gives the exit
 * status. Not for use in the engine: base/check.h is something else. */
#ifndef AISIM_TESTS_CHECK_H
#define AISIM_TESTS_CHECK_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int check_passed, check_failed;

static inline bool check_that(bool ok, const char *expression, const char *file, int line)
{
    if (ok) {
        check_passed++;
    } else {
        check_failed++;
        printf("%s:%d: %s does not hold\n", file, line, expression);
    }
    return ok;
}

static inline void check_eq(int64_t got, int64_t want, const char *text, const char *file, int line)
{
    if (!check_that(got == want, text, file, line)) {
        printf("    got %" PRId64 " (0x%" PRIx64 "), want %" PRId64 " (0x%" PRIx64 ")\n", got,
               (uint64_t)got, want, (uint64_t)want);
    }
}

static inline void check_near(double got, double want, double tolerance, const char *text,
                              const char *file, int line)
{
    if (!check_that(fabs(got - want) <= tolerance, text, file, line)) {
        printf("    got %.17g, want %.17g within %g\n", got, want, tolerance);
    }
}

static inline void check_str(const char *got, const char *want, const char *text, const char *file,
                             int line)
{
    if (!check_that(strcmp(got, want) == 0, text, file, line)) {
        printf("    got  \"%s\"\n    want \"%s\"\n", got, want);
    }
}

/** The expression holds. */
#define CHECK(expression) ((void)check_that((expression), #expression, __FILE__, __LINE__))

/** Equal integers (of at most 64 bits, compared as bit patterns). */
#define CHECK_EQ(got, want)                                                                        \
    check_eq((int64_t)(got), (int64_t)(want), #got " == " #want, __FILE__, __LINE__)

/** Doubles no further apart than the tolerance. */
#define CHECK_NEAR(got, want, tolerance)                                                           \
    check_near((got), (want), (tolerance), #got " ~ " #want, __FILE__, __LINE__)

/** Equal texts. */
#define CHECK_STR(got, want) check_str((got), (want), #got " is " #want, __FILE__, __LINE__)

/** The summary line. @return the exit status of main. */
static inline int check_done(void)
{
    printf("%d passed, %d failed\n", check_passed, check_failed);
    return check_failed == 0 ? 0 : 1;
}

#endif
