<?php
// Words counted, paired, replaced and sorted: arrays, strings and objects that come and go.
class Line
{
    public function __construct(public string $text, public array $words)
    {
    }
}

$counts = [];
$lines = [];
foreach (file($argv[1], FILE_IGNORE_NEW_LINES) as $text) {
    $words = explode(' ', $text);
    foreach ($words as $word) {
        $counts[$word] = ($counts[$word] ?? 0) + 1;
    }
    $lines[] = new Line($text, $words);
}
uksort($counts, fn ($a, $b) => $counts[$b] <=> $counts[$a] ?: strcmp($a, $b));
$order = array_keys($counts);
$size = 0;
foreach (array_slice($lines, 0, 25000) as $line) {
    $changed = preg_replace_callback('/[aeiou](\w)/', fn ($m) => $m[1] . $m[1], $line->text);
    $size += strlen(implode('_', array_map('ucfirst', array_reverse(explode(' ', $changed)))));
}
$again = json_decode(json_encode(array_slice($lines, 0, 12000)), true);
printf("%d %s %s %d %d\n", count($order), $order[0], $order[9], $size, count($again));
