-- tokens_of.lua - the token ids of a prompt that a vector gives in parts.

return function(parts)
  local tokens = {}
  for _, part in ipairs(parts) do
    if part.range then
      for token = part.range[1], part.range[2] - 1 do
        tokens[#tokens + 1] = token
      end
    elseif part["repeat"] or part.fill then
      local token = part.fill or part["repeat"][1]
      for _ = 1, part.n or part["repeat"][2] do
        tokens[#tokens + 1] = token
      end
    else
      table.move(part.ids, 1, #part.ids, #tokens + 1, tokens)
    end
  end
  return tokens
end
