-- Llama 3.1 8B, dense, BF16. Figures: the config.json of the checkpoint on the Hugging Face hub.
-- Keys: `aisim help model`; rules that read them: the timing section of the manual.
return {
  name = "llama-3.1-8b",
  aliases = {
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Meta-Llama-3.1-8B-Instruct",
  },
  architecture = "dense", -- one FFN per layer
  layers = 32, -- config.json: num_hidden_layers
  hidden = 4096, -- config.json: hidden_size
  intermediate = 14336, -- config.json: intermediate_size
  heads = 32, -- config.json: num_attention_heads
  kv_heads = 8, -- config.json: num_key_value_heads
  head_size = 128, -- hidden_size / num_attention_heads
  vocabulary = 128256, -- config.json: vocab_size
  context_length = 131072, -- config.json: max_position_embeddings
  gemm_dtype = "bfloat16", -- config.json: torch_dtype
  kv_dtype = "bfloat16", -- vLLM default: the type of the model
  attention_dtype = "bfloat16", -- FlashAttention-3 prefill
}
