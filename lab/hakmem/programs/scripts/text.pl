# Words counted, paired, replaced and sorted: hashes, lists and strings that come and go.
use strict;
use warnings;

my (%count, %pairs, @lines);
open my $in, '<', $ARGV[0] or die $!;
while (my $line = <$in>) {
    chomp $line;
    my @words = split / /, $line;
    $count{$_}++ for @words;
    push @{ $pairs{ substr $words[$_], 0, 2 } }, $words[$_ + 1] for 0 .. $#words - 1;
    push @lines, { text => $line, words => \@words } if @lines < 20000;
}
my @order = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my $changed = 0;
for my $line (@lines) {
    (my $copy = $line->{text}) =~ s/([aeiou])(\w)/$2$1/g;
    $changed += length join '', map { ucfirst } reverse split / /, $copy;
}
my $most = (sort { @{ $pairs{$b} } <=> @{ $pairs{$a} } || $a cmp $b } keys %pairs)[0];
printf "%d %s %s %d %s %d\n", scalar @order, @order[0, 9], $changed, $most,
    scalar @{ $pairs{$most} };
