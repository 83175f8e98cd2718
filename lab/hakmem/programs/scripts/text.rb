# Words counted, grouped and rebuilt: hashes, arrays, strings and symbols that come and go.
lines = File.readlines(ARGV[0], chomp: true)
counts = Hash.new(0)
lines.each { |line| line.split(' ').each { |word| counts[word] += 1 } }
order = counts.sort_by { |word, count| [-count, word] }
groups = order.group_by { |word, _| word[0, 2] }
built = lines.first(12_000).map { |line| line.split(' ').map(&:capitalize).reverse.join('_') }
changed = built.map { |line| line.gsub(/[AEIOU]([a-z])/) { Regexp.last_match(1) * 2 } }
Point = Struct.new(:x, :y, :name)
points = (0...150_000).map { |n| Point.new(n, n * 7919 % 10_007, "p#{n}") }
points.sort_by! { |point| [point.y, point.x] }
puts [order.size, order[0], order[9], groups.size, changed.sum(&:size), points[77].name].join(' ')
