/* leave_out.c - see leave_out.h. */
#include "timing/leave_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/rng.h"
#include "timing/calibration_form.h"
#include "timing/source_tables.h"
#include "timing/table_build.h"

const char *aisim_family_name(aisim_family family)
{
    return aisim_calibration_form_of(family)->name;
}

void aisim_table_split(const aisim_table *table, double share, aisim_table **kept,
                       aisim_held_row **held, size_t *n)
{
    AISIM_ARRAY(aisim_held_row) rows = {0};
    aisim_table_builder *builder = aisim_table_builder_new();
    aisim_rng rng = aisim_rng_named(1, "leave out");
    for (int f = 0; f < AISIM_FAMILY_COUNT; f++) {
        bool priced = aisim_family_name((aisim_family)f) != NULL;
        for (uint32_t s = table->family_first[f]; s < table->family_first[f + 1]; s++) {
            const aisim_table_slice *slice = &table->slices[s];
            for (uint32_t r = slice->first; r < slice->first + slice->count; r++) {
                const aisim_table_row *row = &table->rows[r];
                if (!priced || aisim_rng_unit(&rng) >= share) {
                    aisim_table_builder_add(builder, (aisim_family)f, slice->key, row->at, row->ms);
                    continue;
                }
                aisim_held_row out = {.family = (aisim_family)f, .ms = row->ms};
                memcpy(out.key, slice->key, sizeof out.key);
                memcpy(out.at, row->at, sizeof out.at);
                aisim_array_push(&rows, out);
            }
        }
    }
    *kept = aisim_table_builder_finish(builder, NULL);
    *held = rows.data;
    *n = rows.len;
}

/* The calibration as a table, without a file in between. */
static aisim_status calibrate(aisim_calibrator *calibrator, const aisim_hardware *hardware,
                              aisim_table **out, aisim_error *err)
{
    static const char *const origin[] = {NULL};
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    *out = NULL;
    if (file == NULL) {
        return aisim_fail(err, AISIM_EIO, "no memory for the calibration");
    }
    aisim_status status = aisim_calibrator_write(calibrator, origin, file, NULL, err);
    if (fclose(file) != 0 && status == AISIM_OK) {
        status = aisim_fail(err, AISIM_EIO, "no memory for the calibration");
    }
    if (status == AISIM_OK) {
        status = aisim_calibration_parse(text, "calibration", hardware, out, NULL, err);
    }
    free(text); /* of open_memstream */
    return status;
}

/* A curve of the row's key and, where curves fix them, query heads. */
static bool has_curve(const aisim_table *calibration, const aisim_held_row *row)
{
    const aisim_table_slice *slice = aisim_table_find(calibration, row->family, row->key);
    if (slice == NULL || !aisim_calibration_form_of(row->family)->heads) {
        return slice != NULL;
    }
    for (uint32_t r = slice->first; r < slice->first + slice->count; r++) {
        if (calibration->rows[r].at[0] == row->at[0]) {
            return true;
        }
    }
    return false;
}

static double error_of(aisim_op_source *source, const aisim_held_row *row)
{
    aisim_op op;
    aisim_op_load load;
    aisim_provenance provenance;
    aisim_table_op_of(row->family, row->key, row->at, &op, &load);
    return source->class->price(source, &op, &load, &provenance) / row->ms - 1;
}

aisim_status aisim_leave_out_errors(aisim_calibrator *calibrator, aisim_table *kept,
                                    const aisim_hardware *hardware, aisim_held_row held[], size_t n,
                                    aisim_error *err)
{
    aisim_table *calibration;
    aisim_status status = calibrate(calibrator, hardware, &calibration, err);
    if (status != AISIM_OK) {
        return status;
    }
    aisim_op_source *fitted = aisim_op_source_tables(aisim_table_share(calibration), hardware);
    aisim_op_source *measured = aisim_op_source_tables(aisim_table_share(kept), hardware);
    for (size_t i = 0; i < n; i++) {
        held[i].own = has_curve(calibration, &held[i]);
        held[i].calibrated_error = error_of(fitted, &held[i]);
        held[i].table_error = error_of(measured, &held[i]);
    }
    aisim_op_source_free(fitted);
    aisim_op_source_free(measured);
    aisim_table_free(calibration);
    return AISIM_OK;
}
