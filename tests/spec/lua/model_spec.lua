--- Models: the catalogue, names, and descriptors from a Hugging Face config.json (spec/timing.md §2, §4).
require "aisim" -- says where the library lies
local catalogue = require "aisim.catalogue"
local config_json = require "aisim.config_json"
local core = require "aisim.core"

--- Keys of a descriptor that a config.json decides.
local function figures(descriptor)
  local out = {}
  for key, value in pairs(descriptor) do
    if key ~= "name" and key ~= "aliases" then out[key] = value end
  end
  return out
end

local function read(config) return figures(config_json.read("models/x/config.json", config)) end

--- n entries of layer_types, every `every`-th of them `last`.
local function layer_types(n, every, other, last)
  local list = {}
  for i = 1, n do list[i] = i % every == 0 and last or other end
  return list
end

local FP8_BLOCK <const> = { quant_method = "fp8", weight_block_size = { 128, 128 } }

describe("config.json", function()
  it("of dense models says what the catalogue says", function()
    assert.are.same(figures(catalogue.model "llama-3.1-8b"), read {
      architectures = { "LlamaForCausalLM" }, num_hidden_layers = 32, hidden_size = 4096, intermediate_size = 14336,
      num_attention_heads = 32, num_key_value_heads = 8, vocab_size = 128256, max_position_embeddings = 131072,
    })
    assert.are.same(figures(catalogue.model "qwen3-32b-fp8"), read {
      architectures = { "Qwen3ForCausalLM" }, num_hidden_layers = 64, hidden_size = 5120, intermediate_size = 25600,
      num_attention_heads = 64, num_key_value_heads = 8, head_dim = 128, vocab_size = 151936,
      max_position_embeddings = 40960, quantization_config = FP8_BLOCK,
    })
  end)

  it("of mixtures of experts", function()
    assert.are.same(figures(catalogue.model "qwen3-30b-a3b"), read {
      architectures = { "Qwen3MoeForCausalLM" }, num_hidden_layers = 48, hidden_size = 2048, intermediate_size = 6144,
      num_attention_heads = 32, num_key_value_heads = 4, head_dim = 128, vocab_size = 151936, num_experts = 128,
      num_experts_per_tok = 8, moe_intermediate_size = 768,
      max_position_embeddings = catalogue.model("qwen3-30b-a3b").context_length,
    })
    assert.are.same(figures(catalogue.model "openai/gpt-oss-20b"), read {
      architectures = { "GptOssForCausalLM" }, num_hidden_layers = 24, hidden_size = 2880, intermediate_size = 2880,
      num_attention_heads = 64, num_key_value_heads = 8, head_dim = 64, vocab_size = 201088, num_local_experts = 32,
      num_experts_per_tok = 4, sliding_window = 128, max_position_embeddings = 131072,
      layer_types = layer_types(24, 2, "sliding_attention", "full_attention"),
      quantization_config = { quant_method = "mxfp4" },
    })
  end)

  it("of latent attention", function()
    assert.are.same(figures(catalogue.model "DeepSeek-V3"), read {
      architectures = { "DeepseekV3ForCausalLM" }, num_hidden_layers = 61, hidden_size = 7168,
      intermediate_size = 18432, num_attention_heads = 128, num_key_value_heads = 128, vocab_size = 129280,
      max_position_embeddings = 163840, q_lora_rank = 1536, kv_lora_rank = 512, qk_nope_head_dim = 128,
      qk_rope_head_dim = 64, v_head_dim = 128, n_routed_experts = 256, num_experts_per_tok = 8, n_shared_experts = 1,
      moe_intermediate_size = 2048, quantization_config = FP8_BLOCK,
    })
  end)

  it("of hybrid models, with the language model inside", function()
    local text = {
      num_hidden_layers = 40, hidden_size = 2048, num_attention_heads = 16, num_key_value_heads = 2, head_dim = 256,
      vocab_size = 248320, max_position_embeddings = 262144, linear_num_key_heads = 16, linear_num_value_heads = 32,
      linear_key_head_dim = 128, linear_value_head_dim = 128, linear_conv_kernel_dim = 4, num_experts = 256,
      num_experts_per_tok = 8, moe_intermediate_size = 512, shared_expert_intermediate_size = 512,
      layer_types = layer_types(40, 4, "linear_attention", "full_attention"),
    }
    assert.are.same(figures(catalogue.model "qwen3.5-35b-a3b"),
      read { architectures = { "Qwen3_5MoeForConditionalGeneration" }, text_config = text })
    text.layer_types, text.full_attention_interval, text.num_hidden_layers = nil, 4, 48
    text.vocab_size, text.num_experts, text.num_experts_per_tok = 151936, 512, 10
    text.architectures = { "Qwen3NextForCausalLM" }
    assert.are.same(figures(catalogue.model "qwen3-next-80b-a3b"), read(text))
  end)

  it("refuses by name what is not modelled", function()
    assert.has_error(function() read { architectures = { "MambaForCausalLM" } } end,
      "models/x/config.json: known, not modelled: architecture 'MambaForCausalLM'")
    assert.has_error(function()
      read { architectures = { "LlamaForCausalLM" }, num_hidden_layers = 2, hidden_size = 64, num_attention_heads = 2,
        vocab_size = 100, quantization_config = { quant_method = "awq" } }
    end, "models/x/config.json: known, not modelled: quantization_config.quant_method 'awq'")
    assert.has_error(function() read { architectures = { "LlamaForCausalLM" }, num_hidden_layers = 2 } end,
      "models/x/config.json: hidden_size: number expected, got nil")
  end)

  it("is read from a file and priced", function()
    local path = os.tmpname() .. ".json"
    local file <close> = assert(io.open(path, "w"))
    file:write [[{ "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 28, "hidden_size": 2048,
      "intermediate_size": 6144, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
      "vocab_size": 151936, "max_position_embeddings": 40960 }]]
    file:close()
    assert.is_true(core.timing({ model = path }):pass(0, 0, 0, 8, 8000) > 1)
    os.remove(path)
  end)
end)

describe("the catalogue", function()
  it("knows models by name, by id, and without the organisation", function()
    local model = catalogue.model "llama-3.1-8b"
    assert.are.equal(model, catalogue.model "meta-llama/Llama-3.1-8B-Instruct")
    assert.are.equal(model, catalogue.model "Meta-Llama-3.1-8B")
  end)
end)
