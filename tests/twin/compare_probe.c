/* compare_probe.c - what the comparison wants to know of the engine beyond the twin's interface. */
#include "engine_internal.h"

const aisim_pass_shape *engine_shape(const twin *engine);

const aisim_pass_shape *engine_shape(const twin *engine)
{
    return &aisim_rank_batch(&engine->rank, engine->rank.current)->shape;
}
