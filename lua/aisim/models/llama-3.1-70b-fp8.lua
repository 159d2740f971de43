-- Llama 3.1 70B with static per-tensor FP8 weights. Figures: config.json and hf_quant_config.json.
-- Keys: `aisim help model`; rules that read them: the timing section of the manual.
return {
  name = "llama-3.1-70b-fp8",
  aliases = {
    "nvidia/Llama-3.1-70B-Instruct-FP8",
    "nvidia/Llama-3.3-70B-Instruct-FP8",
  },
  architecture = "dense", -- one FFN per layer
  layers = 80, -- config.json: num_hidden_layers
  hidden = 8192, -- config.json: hidden_size
  intermediate = 28672, -- config.json: intermediate_size
  heads = 64, -- config.json: num_attention_heads
  kv_heads = 8, -- config.json: num_key_value_heads
  head_size = 128, -- hidden_size / num_attention_heads
  vocabulary = 128256, -- config.json: vocab_size
  context_length = 131072, -- config.json: max_position_embeddings
  gemm_dtype = "fp8_static", -- hf_quant_config.json: quant_algo FP8, static per-tensor scales
  kv_dtype = "fp8", -- deployed with an FP8 KV cache
  attention_dtype = "bfloat16", -- FlashAttention-3 prefill
}
