/* calibration_code.c - see calibration_code.h. */
#include "timing/calibration_code.h"

#include "base/check.h"

enum { FIRST = '!', SHORT = 84, PAIRS = 8, DIGITS = 93, LONG = '~', MASK_FIRST = '0' };

void aisim_mask_write(const aisim_mask *mask, uint32_t bits, char *out)
{
    for (uint32_t d = 0; d < aisim_mask_digits(bits); d++) {
        int value = 0;
        for (uint32_t i = 0; i < 6 && 6 * d + i < bits; i++) {
            value |= mask->bit[6 * d + i] ? 1 << i : 0;
        }
        *out++ = (char)(MASK_FIRST + value);
    }
    *out = '\0';
}

bool aisim_mask_read(const char *text, uint32_t bits, aisim_mask *mask)
{
    for (uint32_t d = 0; d < aisim_mask_digits(bits); d++) {
        int value = text[d] - MASK_FIRST;
        if (value < 0 || value > 63) {
            return false;
        }
        for (uint32_t i = 0; i < 6; i++) {
            bool set = ((value >> i) & 1) != 0;
            if (6 * d + i < bits) {
                mask->bit[6 * d + i] = set;
            } else if (set) {
                return false;
            }
        }
    }
    return true;
}

uint32_t aisim_code_write(int32_t difference, char *out)
{
    uint32_t value =
        difference < 0 ? 2 * (uint32_t)(-(difference + 1)) + 1 : 2 * (uint32_t)difference;
    if (value < SHORT) {
        out[0] = (char)(FIRST + (int)value);
        return 1;
    }
    value -= SHORT;
    if (value < PAIRS * DIGITS) {
        out[0] = (char)(FIRST + SHORT + (int)(value / DIGITS));
        out[1] = (char)(FIRST + (int)(value % DIGITS));
        return 2;
    }
    out[0] = LONG;
    for (int i = 1; i < AISIM_CODE_CHARS; i++) {
        out[i] = (char)(FIRST + (int)(value % DIGITS));
        value /= DIGITS;
    }
    AISIM_CHECK(value == 0);
    return AISIM_CODE_CHARS;
}

static bool digit(char c, uint32_t *out)
{
    int value = c - FIRST;
    *out = (uint32_t)value;
    return value >= 0 && value < DIGITS;
}

bool aisim_code_read(const char **text, int32_t *difference)
{
    const char *at = *text;
    uint32_t value, more;
    if (*at == LONG) {
        uint32_t scale = 1;
        value = 0;
        for (int i = 1; i < AISIM_CODE_CHARS; i++) {
            if (!digit(at[i], &more)) {
                return false;
            }
            value += more * scale;
            scale *= DIGITS;
        }
        value += SHORT;
        at += AISIM_CODE_CHARS;
    } else if (!digit(*at, &value) || value >= SHORT + PAIRS) {
        return false;
    } else if (value < SHORT) {
        at++;
    } else {
        if (!digit(at[1], &more)) {
            return false;
        }
        value = SHORT + (value - SHORT) * DIGITS + more;
        at += 2;
    }
    *text = at;
    *difference = value % 2 == 0 ? (int32_t)(value / 2) : -(int32_t)(value / 2) - 1;
    return true;
}
