/* calibration_load.c - from the text of a calibration to a table (file format: calibration.h). */
#include "timing/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/rng.h"
#include "timing/calibration_code.h"
#include "timing/calibration_form.h"
#include "timing/table_build.h"
#include "timing/table_csv.h"

enum { LINE_MAX_BYTES = 8192, CODE_MAX = 32 * AISIM_CALIBRATION_STEPS }; /* exp(+-32) */

typedef struct axis_list {
    uint32_t count;
    uint32_t at[AISIM_AXIS_MAX];
} axis_list;

typedef struct parser {
    const char *name, *next;
    int line;
    char buffer[LINE_MAX_BYTES]; /* the current line, cut into words */
    char *word;                  /* rest of it */
    const aisim_hardware *hardware;
    axis_list axes[AISIM_FAMILY_COUNT][2]; /* outer, inner */
    int family;                            /* of the records that follow; -1 = none yet */
    uint32_t formats[AISIM_TABLE_KEYS];
    aisim_table_builder *builder;
    aisim_calibration_info info;
    aisim_error *err;
} parser;

static aisim_status bad(parser *p, const char *what)
{
    return aisim_fail_at(p->err, AISIM_EPARSE, p->name, p->line, 0, "calibration: %s", what);
}

/* Next line that is no comment into p->buffer. @return false at the end or on an over-long line. */
static bool next_line(parser *p)
{
    for (;;) {
        const char *end = strchr(p->next, '\n');
        size_t length = end != NULL ? (size_t)(end - p->next) : strlen(p->next);
        if ((length == 0 && end == NULL) || length >= sizeof p->buffer) {
            return false;
        }
        memcpy(p->buffer, p->next, length);
        p->buffer[length] = '\0';
        p->next += length + (end != NULL);
        p->line++;
        p->word = p->buffer;
        if (length > 0 && p->buffer[0] != '#') {
            return true;
        }
    }
}

/* Next word of the line, or NULL. */
static char *next_word(parser *p)
{
    char *start = p->word;
    if (*start == '\0') {
        return NULL;
    }
    char *space = strchr(start, ' ');
    if (space != NULL) {
        *space = '\0';
        p->word = space + 1;
    } else {
        p->word = start + strlen(start);
    }
    return start;
}

static int family_named(const char *name)
{
    for (int f = 0; f < AISIM_FAMILY_COUNT; f++) {
        const char *known = aisim_calibration_form_of((aisim_family)f)->name;
        if (known != NULL && strcmp(known, name) == 0) {
            return f;
        }
    }
    return -1;
}

static aisim_status read_axis(parser *p)
{
    const char *family = next_word(p), *which = next_word(p), *word;
    int f = family != NULL ? family_named(family) : -1;
    if (f < 0 || which == NULL || (strcmp(which, "inner") != 0 && strcmp(which, "outer") != 0)) {
        return bad(p, "expected 'axis FAMILY outer|inner N…'");
    }
    axis_list *axis = &p->axes[f][which[0] == 'i'];
    while ((word = next_word(p)) != NULL) {
        uint32_t value;
        if (axis->count == AISIM_AXIS_MAX || !aisim_csv_u32(word, &value) || value == 0 ||
            (axis->count > 0 && value <= axis->at[axis->count - 1])) {
            return bad(p, "axis values must be rising whole numbers");
        }
        axis->at[axis->count++] = value;
    }
    return AISIM_OK;
}

static aisim_status read_slices(parser *p)
{
    const char *family = next_word(p);
    p->family = family != NULL ? family_named(family) : -1;
    if (p->family < 0) {
        return bad(p, "unknown family of slices");
    }
    for (uint32_t i = 0; i < aisim_calibration_form_of((aisim_family)p->family)->formats; i++) {
        const char *word = next_word(p);
        int dtype = word != NULL ? aisim_word_find(aisim_dtype_words, word) : -1;
        if (dtype < 0) {
            return bad(p, "unknown number format");
        }
        p->formats[i] = (uint32_t)dtype;
    }
    return AISIM_OK;
}

