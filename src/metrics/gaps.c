/* gaps.c - difference arrays over the passes of each rank.
 *
 * Invariant: a pass is kept while a segment that is not settled begins before its end, because such
 * a segment may still add itself to it. `starts` is the multiset of those begins, ascending; a pass
 * whose end is not after the smallest of them is final. */
#include "metrics/gaps.h"

#include "base/check.h"
#include "base/clock.h"

enum { FLUSH_PASSES = 4096, FLUSH_ENDED = 1024 };

void aisim_gaps_init(aisim_gaps *gaps, aisim_percentile_rule rule, uint32_t limit)
{
    *gaps = (aisim_gaps){.free_node = AISIM_NONE};
    aisim_digest_init(&gaps->pooled, rule, limit);
}

void aisim_gaps_free(aisim_gaps *gaps)
{
    for (uint32_t i = 0; i < gaps->ranks.len; i++) {
        aisim_array_free(&gaps->ranks.data[i].passes);
        aisim_array_free(&gaps->ranks.data[i].starts);
    }
    aisim_array_free(&gaps->ranks);
    aisim_array_free(&gaps->nodes);
    aisim_array_free(&gaps->ended);
    aisim_map_free(&gaps->chains);
    aisim_digest_clear(&gaps->pooled);
}

static aisim_gap_rank *rank_of(aisim_gaps *gaps, uint32_t rank)
{
    while (gaps->ranks.len <= rank) {
        aisim_array_push(&gaps->ranks, (aisim_gap_rank){.flush_at = FLUSH_PASSES});
    }
    return &gaps->ranks.data[rank];
}

/* ---- begins of segments ---------------------------------------------------------------------- */

static void register_start(aisim_gap_rank *rank, int64_t from_ns)
{
    uint32_t len = rank->starts.len;
    AISIM_ASSERT(len == rank->first_start || rank->starts.data[len - 1].from_ns <= from_ns);
    if (len > rank->first_start && rank->starts.data[len - 1].from_ns == from_ns) {
        rank->starts.data[len - 1].n++;
    } else {
        aisim_array_push(&rank->starts, (aisim_gap_start){from_ns, 1});
    }
}

