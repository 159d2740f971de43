-- DeepSeek-R1 (same dimensions as DeepSeek-V3), latent attention, block-scaled FP8. Figures: config.json of
-- the checkpoint. All 61 layers are priced as MoE layers; the checkpoint has 3 dense ones.
-- Keys: `aisim help model`; rules that read them: the timing section of the manual.
return {
  name = "deepseek-r1",
  aliases = {
    "deepseek-ai/DeepSeek-R1",
    "deepseek-ai/DeepSeek-R1-0528",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3-0324",
    "deepseek-ai/DeepSeek-V3.1",
  },
  architecture = "mla", -- latent attention, routed and shared experts
  layers = 61, -- config.json: num_hidden_layers
  hidden = 7168, -- config.json: hidden_size
  heads = 128, -- config.json: num_attention_heads
  kv_heads = 128, -- config.json: num_key_value_heads; the cache holds one latent vector instead
  head_size = 192, -- qk_nope_head_dim + qk_rope_head_dim
  vocabulary = 129280, -- config.json: vocab_size
  context_length = 163840, -- config.json: max_position_embeddings
  q_lora_rank = 1536, -- config.json: q_lora_rank
  kv_lora_rank = 512, -- config.json: kv_lora_rank
  qk_nope_head_size = 128, -- config.json: qk_nope_head_dim
  qk_rope_head_size = 64, -- config.json: qk_rope_head_dim
  v_head_size = 128, -- config.json: v_head_dim
  experts = 256, -- config.json: n_routed_experts
  experts_per_token = 8, -- config.json: num_experts_per_tok
  expert_intermediate = 2048, -- config.json: moe_intermediate_size
  expert_skew = 1.01, -- routing of the measured tables that describe this family
  shared_intermediate = 2048, -- config.json: n_shared_experts * moe_intermediate_size
  moe_dtype = "fp8_block", -- config.json: quantization_config, weight_block_size 128 x 128
  gemm_dtype = "fp8_block", -- config.json: quantization_config, weight_block_size 128 x 128
  kv_dtype = "fp8", -- deployed with an FP8 KV cache
  attention_dtype = "bfloat16", -- FlashAttention-3 prefill
}
