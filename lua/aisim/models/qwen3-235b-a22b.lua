-- Qwen3 235B-A22B, mixture of experts, BF16. Figures: config.json of the checkpoint.
-- Keys: `aisim help model`; rules that read them: the timing section of the manual.
return {
  name = "qwen3-235b-a22b",
  aliases = {
    "Qwen/Qwen3-235B-A22B",
  },
  architecture = "moe", -- routed experts
  layers = 94, -- config.json: num_hidden_layers
  hidden = 4096, -- config.json: hidden_size
  heads = 64, -- config.json: num_attention_heads
  kv_heads = 4, -- config.json: num_key_value_heads
  head_size = 128, -- config.json: head_dim
  vocabulary = 151936, -- config.json: vocab_size
  context_length = 40960, -- config.json: max_position_embeddings
  qk_norm = true, -- model card: RMS norm on q and k heads
  experts = 128, -- config.json: num_experts
  experts_per_token = 8, -- config.json: num_experts_per_tok
  expert_intermediate = 1536, -- config.json: moe_intermediate_size
  expert_skew = 1.2, -- routing of the measured tables that describe this family
  moe_dtype = "bfloat16", -- config.json: torch_dtype
  gemm_dtype = "bfloat16", -- config.json: torch_dtype
  kv_dtype = "bfloat16", -- vLLM default: the type of the model
  attention_dtype = "bfloat16", -- FlashAttention-3 prefill
}
