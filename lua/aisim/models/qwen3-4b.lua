-- Qwen3 4B, dense, BF16. Figures: config.json of the checkpoint.
-- Keys: `aisim help model`; rules that read them: the timing section of the manual.
return {
  name = "qwen3-4b",
  aliases = {
    "Qwen/Qwen3-4B",
  },
  architecture = "dense", -- one FFN per layer
  layers = 36, -- config.json: num_hidden_layers
  hidden = 2560, -- config.json: hidden_size
  intermediate = 9728, -- config.json: intermediate_size
  heads = 32, -- config.json: num_attention_heads
  kv_heads = 8, -- config.json: num_key_value_heads
  head_size = 128, -- config.json: head_dim
  vocabulary = 151936, -- config.json: vocab_size
  context_length = 40960, -- config.json: max_position_embeddings
  qk_norm = true, -- model card: RMS norm on q and k heads
  gemm_dtype = "bfloat16", -- config.json: torch_dtype
  kv_dtype = "bfloat16", -- vLLM default: the type of the model
  attention_dtype = "bfloat16", -- FlashAttention-3 prefill
}
