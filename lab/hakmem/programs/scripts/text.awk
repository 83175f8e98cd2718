# Words counted, paired and replaced: arrays and strings that come and go.
{
    for (n = 1; n <= NF; n++) count[$n]++
    for (n = 1; n < NF; n++) pairs[substr($n, 1, 3) substr($(n + 1), 1, 1)] = NR
    if (NR <= 20000) {
        line = $0
        times += gsub(/[aeiou]/, "<&>", line)
        kept[NR] = toupper(line)
    }
}
END {
    for (word in count) { words++; if (count[word] > most) most = count[word] }
    for (pair in pairs) { different++; last += pairs[pair] }
    for (n = 1; n <= 20000; n++) size += length(kept[n])
    split(kept[7], parts, "<")
    print words, most, different, last, times, size, length(parts)
}
