/* reuse.c - see reuse.h; the work is done by the content template, which knows what matched. */
#include "workload/reuse.h"

uint64_t aisim_ideal_reuse_request(const aisim_play *play, const aisim_play_content *content,
                                   uint32_t request, uint32_t block_size)
{
    uint64_t limit = play->requests[request].input_tokens - 1u;
    uint64_t matched = content->requests[request].matched_tokens;
    uint64_t usable = matched < limit ? matched : limit;
    return usable - usable % block_size;
}

aisim_ideal_reuse aisim_ideal_reuse_play(const aisim_play *play, const aisim_play_content *content,
                                         uint32_t block_size)
{
    aisim_ideal_reuse sum = {0};
    for (uint32_t i = 0; i < play->n_requests; i++) {
        sum.input_tokens += play->requests[i].input_tokens;
        sum.reused_tokens += aisim_ideal_reuse_request(play, content, i, block_size);
    }
    return sum;
}

aisim_ideal_reuse aisim_ideal_reuse_corpus(const aisim_corpus *corpus, uint32_t block_size)
{
    aisim_ideal_reuse sum = {0};
    for (uint32_t i = 0; i < corpus->n_plays; i++) {
        aisim_play_content content;
        aisim_play_content_build(&corpus->plays[i], false, &content);
        aisim_ideal_reuse one = aisim_ideal_reuse_play(&corpus->plays[i], &content, block_size);
        aisim_play_content_deinit(&content);
        sum.input_tokens += one.input_tokens;
        sum.reused_tokens += one.reused_tokens;
    }
    return sum;
}
