/* calibration_code.h - digits of a calibration file: masks and numbers in printable characters.
 *
 * A mask is a sequence of digits '0'..'o' (six bits each, least significant first), as many as its
 * axis needs. A number is the difference to its predecessor in the record: folded to unsigned
 * (0, -1, 1, -2, …), then one character '!'..'t' for values below 84; one of 'u'..'|' and a second
 * character for values below 84 + 8 * 93; '~' and four characters otherwise. */
#ifndef AISIM_TIMING_CALIBRATION_CODE_H
#define AISIM_TIMING_CALIBRATION_CODE_H

#include <stdbool.h>
#include <stdint.h>

enum { AISIM_MASK_BITS = 96, AISIM_MASK_DIGITS = AISIM_MASK_BITS / 6, AISIM_CODE_CHARS = 5 };

/** A set of up to AISIM_MASK_BITS positions. */
typedef struct aisim_mask {
    bool bit[AISIM_MASK_BITS];
} aisim_mask;

/** Digits a mask over @p bits positions takes. */
static inline uint32_t aisim_mask_digits(uint32_t bits)
{
    return (bits + 5) / 6;
}

/** Writes the digits and a NUL. @param out  at least AISIM_MASK_DIGITS + 1 bytes */
void aisim_mask_write(const aisim_mask *mask, uint32_t bits, char *out);

/** Reads aisim_mask_digits(bits) digits. @return false on a foreign character or a bit beyond. */
bool aisim_mask_read(const char *text, uint32_t bits, aisim_mask *mask);

/** Writes one difference. @param out  at least AISIM_CODE_CHARS bytes. @return characters written;
 *  differences must be within +-30 million. */
uint32_t aisim_code_write(int32_t difference, char *out);

/** Reads one difference and moves *text past it. @return false at the end or on a bad character. */
bool aisim_code_read(const char **text, int32_t *difference);

#endif
