/* timing_calibrate.c - makes lua/aisim/hardware/h200_sxm.calib from the measured tables.
 *
 *   timing_calibrate TABLES OUT
 *
 * Run in the source folder: the catalogue is read from lua/aisim. The list below says which models
 * and parallelisms get curves for every operation; all others that fit the memory get curves for
 * what does not carry over from neighbours (aisim_calibrate_scope). */
#include <stdio.h>
#include <stdlib.h>

#include "../unit/descriptor_file.h"
#include "timing/calibration.h"
#include "timing/capacity.h"

enum { SPLITS_MAX = 8 };

/* A model and up to eight parallelisms {tensor, pipeline, attention_data, moe_tensor, moe_expert}.
 */
typedef struct entry {
    const char *model;
    aisim_parallelism parallelism[SPLITS_MAX];
} entry;

static const entry entries[] = {
    {"llama-3.1-8b", {{1, 1, 1, 1, 1}, {2, 1, 1, 1, 1}, {4, 1, 1, 1, 1}}},
    {"llama-3.1-70b", {{4, 1, 1, 1, 1}, {8, 1, 1, 1, 1}, {2, 1, 1, 1, 1}}},
    {"llama-3.1-70b-fp8", {{2, 1, 1, 1, 1}, {4, 1, 1, 1, 1}, {8, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}},
    {"qwen3-8b", {{1, 1, 1, 1, 1}, {2, 1, 1, 1, 1}}},
    {"qwen3-32b", {{1, 1, 1, 1, 1}, {2, 1, 1, 1, 1}, {4, 1, 1, 1, 1}}},
    {"qwen3-32b-fp8", {{1, 1, 1, 1, 1}, {2, 1, 1, 1, 1}, {4, 1, 1, 1, 1}}},
    {"qwen3-30b-a3b", {{1, 1, 1, 1, 1}, {2, 1, 1, 2, 1}, {4, 1, 1, 4, 1}}},
    {"qwen3-30b-a3b-fp8", {{1, 1, 1, 1, 1}, {2, 1, 1, 2, 1}}},
    {"qwen3-235b-a22b", {{8, 1, 1, 8, 1}}},
    {"qwen3-235b-a22b-fp8", {{4, 1, 1, 4, 1}, {4, 1, 1, 1, 4}, {8, 1, 1, 1, 8}}},
    {"gpt-oss-120b",
     {{1, 1, 1, 1, 1}, {2, 1, 1, 2, 1}, {2, 1, 1, 1, 2}, {4, 1, 1, 4, 1}, {8, 1, 1, 8, 1}}},
    {"deepseek-r1", {{8, 1, 1, 8, 1}, {8, 1, 1, 1, 8}, {1, 1, 8, 1, 8}}},
    {"qwen3.5-27b", {{1, 1, 1, 1, 1}, {2, 1, 1, 1, 1}}},
    {"qwen3.5-35b-a3b", {{1, 1, 1, 1, 1}, {2, 1, 1, 2, 1}}},
    {"qwen3.5-397b-a17b", {{8, 1, 1, 8, 1}}},
};

static const char *const origin[] = {
    "Fitted by aisim from measured operator latencies of one NVIDIA H200 SXM node (vLLM 0.24.0)",
    "published by the aiconfigurator project (systems/data/h200_sxm, state of 2026-08-21).",
    "Measurements: Copyright NVIDIA CORPORATION & AFFILIATES, licensed under the Apache License "
    "2.0.",
    NULL};

static void die(const aisim_error *err)
{
    char text[1400];
    fprintf(stderr, "%s\n", aisim_error_format(err, text, sizeof text));
    exit(1);
}

static void add(aisim_calibrator *calibrator, const aisim_model *model,
                const aisim_parallelism *parallelism, aisim_calibrate_scope scope)
{
    aisim_error err = {0};
    if (aisim_calibrator_add(calibrator, model, parallelism, scope, &err) != AISIM_OK) {
        die(&err);
    }
}

/* Tensor degrees 1 to 8, experts split by width or by number, as far as the weights fit. */
static void add_kernels(aisim_calibrator *calibrator, const aisim_model *model,
                        const aisim_hardware *hardware)
{
    for (uint32_t tensor = 1; tensor <= 8; tensor *= 2) {
        for (int expert = 0; expert < (model->experts > 0 ? 2 : 1); expert++) {
            aisim_capacity_request request = aisim_capacity_request_default();
            aisim_parallelism p = aisim_parallelism_one();
            aisim_capacity c;
            p.tensor = tensor;
            if (model->experts > 0) {
                p.moe_expert = expert ? tensor : 1;
                p.moe_tensor = expert ? 1 : tensor;
            }
            if (aisim_capacity_compute(model, hardware, &p, &request, "", &c, NULL) == AISIM_OK) {
                add(calibrator, model, &p, AISIM_CALIBRATE_KERNELS);
            }
        }
    }
}

static void add_catalogue(aisim_calibrator *calibrator, const aisim_hardware *hardware)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        aisim_model model;
        aisim_model_init(&model);
        if (!descriptor_read(&aisim_model_fields, &model, "lua/aisim/models", entries[i].model)) {
            exit(1);
        }
        for (int j = 0; j < SPLITS_MAX && entries[i].parallelism[j].tensor > 0; j++) {
            add(calibrator, &model, &entries[i].parallelism[j], AISIM_CALIBRATE_ALL);
        }
        add_kernels(calibrator, &model, hardware);
    }
    aisim_calibrator_add_donors(calibrator);
}

int main(int argc, char **argv)
{
    aisim_hardware hardware;
    aisim_table *table;
    aisim_calibration_info info;
    aisim_error err = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: timing_calibrate TABLES OUT\n");
        return 2;
    }
    aisim_hardware_init(&hardware);
    if (!descriptor_read(&aisim_hardware_fields, &hardware, "lua/aisim/hardware", "h200_sxm")) {
        return 1;
    }
    if (aisim_table_load(argv[1], &hardware, &table, &err) != AISIM_OK) {
        die(&err);
    }
    aisim_calibrator *calibrator = aisim_calibrator_new(table, &hardware);
    add_catalogue(calibrator, &hardware);
    FILE *file = fopen(argv[2], "wb");
    if (file == NULL) {
        perror(argv[2]);
        return 1;
    }
    if (aisim_calibrator_write(calibrator, origin, file, &info, &err) != AISIM_OK) {
        die(&err);
    }
    if (fclose(file) != 0) {
        perror(argv[2]);
        return 1;
    }
    printf("%u records, %u numbers, inputs %016llx\n", (unsigned)info.records,
           (unsigned)info.numbers, (unsigned long long)info.inputs);
    aisim_calibrator_free(calibrator);
    aisim_table_free(table);
    return 0;
}
