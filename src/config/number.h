/* number.h - numbers as text: YAML 1.2 scalars, sizes and durations with units, shortest doubles.
 *
 * Nothing here depends on the locale of the process: the decimal point is '.' on both sides. */
#ifndef AISIM_CONFIG_NUMBER_H
#define AISIM_CONFIG_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/** Enough for every text that aisim_number_show_* writes. */
enum { AISIM_NUMBER_SIZE = 40 };

typedef enum {
    AISIM_NUMBER_NONE,     /**< not a number */
    AISIM_NUMBER_INTEGER,  /**< fits int64_t */
    AISIM_NUMBER_UNSIGNED, /**< 2^63 .. 2^64-1 */
    AISIM_NUMBER_REAL      /**< has a point or exponent, is .inf or .nan, or is beyond 64 bits */
} aisim_number_kind;

typedef struct aisim_number {
    aisim_number_kind kind;
    int64_t integer; /**< INTEGER; the bit pattern of UNSIGNED */
    double real;     /**< REAL */
} aisim_number;

/** Reads a whole text as a number of the YAML 1.2 core schema: decimal, 0o17, 0x1f, 1.5, 1e6, .inf,
 *  -.inf, .nan. "0123" is decimal 123; "1_000" and "1,5" are no numbers. */
aisim_number aisim_number_scan(const char *text);

/** What a unit measures; the base is 1, one byte, one millisecond, one second. */
typedef enum {
    AISIM_UNIT_COUNT,        /**< k M G T (powers of 1000), Ki Mi Gi Ti (powers of 1024) */
    AISIM_UNIT_BYTES,        /**< the same, with or without B: kB, KB, MB, GiB, …; or B alone */
    AISIM_UNIT_MILLISECONDS, /**< ns us ms s m min h d */
    AISIM_UNIT_SECONDS       /**< the same units, counted in seconds */
} aisim_unit;

/** Reads "64GiB", "250ms", "2m", "80 GB", "10k": a decimal number, at most one space, a unit.
 *  @param out  the value in the base of the unit
 *  @return false when the text has no unit, an unknown one, or no number before it. */
bool aisim_number_scan_unit(const char *text, aisim_unit unit, double *out);

/** The shortest decimal text that reads back as the same double; always with a point, an exponent
 *  or a word (".inf", "-.inf", ".nan"), so that it reads back as a real number. @return @p out */
char *aisim_number_show(double x, char out[AISIM_NUMBER_SIZE]);

/** Same for people and messages: 2 instead of 2.0. @return @p out */
char *aisim_number_show_plain(double x, char out[AISIM_NUMBER_SIZE]);

#endif
