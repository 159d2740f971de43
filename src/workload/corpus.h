/* corpus.h - the plays of a workload in corpus order, read-only once finished.
 *
 * Life: aisim_corpus_new -> add_paths / add_text (any number, the order counts) -> finish -> read
 * -> free. Files are read one play at a time; the text is dropped as soon as it is parsed. finish
 * decides the nested time basis once over everything that was added (traffic 1.4), then lowers
 * every play. All plays have one block size and different ids. */
#ifndef AISIM_WORKLOAD_CORPUS_H
#define AISIM_WORKLOAD_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "aisim/status.h"
#include "workload/lowering.h"
#include "workload/play.h"

typedef enum {
    AISIM_BASIS_AUTO, /**< relative when any child stands before its marker, else absolute */
    AISIM_BASIS_ABSOLUTE,
    AISIM_BASIS_RELATIVE
} aisim_timestamp_basis;

typedef struct aisim_corpus_options {
    aisim_timestamp_basis nested_timestamp_basis; /**< auto */
    aisim_align_inputs align_inputs;              /**< as recorded */
    const volatile int *interrupt; /**< nonzero = give up before the next play, AISIM_EINTERRUPTED;
                                        NULL = never */
} aisim_corpus_options;

typedef struct aisim_corpus {
    aisim_play *plays; /**< by ordinal; filled by finish */
    uint32_t n_plays;
    uint32_t block_size;
    aisim_timestamp_basis basis; /**< resolved: absolute or relative */
    uint64_t digest; /**< of the lowered plays in order, not of file names or spelling */
    struct aisim_corpus_build *build; /**< private; NULL after finish */
} aisim_corpus;

/** An empty corpus. @p options NULL = defaults. Never fails. */
aisim_corpus *aisim_corpus_new(const aisim_corpus_options *options);

/** NULL allowed. */
void aisim_corpus_free(aisim_corpus *corpus);

/** Reads files: .json (one object) or anything else as JSON lines; a folder stands for all .json
 *  and .jsonl files below it in byte order of their paths, a pattern with * ? [ for all matches in
 *  the same order. A byte order mark, CRLF and blank lines are accepted.
 *  @return AISIM_OK, AISIM_ENOENT (no such file, no match), AISIM_EIO, or what aisim_weka_parse
 *          says, or AISIM_EINVAL (no play in the file, another block size, an id seen before).
 *          After an error the corpus can only be freed. */
aisim_status aisim_corpus_add_paths(aisim_corpus *corpus, const char *const *paths, uint32_t n,
                                    aisim_error *err);

/** Reads one play from memory. @p file and @p line are for messages. Errors as above. */
aisim_status aisim_corpus_add_text(aisim_corpus *corpus, const char *text, size_t size,
                                   const char *file, int line, aisim_error *err);

/** Adds a play that was made, not read; what it holds is moved, or freed on error. Child times of
 *  such plays are absolute. Errors: another block size, an id seen before. */
aisim_status aisim_corpus_add_play(aisim_corpus *corpus, aisim_weka_play *play, aisim_error *err);

/** Lowers everything. @return AISIM_OK, AISIM_EINVAL (nothing added, or see aisim_lower_play). */
aisim_status aisim_corpus_finish(aisim_corpus *corpus, aisim_error *err);

/** A finished corpus of plays that were built (play_build.h); takes the array, gives ordinals. */
aisim_corpus *aisim_corpus_of_plays(aisim_play *plays, uint32_t n);

#endif
