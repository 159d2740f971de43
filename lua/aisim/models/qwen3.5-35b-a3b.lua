-- Qwen3.5 35B-A3B, hybrid linear attention, experts, BF16. Figures: config.json of the checkpoint.
-- Keys: `aisim help model`; rules that read them: the timing section of the manual.
return {
  name = "qwen3.5-35b-a3b",
  aliases = {
    "Qwen/Qwen3.5-35B-A3B",
  },
  architecture = "hybrid", -- gated delta-net layers, routed experts
  layers = 40, -- config.json: num_hidden_layers
  hidden = 2048, -- config.json: hidden_size
  heads = 16, -- config.json: num_attention_heads
  kv_heads = 2, -- config.json: num_key_value_heads
  head_size = 256, -- config.json: head_dim
  vocabulary = 248320, -- config.json: vocab_size
  context_length = 262144, -- config.json: max_position_embeddings
  qk_norm = true, -- model card: RMS norm on q and k heads
  gated_query = true, -- config.json: attn_output_gate
  linear_layers = 30, -- config.json: layer_types, three of four are linear_attention
  linear_key_heads = 16, -- config.json: linear_num_key_heads
  linear_value_heads = 32, -- config.json: linear_num_value_heads
  linear_head_size = 128, -- config.json: linear_key_head_dim = linear_value_head_dim
  conv_width = 4, -- config.json: linear_conv_kernel_dim
  experts = 256, -- config.json: num_experts
  experts_per_token = 8, -- config.json: num_experts_per_tok
  expert_intermediate = 512, -- config.json: moe_intermediate_size
  expert_skew = 1.2, -- routing of the measured tables that describe this family
  shared_intermediate = 512, -- config.json: shared_expert_intermediate_size
  shared_gate = true, -- model code: sigmoid gate on the shared expert
  moe_dtype = "bfloat16", -- config.json: torch_dtype
  gemm_dtype = "bfloat16", -- config.json: torch_dtype
  kv_dtype = "bfloat16", -- vLLM default: the type of the model
  attention_dtype = "bfloat16", -- FlashAttention-3 prefill
}
