/* fuzz_trace.c - any bytes as a file of recorded plays: read, lowered, cut into content, or refused
 * with a message. Lines are separate plays, as in a .jsonl file. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "workload/corpus.h"
#include "workload/reuse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    aisim_corpus_options options = {.align_inputs = (aisim_align_inputs)(size % 3)};
    aisim_corpus *corpus = aisim_corpus_new(&options);
    aisim_error err = {0};
    const char *text = (const char *)data, *end = text + size;
    int line = 1;
    aisim_status status = AISIM_OK;
    while (text < end && status == AISIM_OK) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((stop == NULL ? end : stop) - text);
        status = aisim_corpus_add_text(corpus, text, length, "fuzz.jsonl", line++, &err);
        text += length + 1;
    }
    if (status == AISIM_OK) {
        status = aisim_corpus_finish(corpus, &err);
    }
    if (status == AISIM_OK) {
        aisim_ideal_reuse reuse = aisim_ideal_reuse_corpus(corpus, 64);
        AISIM_CHECK(reuse.reused_tokens <= reuse.input_tokens);
    } else {
        AISIM_CHECK(err.code == status && err.text[0] != '\0');
    }
    aisim_corpus_free(corpus);
    return 0;
}
