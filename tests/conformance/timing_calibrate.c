/* timing_calibrate.c - makes lua/aisim/hardware/h200_sxm.calib from the measured tables.
 *
 *   timing_calibrate TABLES OUT
 *
 * Run in the source folder: the catalogue is read from lua/aisim. The list below says which models
 * and parallelisms get curves of their own. */
#include <stdio.h>
#include <stdlib.h>

#include "../unit/descriptor_file.h"
#include "timing/calibration.h"

typedef struct entry {
    const char *model;
    aisim_parallelism parallelism; /* tensor, pipeline, attention_data, moe_tensor, moe_expert */
} entry;

static const entry entries[] = {
    {"llama-3.1-8b", {1, 1, 1, 1, 1}},        {"llama-3.1-8b", {2, 1, 1, 1, 1}},
    {"llama-3.1-70b", {4, 1, 1, 1, 1}},       {"llama-3.1-70b", {8, 1, 1, 1, 1}},
    {"llama-3.1-70b-fp8", {2, 1, 1, 1, 1}},   {"llama-3.1-70b-fp8", {4, 1, 1, 1, 1}},
    {"llama-3.1-70b-fp8", {8, 1, 1, 1, 1}},   {"qwen3-8b", {1, 1, 1, 1, 1}},
    {"qwen3-32b", {1, 1, 1, 1, 1}},           {"qwen3-32b", {2, 1, 1, 1, 1}},
    {"qwen3-32b", {4, 1, 1, 1, 1}},           {"qwen3-32b-fp8", {1, 1, 1, 1, 1}},
    {"qwen3-32b-fp8", {2, 1, 1, 1, 1}},       {"qwen3-30b-a3b", {1, 1, 1, 1, 1}},
    {"qwen3-30b-a3b", {2, 1, 1, 2, 1}},       {"qwen3-30b-a3b-fp8", {1, 1, 1, 1, 1}},
    {"qwen3-235b-a22b", {8, 1, 1, 8, 1}},     {"qwen3-235b-a22b-fp8", {4, 1, 1, 4, 1}},
    {"qwen3-235b-a22b-fp8", {4, 1, 1, 1, 4}}, {"qwen3-235b-a22b-fp8", {8, 1, 1, 1, 8}},
    {"gpt-oss-120b", {1, 1, 1, 1, 1}},        {"gpt-oss-120b", {2, 1, 1, 2, 1}},
    {"gpt-oss-120b", {2, 1, 1, 1, 2}},        {"gpt-oss-120b", {4, 1, 1, 4, 1}},
    {"gpt-oss-120b", {8, 1, 1, 8, 1}},        {"deepseek-r1", {8, 1, 1, 8, 1}},
    {"deepseek-r1", {8, 1, 1, 1, 8}},         {"deepseek-r1", {1, 1, 8, 1, 8}},
    {"qwen3.5-27b", {1, 1, 1, 1, 1}},         {"qwen3.5-27b", {2, 1, 1, 1, 1}},
    {"qwen3.5-35b-a3b", {1, 1, 1, 1, 1}},     {"qwen3.5-35b-a3b", {2, 1, 1, 2, 1}},
    {"qwen3.5-397b-a17b", {8, 1, 1, 8, 1}},
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
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        aisim_model model;
        aisim_model_init(&model);
        if (!descriptor_read(&aisim_model_fields, &model, "lua/aisim/models", entries[i].model) ||
            aisim_calibrator_add(calibrator, &model, &entries[i].parallelism, &err) != AISIM_OK) {
            die(&err);
        }
    }
    aisim_calibrator_add_donors(calibrator);
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
