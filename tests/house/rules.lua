--- Every rule that the code names (a comment such as "E-P12") is named by a test as well (A9).
-- Without AISIM_RULES=strict (which ctest sets) it prints what is missing and does not fail.
package.path = "tests/house/?.lua;" .. package.path
local house = require "house"

local RULE <const> = "%f[%w]E%-%u+%d+%l?%f[%W]"

local code, tests = {}, {} -- rule -> first place; rule -> true
for _, path in ipairs(house.files("src", "include")) do
  if path:find("%.[ch]$") then
    local number = 0
    for line in (house.read(path) .. "\n"):gmatch("(.-)\n") do
      number = number + 1
      for rule in line:gmatch(RULE) do code[rule] = code[rule] or path .. ":" .. number end
    end
  end
end
for _, path in ipairs(house.files("tests")) do
  if not path:find("^tests/house/") then
    for rule in house.read(path):gmatch(RULE) do tests[rule] = true end
  end
end

local rules = {}
for rule in pairs(code) do rules[#rules + 1] = rule end
table.sort(rules)
if #rules == 0 then house.skip("no rule is named in the code yet") end
local strict, missing = os.getenv("AISIM_RULES") == "strict", 0
for _, rule in ipairs(rules) do
  if tests[rule] or strict then
    house.check(tests[rule], "%s (%s): no test names it", rule, code[rule])
  else
    missing = missing + 1
    print(("%s (%s): no test names it"):format(rule, code[rule]))
  end
end
print(("%d rules in the code, %d without a test"):format(#rules, missing))

house.done()
