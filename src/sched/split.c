/* split.c - stops of a prefill chunk. */
#include "sched/split.h"

#include <math.h>

uint32_t aisim_prompt_boundary(uint32_t prompt, uint32_t block_size, bool drop)
{
    uint32_t blocks = prompt == 0 ? 0 : (prompt - 1) / block_size;
    return (drop && blocks > 0 ? blocks - 1 : blocks) * block_size;
}

uint32_t aisim_prompt_tail(uint32_t prompt, uint32_t block_size, uint32_t unit, bool drop)
{
    if (unit == 0 || unit == block_size) {
        return 0;
    }
    uint32_t tail = prompt / unit * unit;
    return tail < prompt && tail > aisim_prompt_boundary(prompt, block_size, drop) ? tail : 0;
}

/* Rule 3: the boundary behind which the last useful checkpoint lies. */
static uint32_t boundary_stop(const aisim_split *in)
{
    if (in->kind == AISIM_SPLIT_FIXED) {
        return aisim_prompt_boundary(in->prompt, in->block_size, in->drop);
    }
    uint32_t blocks = in->known / in->block_size; /* legacy and upstream count from the end */
    bool back_off = in->kind == AISIM_SPLIT_UPSTREAM && in->drop; /* N2 */
    return (back_off && blocks > 0 ? blocks - 1 : blocks) * in->block_size;
}

static uint32_t tail_stop(const aisim_split *in)
{
    if (in->kind != AISIM_SPLIT_UPSTREAM) {
        return aisim_prompt_tail(in->prompt, in->block_size, in->unit, false);
    }
    bool fine = in->unit != 0 && in->unit < in->block_size;
    return fine ? in->prompt / in->unit * in->unit : 0;
}

/* Moves `end` to `stop` if that lies strictly inside (start, end). */
static uint32_t stop_at(uint32_t start, uint32_t end, uint32_t stop)
{
    return stop > start && stop < end ? stop : end;
}

uint32_t aisim_split_tokens(const aisim_split *in)
{
    uint32_t b = in->block_size, start = in->start;
    uint32_t last = in->known - 1 > in->prompt ? in->known - 1 : in->prompt; /* E */
    if (start >= last) {
        return in->desired;
    }
    uint32_t end = start + in->desired;
    if (end < last) { /* rule 2 */
        uint32_t edge = end / b * b;
        if (edge > start || b <= in->cap) {
            end = edge;
        }
    }
    if (start % b != 0) {
        end = stop_at(start, end, (start / b + 1) * b);
    }
    end = stop_at(start, end, boundary_stop(in));
    end = stop_at(start, end, tail_stop(in));
    if (in->kind == AISIM_SPLIT_UPSTREAM) {
        end = stop_at(start, end, in->junction / b * b);
    }
    return end > start ? end - start : 0;
}

uint32_t aisim_state_block_count(double bytes_per_request, double bytes_per_token,
                                 uint32_t block_size)
{
    return (uint32_t)ceil(bytes_per_request / (bytes_per_token * block_size));
}
