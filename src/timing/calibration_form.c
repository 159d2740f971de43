/* calibration_form.c - see calibration_form.h. */
#include "timing/calibration_form.h"

/* Q1: rows of block-FP8 GEMMs were taken without graphs and carry the host's launch. */
static const double BLOCK_GEMM_LAUNCH_MS = 0.055;

static const aisim_calibration_form forms[AISIM_FAMILY_COUNT] = {
    [AISIM_FAMILY_GEMM] = {"gemm", 1, 4, false, false, 0.003},
    [AISIM_FAMILY_PREFILL_ATTENTION] = {"prefill_attention", 2, 5, true, true, 0.004},
    [AISIM_FAMILY_DECODE_ATTENTION] = {"decode_attention", 2, 5, true, true, 0.004},
    [AISIM_FAMILY_EXPERTS] = {"experts", 1, 8, false, false, 0.020},
    [AISIM_FAMILY_MLA_PREFILL] = {"mla_prefill", 2, 2, true, true, 0.030},
    [AISIM_FAMILY_MLA_DECODE] = {"mla_decode", 2, 2, true, true, 0.030},
    [AISIM_FAMILY_GDN_CONV] = {"gdn_conv", 0, 4, false, true, 0.003},
    [AISIM_FAMILY_GDN_CONV_UPDATE] = {"gdn_conv_update", 0, 4, false, false, 0.003},
    [AISIM_FAMILY_GDN_SCAN] = {"gdn_scan", 0, 4, false, true, 0.003},
    [AISIM_FAMILY_GDN_RECURRENCE] = {"gdn_recurrence", 0, 4, false, false, 0.003},
    [AISIM_FAMILY_ALL_REDUCE] = {"all_reduce", 0, 1, false, false, 0.004},
    [AISIM_FAMILY_ALL_GATHER] = {"all_gather", 0, 1, false, false, 0.004},
    [AISIM_FAMILY_REDUCE_SCATTER] = {"reduce_scatter", 0, 1, false, false, 0.004},
};

const char *const aisim_calibration_constants[] = {"memory_bytes_per_s", "bf16_flops", "fp8_flops",
                                                   "link_bytes_per_s", NULL};

const aisim_calibration_form *aisim_calibration_form_of(aisim_family family)
{
    return &forms[family];
}

double aisim_calibration_base(const aisim_hardware *hw, aisim_family family, const uint32_t key[],
                              const uint32_t at[])
{
    bool uncaptured = family == AISIM_FAMILY_GEMM && key[0] == AISIM_DTYPE_FP8_BLOCK;
    double launch_ms = uncaptured ? BLOCK_GEMM_LAUNCH_MS : forms[family].launch_ms;
    return aisim_table_roof(hw, family, key, at) + launch_ms;
}