static aisim_status read_constant(parser *p)
{
    const char *key = next_word(p), *text = next_word(p);
    const aisim_field *field = key != NULL ? aisim_field_find(&aisim_hardware_fields, key) : NULL;
    double value;
    if (field == NULL || text == NULL || !aisim_csv_f64(text, &value)) {
        return bad(p, "expected 'constant KEY VALUE' with a key of the hardware descriptor");
    }
    double have = aisim_field_number(field, p->hardware);
    if (fabs(have - value) > 1e-9 * value) {
        return aisim_fail_at(p->err, AISIM_EINVAL, p->name, p->line, 0,
                             "the calibration was made for %s = %g, hardware '%s' has %g", key,
                             value, p->hardware->name, have);
    }
    return AISIM_OK;
}

/* The knots of one outer value. *code is carried on: differences run through the whole record. */
static aisim_status read_knots(parser *p, const uint32_t key[], uint32_t at[],
                               const aisim_mask *inner, const char **codes, int32_t *code)
{
    aisim_family family = (aisim_family)p->family;
    const axis_list *axis = &p->axes[family][1];
    for (uint32_t i = 0; i < axis->count; i++) {
        int32_t difference;
        if (!inner->bit[i]) {
            continue;
        }
        if (!aisim_code_read(codes, &difference)) {
            return bad(p, "the codes of the record are cut off");
        }
        if (difference > CODE_MAX || difference < -CODE_MAX) {
            return bad(p, "a code is out of range");
        }
        *code += difference;
        if (*code > CODE_MAX || *code < -CODE_MAX) {
            return bad(p, "a code is out of range");
        }
        at[aisim_form_inner(family)] = axis->at[i];
        double base = aisim_calibration_base(p->hardware, family, key, at);
        aisim_table_builder_add(p->builder, family, key, at,
                                base * exp((double)*code / AISIM_CALIBRATION_STEPS));
        p->info.numbers++;
    }
    return AISIM_OK;
}

static aisim_status read_record_head(parser *p, const aisim_calibration_form *form, uint32_t key[],
                                     uint32_t at[])
{
    for (uint32_t i = 0; i < form->keys + form->heads; i++) {
        if (i < form->formats) {
            key[i] = p->formats[i];
            continue;
        }
        const char *word = next_word(p);
        uint32_t *to = i < form->keys ? &key[i] : &at[0];
        if (word == NULL || !aisim_csv_u32(word, to)) {
            return bad(p, "expected the whole numbers of a key");
        }
    }
    return AISIM_OK;
}

static aisim_status read_record(parser *p)
{
    if (p->family < 0) {
        return bad(p, "a record before 'slices'");
    }
    aisim_family family = (aisim_family)p->family;
    const aisim_calibration_form *form = aisim_calibration_form_of(family);
    const axis_list *outer_axis = &p->axes[family][0], *inner_axis = &p->axes[family][1];
    uint32_t key[AISIM_TABLE_KEYS] = {0}, at[AISIM_TABLE_AXES] = {0};
    aisim_mask outer = {{true}}, inner = {{0}};
    p->word = p->buffer;
    aisim_status status = read_record_head(p, form, key, at);
    if (status != AISIM_OK) {
        return status;
    }
    const char *outer_text = form->outer ? next_word(p) : "";
    const char *masks = next_word(p), *codes = next_word(p);
    if (outer_text == NULL || masks == NULL || codes == NULL) {
        return bad(p, "a record needs masks and codes");
    }
    uint32_t lines = form->outer ? outer_axis->count : 1;
    uint32_t digits = aisim_mask_digits(inner_axis->count);
    if (form->outer && (strlen(outer_text) != aisim_mask_digits(lines) ||
                        !aisim_mask_read(outer_text, lines, &outer))) {
        return bad(p, "bad mask of the outer axis");
    }
    int32_t code = 0;
    for (uint32_t o = 0; o < lines && status == AISIM_OK; o++) {
        if (!outer.bit[o]) {
            continue;
        }
        if (strlen(masks) < digits || !aisim_mask_read(masks, inner_axis->count, &inner)) {
            return bad(p, "bad mask of the inner axis");
        }
        masks += digits;
        if (form->outer) {
            at[aisim_form_outer(family)] = outer_axis->at[o];
        }
        status = read_knots(p, key, at, &inner, &codes, &code);
    }
    if (status == AISIM_OK && (*codes != '\0' || *masks != '\0')) {
        return bad(p, "more codes or masks than knots");
    }
    p->info.records++;
    return status;
}

