-- Words counted, joined, replaced and sorted: tables, strings and closures that come and go.
local counts, order, makers = {}, {}, {}
for line in io.lines(arg[1]) do
  for word in line:gmatch("%a+") do
    if not counts[word] then
      counts[word] = 0
      order[#order + 1] = word
    end
    counts[word] = counts[word] + 1
  end
  if #makers < 20000 then
    makers[#makers + 1] = function(n) return line:sub(n, n + 5):upper() .. n end
  end
end
table.sort(order, function(a, b)
  if counts[a] ~= counts[b] then return counts[a] > counts[b] end
  return a < b
end)
local parts = {}
for n, make in ipairs(makers) do parts[n] = make(n % 30) end
local joined = table.concat(parts, "-")
local changed, times = joined:gsub("A(%a)", function(c) return c .. c end)
local tree = nil
for n = 1, 120000 do tree = { value = n, next = n % 50 ~= 0 and tree or nil } end
print(#order, order[1], order[10], counts[order[10]], #joined, #changed, times, tree.value)
