-- Qwen3-Next 80B-A3B, hybrid linear attention, experts, BF16. Figures: config.json of the checkpoint.
-- Keys: `aisim help model`; rules that read them: the timing section of the manual.
return {
  name = "qwen3-next-80b-a3b",
  aliases = {
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "Qwen/Qwen3-Next-80B-A3B-Thinking",
  },
  architecture = "hybrid", -- gated delta-net layers, routed experts
  layers = 48, -- config.json: num_hidden_layers
  hidden = 2048, -- config.json: hidden_size
  heads = 16, -- config.json: num_attention_heads
  kv_heads = 2, -- config.json: num_key_value_heads
  head_size = 256, -- config.json: head_dim
  vocabulary = 151936, -- config.json: vocab_size
  context_length = 262144, -- config.json: max_position_embeddings
  qk_norm = true, -- model card: RMS norm on q and k heads
  gated_query = true, -- model code: the query projection carries an output gate
  linear_layers = 36, -- config.json: full_attention_interval 4
  linear_key_heads = 16, -- config.json: linear_num_key_heads
  linear_value_heads = 32, -- config.json: linear_num_value_heads
  linear_head_size = 128, -- config.json: linear_key_head_dim = linear_value_head_dim
  conv_width = 4, -- config.json: linear_conv_kernel_dim
  experts = 512, -- config.json: num_experts
  experts_per_token = 10, -- config.json: num_experts_per_tok
  expert_intermediate = 512, -- config.json: moe_intermediate_size
  expert_skew = 1.2, -- routing of the measured tables that describe this family
  shared_intermediate = 512, -- config.json: shared_expert_intermediate_size
  shared_gate = true, -- model code: sigmoid gate on the shared expert
  moe_dtype = "bfloat16", -- config.json: torch_dtype
  gemm_dtype = "bfloat16", -- config.json: torch_dtype
  kv_dtype = "bfloat16", -- vLLM default: the type of the model
  attention_dtype = "bfloat16", -- FlashAttention-3 prefill
}
