--- Model descriptors from a Hugging Face config.json (spec/timing.md §2, §4).
-- One reader per architecture class; each says where its figures come from. What the timing room has no
-- operation list for is refused by name. Multimodal checkpoints carry the language model in text_config.
local check = require "aisim.check"

local M = {}

-- Routing of the measured tables that describe these families (spec/timing.md §3.5).
local SKEW <const>, SKEW_MLA <const> = 1.2, 1.01

local function common(config)
  return {
    layers = config.num_hidden_layers, hidden = config.hidden_size, heads = config.num_attention_heads,
    kv_heads = config.num_key_value_heads or config.num_attention_heads,
    head_size = config.head_dim or (config.hidden_size and config.num_attention_heads
      and config.hidden_size // config.num_attention_heads),
    vocabulary = config.vocab_size, context_length = config.max_position_embeddings,
  }
end

local function dense(qk_norm)
  return function(config)
    local out = common(config)
    out.architecture, out.intermediate, out.qk_norm = "dense", config.intermediate_size, qk_norm or nil
    return out
  end
end

local function experts(out, config, inner)
  out.experts = config.num_experts or config.num_local_experts or config.n_routed_experts
  out.experts_per_token = config.num_experts_per_tok or config.experts_per_token
  out.expert_intermediate, out.expert_skew = inner, SKEW
  return out
end

local function qwen_moe(config)
  local out = experts(common(config), config, config.moe_intermediate_size)
  out.architecture, out.qk_norm = "moe", true
  return out
end

--- How many entries of layer_types are of a kind.
local function count(config, kind)
  local n = 0
  for _, name in ipairs(type(config.layer_types) == "table" and config.layer_types or {}) do
    if name == kind then n = n + 1 end
  end
  return n
end

local function gpt_oss(config)
  local out = experts(common(config), config, config.intermediate_size)
  out.architecture = "moe"
  out.window_layers, out.window_tokens = count(config, "sliding_attention"), config.sliding_window
  return out
end

local function deepseek(config)
  local out = experts(common(config), config, config.moe_intermediate_size)
  out.architecture, out.expert_skew = "mla", SKEW_MLA
  out.head_size = config.qk_nope_head_dim + config.qk_rope_head_dim
  out.q_lora_rank, out.kv_lora_rank = config.q_lora_rank, config.kv_lora_rank
  out.qk_nope_head_size, out.qk_rope_head_size, out.v_head_size =
    config.qk_nope_head_dim, config.qk_rope_head_dim, config.v_head_dim
  out.shared_intermediate = (config.n_shared_experts or 0) * config.moe_intermediate_size
  return out
end

--- Gated delta-net between full-attention layers, with or without experts.
local function hybrid(config)
  local out = common(config)
  out.architecture, out.qk_norm, out.gated_query = "hybrid", true, true
  out.linear_layers = count(config, "linear_attention")
  if out.linear_layers == 0 and config.full_attention_interval then
    out.linear_layers = out.layers - out.layers // config.full_attention_interval
  end
  out.linear_key_heads, out.linear_value_heads = config.linear_num_key_heads, config.linear_num_value_heads
  out.linear_head_size, out.conv_width = config.linear_key_head_dim, config.linear_conv_kernel_dim
  if (config.num_experts or 0) > 0 then
    experts(out, config, config.moe_intermediate_size)
    out.shared_intermediate = config.shared_expert_intermediate_size
    out.shared_gate = (out.shared_intermediate or 0) > 0 or nil
  else
    out.intermediate = config.intermediate_size
  end
  return out
end

local READERS <const> = {
  LlamaForCausalLM = dense(false), MistralForCausalLM = dense(false), Qwen2ForCausalLM = dense(false),
  Qwen3ForCausalLM = dense(true), Qwen3MoeForCausalLM = qwen_moe, GptOssForCausalLM = gpt_oss,
  DeepseekV3ForCausalLM = deepseek, Qwen3NextForCausalLM = hybrid,
  Qwen3_5ForCausalLM = hybrid, Qwen3_5MoeForCausalLM = hybrid,
  Qwen3_5ForConditionalGeneration = hybrid, Qwen3_5MoeForConditionalGeneration = hybrid,
}

--- Number format of the weights: all of them, experts only.
local function quantisation(path, config)
  local q = config.quantization_config
  if type(q) ~= "table" then return nil end
  local method = q.quant_method
  if method == "mxfp4" then return nil, "w4a16_mxfp4" end
  if method == "fp8" and type(q.weight_block_size) == "table" then return "fp8_block" end
  if method == "fp8" then return q.activation_scheme == "static" and "fp8_static" or "fp8" end
  if method == "modelopt" and q.quant_algo == "FP8" then return "fp8_static" end
  return check.fail("%s: known, not modelled: quantization_config.quant_method '%s'", path, tostring(method))
end

--- Descriptor from a decoded config.json.
---@param path string    names the model (its folder) and appears in messages
---@param config table
---@return table
function M.read(path, config)
  local class = type(config.architectures) == "table" and config.architectures[1] or "?"
  local reader = READERS[class]
  if not reader then check.fail("%s: known, not modelled: architecture '%s'", path, tostring(class)) end
  local text = type(config.text_config) == "table" and config.text_config or config
  for _, key in ipairs { "num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size" } do
    if type(text[key]) ~= "number" then check.fail("%s: %s: number expected, got %s", path, key, type(text[key])) end
  end
  local out = reader(text)
  local weights, of_experts = quantisation(path, config)
  out.name = path:match("([^/]+)/[^/]*$") or path
  out.gemm_dtype = weights or "bfloat16"
  out.moe_dtype = out.experts and (of_experts or weights or "bfloat16") or nil
  out.kv_dtype = weights and "fp8" or "bfloat16" -- an FP8 checkpoint is deployed with an FP8 cache
  out.attention_dtype = "bfloat16"
  return out
end

return M
