-- gpt-oss 20B, mixture of experts with 4-bit expert weights. Figures: config.json of the checkpoint.
-- Keys: `aisim help model`; rules that read them: the timing section of the manual.
return {
  name = "gpt-oss-20b",
  aliases = {
    "openai/gpt-oss-20b",
  },
  architecture = "moe", -- routed experts
  layers = 24, -- config.json: num_hidden_layers
  hidden = 2880, -- config.json: hidden_size
  heads = 64, -- config.json: num_attention_heads
  kv_heads = 8, -- config.json: num_key_value_heads
  head_size = 64, -- config.json: head_dim
  vocabulary = 201088, -- config.json: vocab_size
  context_length = 131072, -- config.json: max_position_embeddings
  window_layers = 12, -- config.json: layer_types, every other layer is sliding_attention
  window_tokens = 128, -- config.json: sliding_window
  experts = 32, -- config.json: num_local_experts
  experts_per_token = 4, -- config.json: num_experts_per_tok
  expert_intermediate = 2880, -- config.json: intermediate_size
  expert_skew = 1.2, -- routing of the measured tables that describe this family
  moe_dtype = "w4a16_mxfp4", -- config.json: quantization_config, quant_method mxfp4
  gemm_dtype = "bfloat16", -- config.json: torch_dtype
  kv_dtype = "bfloat16", -- vLLM default: the type of the model
  attention_dtype = "bfloat16", -- FlashAttention-3 prefill
}