static aisim_status read_line(parser *p)
{
    if (p->buffer[0] >= '0' && p->buffer[0] <= '9') {
        return read_record(p);
    }
    const char *verb = next_word(p), *text;
    if (strcmp(verb, "axis") == 0) {
        return read_axis(p);
    }
    if (strcmp(verb, "slices") == 0) {
        return read_slices(p);
    }
    if (strcmp(verb, "constant") == 0) {
        return read_constant(p);
    }
    text = next_word(p);
    if (text == NULL) {
        return bad(p, "unexpected line");
    }
    if (strcmp(verb, "inputs") == 0) {
        p->info.inputs = strtoull(text, NULL, 16);
        return AISIM_OK;
    }
    uint32_t steps;
    if (strcmp(verb, "steps") == 0 && aisim_csv_u32(text, &steps) &&
        steps == AISIM_CALIBRATION_STEPS) {
        return AISIM_OK;
    }
    if (strcmp(verb, "hardware") == 0) {
        return strcmp(text, p->hardware->name) == 0
                   ? AISIM_OK
                   : aisim_fail_at(p->err, AISIM_EINVAL, p->name, p->line, 0,
                                   "the calibration is for hardware '%s', not '%s'", text,
                                   p->hardware->name);
    }
    return bad(p, "unexpected line");
}

aisim_status aisim_calibration_parse(const char *text, const char *name,
                                     const aisim_hardware *hardware, aisim_table **out,
                                     aisim_calibration_info *info, aisim_error *err)
{
    *out = NULL;
    parser *p = aisim_alloc_zero(1, sizeof *p);
    p->name = name;
    p->next = text;
    p->hardware = hardware;
    p->family = -1;
    p->err = err;
    p->builder = aisim_table_builder_new();
    aisim_status status = AISIM_OK;
    if (!next_line(p) || strcmp(p->buffer, "aisim-calibration 1") != 0) {
        status = bad(p, "the first line must be 'aisim-calibration 1'");
    }
    while (status == AISIM_OK && next_line(p)) {
        status = read_line(p);
    }
    if (status == AISIM_OK && *p->next != '\0') {
        status = bad(p, "a line is too long");
    }
    aisim_table *table = aisim_table_builder_finish(p->builder, NULL);
    if (status == AISIM_OK) {
        table->calibrated = true;
        *out = table;
        if (info != NULL) {
            *info = p->info;
        }
    } else {
        aisim_table_free(table);
    }
    aisim_free(p);
    return status;
}

aisim_status aisim_calibration_load(const char *path, const aisim_hardware *hardware,
                                    aisim_table **out, aisim_calibration_info *info,
                                    aisim_error *err)
{
    *out = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return aisim_fail_at(err, AISIM_ENOENT, path, 0, 0, "cannot open the calibration");
    }
    AISIM_ARRAY(char) text = {0};
    size_t got;
    do {
        aisim_array_reserve(&text, text.len + 65536);
        got = fread(text.data + text.len, 1, 65535, file);
        text.len += (uint32_t)got;
    } while (got > 0 && text.len < (1U << 28));
    bool failed = ferror(file) != 0;
    fclose(file);
    aisim_status status;
    if (failed) {
        status = aisim_fail_at(err, AISIM_EIO, path, 0, 0, "cannot read the calibration");
    } else {
        text.data[text.len] = '\0';
        status = aisim_calibration_parse(text.data, path, hardware, out, info, err);
    }
    aisim_array_free(&text);
    return status;
}

uint64_t aisim_table_hash(const aisim_table *table)
{
    uint64_t hash = aisim_mix64(table->slice_count);
    for (uint32_t i = 0; i < table->slice_count; i++) {
        const aisim_table_slice *slice = &table->slices[i];
        hash = aisim_mix64(hash ^ aisim_hash_bytes(slice->key, sizeof slice->key));
        for (uint32_t r = slice->first; r < slice->first + slice->count; r++) {
            const aisim_table_row *row = &table->rows[r];
            hash = aisim_mix64(hash ^ aisim_hash_bytes(row->at, sizeof row->at));
            hash = aisim_mix64(hash ^ aisim_hash_bytes(&row->ms, sizeof row->ms));
        }
    }
    return hash;
}
