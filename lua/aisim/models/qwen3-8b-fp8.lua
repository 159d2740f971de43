-- Qwen3 8B with block-scaled FP8 weights. Figures: config.json of the checkpoint.
-- Keys: `aisim help model`; rules that read them: the timing section of the manual.
return {
  name = "qwen3-8b-fp8",
  aliases = {
    "Qwen/Qwen3-8B-FP8",
  },
  architecture = "dense", -- one FFN per layer
  layers = 36, -- config.json: num_hidden_layers
  hidden = 4096, -- config.json: hidden_size
  intermediate = 12288, -- config.json: intermediate_size
  heads = 32, -- config.json: num_attention_heads
  kv_heads = 8, -- config.json: num_key_value_heads
  head_size = 128, -- config.json: head_dim
  vocabulary = 151936, -- config.json: vocab_size
  context_length = 40960, -- config.json: max_position_embeddings
  qk_norm = true, -- model card: RMS norm on q and k heads
  gemm_dtype = "fp8_block", -- config.json: quantization_config, weight_block_size 128 x 128
  kv_dtype = "fp8", -- deployed with an FP8 KV cache
  attention_dtype = "bfloat16", -- FlashAttention-3 prefill
}
