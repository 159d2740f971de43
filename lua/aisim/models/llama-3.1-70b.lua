-- Llama 3.1 70B (3.3 has the same dimensions), dense, BF16. Figures: config.json of the checkpoint.
-- Keys: `aisim help model`; rules that read them: the timing section of the manual.
return {
  name = "llama-3.1-70b",
  aliases = {
    "meta-llama/Llama-3.1-70B",
    "meta-llama/Llama-3.1-70B-Instruct",
    "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Meta-Llama-3.1-70B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
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
  gemm_dtype = "bfloat16", -- config.json: torch_dtype
  kv_dtype = "bfloat16", -- vLLM default: the type of the model
  attention_dtype = "bfloat16", -- FlashAttention-3 prefill
}
