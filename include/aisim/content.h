/* content.h - the content tree: what prompts consist of, without tokens (A3).
 *
 * A *run* is a stretch of tokens with one parent run and a branch position; positions count tokens
 * from the root, so a run covers [start, end) and everything before start is its parent's past. A
 * run therefore knows its whole history, and two prompts agree up to position p exactly when their
 * paths go through the same runs up to p. Nothing is hashed and nothing is stored per token: a
 * 120,000-token prompt is one or two runs of some 64 bytes.
 *
 * A *node* is a prefix: (run, tokens) = the first `tokens` tokens of the path that ends in run.
 *
 * Content comes from four sources, each interned so that equal content gives the same runs:
 *   ids      lists of block identities of a trace, any block size; keyed (parent, position, next
 * id). Token ids are the case block_tokens = 1 named    "agent-system", 12,000 tokens: keyed
 * (parent, position, name); the name stands for an endless stream of which the extent is the
 * beginning private  content that nobody else can have: never found again, only extended by its
 * owner root     a namespace of length 0, keyed by a number (salt, adapter, play instance) A run is
 * never split: a list that leaves it in the middle becomes a child with a branch position. A run
 * grows in place when content of its own kind is appended at its very end.
 *
 * A full block of b tokens belongs to the run that contains its last token; (run, block index) is
 * its identity for any b.
 *
 * References: every call that returns a node gives the caller one reference to node.run, to be
 * returned with aisim_content_release. A run lives while it is referenced, has children, or has
 * resident blocks. Sizes: tokens of a path < 2^32. Not thread-safe; one tree per simulation. */
#ifndef AISIM_CONTENT_H
#define AISIM_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aisim_content aisim_content;

typedef struct aisim_node {
    uint32_t run;    /**< index of the run */
    uint32_t tokens; /**< length of the prefix, start(run) <= tokens <= end(run) */
} aisim_node;

/** count block identities first, first + 1, …: the run-length form of hash_ids. */
typedef struct aisim_id_run {
    uint64_t first;
    uint64_t count;
} aisim_id_run;

/** The root of everything: run 0, no tokens. Needs no reference. */
#define AISIM_ROOT ((aisim_node){0, 0})

aisim_content *aisim_content_new(void);
void aisim_content_free(aisim_content *content); /**< NULL allowed */

/** A namespace below the root: nothing in it is shared with any other. Equal key = same namespace.
 */
aisim_node aisim_content_namespace(aisim_content *content, uint64_t key);

/** Appends n id runs of blocks of block_tokens tokens each (>= 1), in all at most max_tokens tokens
 *  (the last block may be cut). O(runs walked + n). */
aisim_node aisim_content_append_ids(aisim_content *content, aisim_node at, const aisim_id_run *ids,
                                    uint32_t n, uint32_t block_tokens, uint32_t max_tokens);

/** Appends the first `tokens` tokens of the stream called `name` (aisim_hash_text of its text). */
aisim_node aisim_content_append_named(aisim_content *content, aisim_node at, uint64_t name,
                                      uint32_t tokens);

/** Appends tokens that nobody else has. If `at` is the end of a private run, that run grows. */
aisim_node aisim_content_append_private(aisim_content *content, aisim_node at, uint32_t tokens);

/** A new private run that branches off at `at`, even at the end of a private run; may be empty. For
 *  content whose sharing is known from outside: a play's template, the own part of a request. */
aisim_node aisim_content_branch(aisim_content *content, aisim_node at, uint32_t tokens);

/** One more reference to the run. */
void aisim_content_hold(aisim_content *content, uint32_t run);

/** Returns one reference. */
void aisim_content_release(aisim_content *content, uint32_t run);

/** Somebody holds the run; every other function wants a run of which this is true. */
bool aisim_content_alive(const aisim_content *content, uint32_t run);

/** Facts about a live run. */
uint32_t aisim_content_parent(const aisim_content *content, uint32_t run);
uint32_t aisim_content_start(const aisim_content *content, uint32_t run);
uint32_t aisim_content_end(const aisim_content *content, uint32_t run);

/** The first `tokens` tokens (at most node.tokens) of the path of a node. Gives no reference: the
 *  node's own keeps the run alive. O(depth) */
aisim_node aisim_content_prefix(const aisim_content *content, aisim_node node, uint32_t tokens);

/** Tokens that two nodes have in common from the root. O(depth). */
uint32_t aisim_content_common(const aisim_content *content, aisim_node a, aisim_node b);

/** Number of live runs, for tests and memory figures. */
uint32_t aisim_content_live(const aisim_content *content);

#ifdef __cplusplus
}
#endif
#endif
