/* host_path.c - prompts in the tier: the blocks of a content path, which of them are here, and
 * their touch (spec/offload.md §6, §7.2). */
#include "host/host.h"

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* A block belongs to the run with its last token. */
const aisim_host_stretches *aisim_host_path(aisim_host_group *group, uint32_t run, uint32_t first,
                                            uint32_t end)
{
    const aisim_content *content = group->pool.content;
    group->path.len = 0;
    uint32_t upto = end;
    for (uint32_t r = run; r != AISIM_NONE && upto > first; r = aisim_content_parent(content, r)) {
        uint32_t start = max_u32(aisim_content_start(content, r) / group->block_size, first);
        if (start < upto) {
            aisim_host_stretch s = {r, start, upto - start};
            aisim_array_push(&group->path, s);
            upto = start;
        }
    }
    for (uint32_t i = 0, j = group->path.len; i + 1 < j; i++) {
        aisim_host_stretch s = group->path.data[i];
        group->path.data[i] = group->path.data[--j];
        group->path.data[j] = s;
    }
    return &group->path;
}

uint32_t aisim_host_resident(aisim_host_group *group, uint32_t run, uint32_t first, uint32_t end)
{
    const aisim_host_stretches *path = aisim_host_path(group, run, first, end);
    uint32_t found = 0;
    for (uint32_t i = 0; i < path->len; i++) {
        aisim_host_stretch s = path->data[i];
        uint32_t there =
            aisim_host_pool_match(&group->pool, s.run, s.first, s.first + s.count).resident;
        found += there;
        if (there < s.count) {
            break;
        }
    }
    return found;
}

void aisim_host_touch(aisim_host_group *group, uint32_t run, uint32_t first, uint32_t end)
{
    const aisim_content *content = group->pool.content;
    uint32_t upto = end;
    for (uint32_t r = run; r != AISIM_NONE && upto > first; r = aisim_content_parent(content, r)) {
        uint32_t start = max_u32(aisim_content_start(content, r) / group->block_size, first);
        if (start < upto) {
            aisim_host_pool_touch(&group->pool, (aisim_host_stretch){r, start, upto - start});
            upto = start;
        }
    }
}