static void settle_start(aisim_gap_rank *rank, int64_t from_ns)
{
    uint32_t low = rank->first_start, high = rank->starts.len;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (rank->starts.data[middle].from_ns < from_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    AISIM_CHECK(low < rank->starts.len && rank->starts.data[low].from_ns == from_ns);
    rank->starts.data[low].n--;
    while (rank->first_start < rank->starts.len && rank->starts.data[rank->first_start].n == 0) {
        rank->first_start++;
    }
    if (rank->first_start == rank->starts.len) {
        rank->first_start = rank->starts.len = 0;
    }
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* Appends a node to the chain whose last node is `last` (AISIM_NONE = a new one). */
static uint32_t append_node(aisim_gaps *gaps, uint32_t last, aisim_gap_node node)
{
    uint32_t index = gaps->free_node;
    if (index != AISIM_NONE) {
        gaps->free_node = gaps->nodes.data[index].next;
    } else {
        index = gaps->nodes.len;
        aisim_array_push(&gaps->nodes, node);
    }
    node.next = last == AISIM_NONE ? index : gaps->nodes.data[last].next;
    gaps->nodes.data[index] = node;
    if (last != AISIM_NONE) {
        gaps->nodes.data[last].next = index;
    }
    register_start(rank_of(gaps, node.rank), node.from_ns);
    return index;
}

void aisim_gaps_first(aisim_gaps *gaps, uint32_t id, uint32_t rank, int64_t t_ns)
{
    aisim_gap_node node = {.from_ns = t_ns, .gap_ns = -1, .rank = rank};
    aisim_map_set(&gaps->chains, id, 0, append_node(gaps, AISIM_NONE, node));
}

void aisim_gaps_irregular(aisim_gaps *gaps, uint32_t id, uint32_t rank, int64_t t_ns,
                          int64_t gap_ns)
{
    uint32_t last = aisim_map_get(&gaps->chains, id, 0);
    if (last != AISIM_NONE) {
        aisim_gap_node node = {.from_ns = t_ns, .gap_ns = gap_ns, .rank = rank};
        aisim_map_set(&gaps->chains, id, 0, append_node(gaps, last, node));
    }
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Index of the first kept pass that ends after t. */
static uint32_t first_after(const aisim_gap_rank *rank, int64_t t_ns)
{
    uint32_t low = rank->first_pass, high = rank->passes.len;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (rank->passes.data[middle].end_ns <= t_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void change_at(aisim_gap_rank *rank, uint32_t pass, int64_t change)
{
    if (pass < rank->passes.len) {
        rank->passes.data[pass].change += change;
    } else {
        rank->next_change += change;
    }
}

/* One counted request decoded in the passes of (from, to]. @return their number. */
static uint32_t count_segment(aisim_gap_rank *rank, int64_t from_ns, int64_t to_ns)
{
    uint32_t first = first_after(rank, from_ns);
    uint32_t behind = first_after(rank, to_ns);
    if (behind <= first) {
        return 0;
    }
    change_at(rank, first, 1);
    change_at(rank, behind, -1);
    return behind - first;
}

/* Walks a chain: counts its segments if it counts, settles their begins, frees the nodes. */
static void settle(aisim_gaps *gaps, const aisim_gap_end *end, bool counts)
{
    uint32_t last = end->chain;
    uint32_t at = gaps->nodes.data[last].next;
    int64_t seen = 0; /* gaps accounted for */
    for (;;) {
        aisim_gap_node node = gaps->nodes.data[at];
        bool final = at == last;
        const aisim_gap_node *next = &gaps->nodes.data[node.next];
        aisim_gap_rank *rank = &gaps->ranks.data[node.rank];
        if (counts) {
            if (node.gap_ns >= 0) {
                aisim_digest_add(&gaps->pooled, aisim_ms_from_ns(node.gap_ns), 1);
                seen++;
            }
            int64_t to_ns = final ? end->last_ns : next->from_ns - next->gap_ns;
            seen += count_segment(rank, node.from_ns, to_ns);
        }
        settle_start(rank, node.from_ns);
        gaps->nodes.data[at].next = gaps->free_node;
        gaps->free_node = at;
        if (final) {
            break;
        }
        at = node.next;
    }
    if (counts) {
        gaps->zeros += (int64_t)end->tokens - 1 - seen;
    }
}

/* Settles the ended requests whose last pass is in the list (all = every one). */
static void settle_ended(aisim_gaps *gaps, bool all)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < gaps->ended.len; i++) {
        aisim_gap_end end = gaps->ended.data[i];
        const aisim_gap_rank *rank = &gaps->ranks.data[gaps->nodes.data[end.chain].rank];
        uint32_t len = rank->passes.len;
        if (all || (len > 0 && rank->passes.data[len - 1].end_ns > end.last_ns)) {
            settle(gaps, &end, true);
        } else {
            gaps->ended.data[kept++] = end;
        }
    }
    gaps->ended.len = kept;
}

/* Moves final passes into the digest. */
static void flush(aisim_gaps *gaps, aisim_gap_rank *rank)
{
    bool open = rank->first_start < rank->starts.len;
    int64_t limit_ns = open ? rank->starts.data[rank->first_start].from_ns : AISIM_NEVER;
    while (rank->first_pass < rank->passes.len) {
        const aisim_gap_pass *pass = &rank->passes.data[rank->first_pass];
        if (pass->end_ns > limit_ns) {
            break;
        }
        rank->counted += pass->change;
        AISIM_ASSERT(rank->counted >= 0);
        aisim_digest_add(&gaps->pooled, aisim_ms_from_ns(pass->gap_ns), (uint64_t)rank->counted);
        rank->first_pass++;
    }
    if (rank->first_pass > rank->passes.len / 2) {
        rank->passes.len -= rank->first_pass;
        memmove(rank->passes.data, rank->passes.data + rank->first_pass,
                rank->passes.len * sizeof *rank->passes.data);
        rank->first_pass = 0;
    }
    if (rank->first_start > rank->starts.len / 2) {
        rank->starts.len -= rank->first_start;
        memmove(rank->starts.data, rank->starts.data + rank->first_start,
                rank->starts.len * sizeof *rank->starts.data);
        rank->first_start = 0;
    }
    rank->flush_at = rank->passes.len * 2 > FLUSH_PASSES ? rank->passes.len * 2 : FLUSH_PASSES;
}

void aisim_gaps_over(aisim_gaps *gaps, uint32_t id, int64_t last_ns, uint32_t tokens, bool counts)
{
    uint32_t chain = aisim_map_remove(&gaps->chains, id, 0);
    if (chain == AISIM_NONE) {
        return;
    }
    aisim_gap_end end = {.last_ns = last_ns, .chain = chain, .tokens = tokens};
    if (!counts) {
        settle(gaps, &end, false);
        return;
    }
    aisim_array_push(&gaps->ended, end);
    if (gaps->ended.len % FLUSH_ENDED == 0) {
        settle_ended(gaps, false);
    }
}

void aisim_gaps_pass(aisim_gaps *gaps, uint32_t rank_index, int64_t end_ns, int64_t gap_ns)
{
    if (gap_ns == 0) {
        return; /* counted with the gaps inside bursts, so that end times are distinct */
    }
    aisim_gap_rank *rank = rank_of(gaps, rank_index);
    aisim_gap_pass pass = {.end_ns = end_ns, .gap_ns = gap_ns, .change = rank->next_change};
    rank->next_change = 0;
    aisim_array_push(&rank->passes, pass);
    if (rank->passes.len >= rank->flush_at) {
        settle_ended(gaps, false);
        flush(gaps, rank);
    }
}

void aisim_gaps_finish(aisim_gaps *gaps)
{
    settle_ended(gaps, true);
    aisim_map_free(&gaps->chains); /* live requests do not count */
    gaps->nodes.len = 0;
    gaps->free_node = AISIM_NONE;
    for (uint32_t i = 0; i < gaps->ranks.len; i++) {
        aisim_gap_rank *rank = &gaps->ranks.data[i];
        rank->starts.len = rank->first_start = 0;
        flush(gaps, rank);
    }
    if (gaps->zeros > 0) {
        aisim_digest_add(&gaps->pooled, 0, (uint64_t)gaps->zeros);
        gaps->zeros = 0;
    }
}
