//! A program whose Rust memory is hakmem's, and what that says of it: cargo run --example global

use std::collections::HashMap;
use std::io;

use hakmem::Hakmem;

#[global_allocator]
static GLOBAL: Hakmem = Hakmem;

fn main() -> io::Result<()> {
    let words: HashMap<usize, String> = (0..10_000).map(|n| (n, format!("word {n}"))).collect();
    let stats = hakmem::stats()?;
    println!(
        "hakmem {}: {} words, {} bytes allocated, {} resident",
        hakmem::version(),
        words.len(),
        stats.allocated,
        stats.resident
    );
    let is = if hakmem::serves_malloc() { "" } else { "not " };
    println!("malloc is {is}hakmem's");
    Ok(())
}
