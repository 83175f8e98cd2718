//! Counts words: enough strings, maps and threads to keep an allocator busy.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

/// How often each word of `text` occurs, most frequent first, equals in alphabetical order.
pub fn count(text: &str) -> Vec<(String, usize)> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

/// Words whose letters are the same, by their letters in order; counted in `threads` threads.
pub fn anagrams(words: &[String], threads: usize) -> BTreeMap<String, Vec<String>> {
    let (sender, receiver) = mpsc::channel();
    for part in words.chunks(words.len().div_ceil(threads).max(1)) {
        let (part, sender) = (part.to_vec(), sender.clone());
        thread::spawn(move || {
            for word in part {
                let mut letters: Vec<char> = word.chars().collect();
                letters.sort_unstable();
                sender.send((letters.into_iter().collect(), word)).expect("receiver lives");
            }
        });
    }
    drop(sender);
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (letters, word) in receiver {
        groups.entry(letters).or_default().push(word);
    }
    groups.values_mut().for_each(|group| group.sort());
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_in_order() {
        let text = "b a B c a b ".repeat(20_000);
        let expected = [("b", 60_000), ("a", 40_000), ("c", 20_000)];
        assert_eq!(count(&text), expected.map(|(word, n)| (word.to_string(), n)));
    }

    #[test]
    fn blocks_cross_threads() {
        let words: Vec<String> = (0..40_000).map(|n| format!("{:05}", n * 7 % 40_000)).collect();
        let groups = anagrams(&words, 8);
        assert_eq!(groups.values().map(Vec::len).sum::<usize>(), words.len());
        assert_eq!(groups["00012"][0], "00012");
        assert_eq!(groups["00012"].len(), 20);
    }

    #[test]
    fn growing_vectors_keep_their_contents() {
        let mut rows: Vec<Vec<u64>> = vec![Vec::new(); 100];
        for n in 0..1_000_000_u64 {
            rows[(n % 100) as usize].push(n);
        }
        assert_eq!(rows.iter().flatten().sum::<u64>(), 999_999 * 500_000);
    }
}
