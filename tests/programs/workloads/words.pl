# Hashes, regular expressions and sort on pseudo-random words that any language can reproduce.
use strict;
use warnings;
use integer;

my $state = 12345;
my $text  = '';
for (1 .. 200_000) {
    $state = ($state * 1103515245 + 12345) % 2**31;
    $text .= 'w' . ($state >> 16) . ($_ % 9 ? ' ' : "\n");
}
my %counts;
$counts{$1}++ while $text =~ /(w\d+)/g;

my @order = sort { $counts{$b} <=> $counts{$a} or $a cmp $b } keys %counts;
print "$_ $counts{$_}\n" for @order[ 0 .. 19 ];

my $ends = () = $text =~ /7\b/g;
(my $letters = $text) =~ s/\s+//g;
printf "%d %d %d\n", scalar(@order), $ends, length $letters;
